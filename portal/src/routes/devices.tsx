import { getRouteApi } from "@tanstack/react-router";
import { DevicesPage } from "../devices/DevicesPage";

const route = getRouteApi("/t/$tenant/devices");

export default function Devices() {
  const { tenant } = route.useParams();
  return <DevicesPage key={tenant} tenant={tenant} search={route.useSearch()} />;
}
