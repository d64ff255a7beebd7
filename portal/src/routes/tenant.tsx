import { getRouteApi } from "@tanstack/react-router";
import { TenantHomePage } from "../tenant/TenantHomePage";

const route = getRouteApi("/t/$tenant/");

export default function TenantHome() {
  return <TenantHomePage tenant={route.useParams().tenant} />;
}
