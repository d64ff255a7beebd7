import { getRouteApi } from "@tanstack/react-router";
import { CustomersPage } from "../customers/CustomersPage";

const route = getRouteApi("/");

export default function Home() {
  return <CustomersPage search={route.useSearch()} />;
}
