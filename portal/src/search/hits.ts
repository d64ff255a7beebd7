import { Award, HardDrive, KeyRound, Network, Radio, UserRound } from "lucide-react";
import type { Schemas } from "../api/client";

export type Hit = Schemas["FoundItem"];

export const HIT_ICONS = {
  endpoint: HardDrive,
  decision: Radio,
  user: UserRound,
  nas: Network,
  session: KeyRound,
  certificate: Award,
} as const;

export function hitKey(hit: Hit): string {
  return [hit.tenant, hit.kind, hit.mac, hit.user, hit.nas, hit.serial, hit.session, hit.title].join("|");
}

/** The page that shows the hit. */
export function hitTarget(hit: Hit) {
  const params = { tenant: hit.tenant };
  if (hit.mac) return { to: "/t/$tenant/devices/$mac", params: { ...params, mac: hit.mac } } as const;
  const search =
    hit.nas && hit.kind === "nas" ? { nas: hit.nas } : { who: hit.user ?? hit.serial ?? hit.title };
  return { to: "/t/$tenant/log", params, search: { ...search, period: "7d" as const } } as const;
}
