/** What the signed-in person may do, and where. */

import type { Schemas } from "../api/client";
import { $api } from "../api/client";

export type Grant = Schemas["Grant"];

/** The person's permissions at a tenant. `mspId` is the id of the tenant's MSP. */
export function permissionsAt(
  grants: readonly Grant[],
  tenant: { slug: string; msp_id: string },
): Set<string> {
  const found = new Set<string>();
  for (const grant of grants) {
    const applies =
      grant.on === "platform" ||
      (grant.on === "tenant" && grant.tenant === tenant.slug) ||
      (grant.on === "msp" &&
        grant.msp_id === tenant.msp_id &&
        (grant.tenant_slugs === null || grant.tenant_slugs.includes(tenant.slug)));
    if (applies) for (const permission of grant.permissions) found.add(permission);
  }
  return found;
}

export function useGrants(): readonly Grant[] {
  const { data } = $api.useQuery("get", "/v1/grants", {}, { staleTime: 60_000 });
  return data?.grants ?? [];
}

/** Whether the person has the permission anywhere. */
export function usePermissionAnywhere(permission: string): boolean {
  return useGrants().some((grant) => grant.permissions.includes(permission));
}

export function useTenant(slug: string) {
  return $api.useQuery(
    "get",
    "/v1/tenants/{tenant}",
    { params: { path: { tenant: slug } } },
    { staleTime: 60_000 },
  );
}

/** The person's permissions at the tenant; empty until they are known. */
export function usePermissions(slug: string): Set<string> {
  const grants = useGrants();
  const { data } = useTenant(slug);
  return data ? permissionsAt(grants, data) : new Set();
}
