import { getRouteApi } from "@tanstack/react-router";
import { LogPage } from "../log/LogPage";

const route = getRouteApi("/t/$tenant/log");

export default function TenantLog() {
  const { tenant } = route.useParams();
  return <LogPage key={tenant} tenant={tenant} search={route.useSearch()} />;
}
