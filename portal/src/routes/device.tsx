import { getRouteApi } from "@tanstack/react-router";
import { DevicePage } from "../devices/DevicePage";

const route = getRouteApi("/t/$tenant/devices/$mac");

export default function Device() {
  const { tenant, mac } = route.useParams();
  return <DevicePage key={`${tenant}/${mac}`} tenant={tenant} mac={mac} search={route.useSearch()} />;
}
