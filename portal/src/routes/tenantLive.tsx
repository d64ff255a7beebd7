import { getRouteApi } from "@tanstack/react-router";
import { LivePage } from "../log/LivePage";

const route = getRouteApi("/t/$tenant/live");

export default function TenantLive() {
  return <LivePage tenant={route.useParams().tenant} search={route.useSearch()} />;
}
