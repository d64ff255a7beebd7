import { getRouteApi } from "@tanstack/react-router";
import { LivePage } from "../log/LivePage";

const route = getRouteApi("/log");

export default function Live() {
  return <LivePage tenant={null} search={route.useSearch()} />;
}
