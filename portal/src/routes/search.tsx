import { getRouteApi } from "@tanstack/react-router";
import { SearchPage } from "../search/SearchPage";

const route = getRouteApi("/search");

export default function Search() {
  return <SearchPage text={route.useSearch().text} />;
}
