/** One authentication in a list: from the log, or from the live event stream. */

import type { Schemas } from "../api/client";

export interface LogEntry {
  id: string;
  /** Slug of the tenant. */
  tenant: string;
  at: string;
  verdict: string;
  permitted: boolean;
  monitored_by: string | null;
  mac: string | null;
  user: string;
  nas: string;
  nasPort: string;
  site: string | null;
  method: string;
  reason: string;
  title: string;
  rule: string;
  vlan: string;
}

export function entryFromDecision(tenant: string, decision: Schemas["Decision"]): LogEntry {
  return { ...decision, tenant, nasPort: decision.nas_port };
}

/** The fields of an event that the portal reads (docs/reference/events.md). */
export interface DecisionEvent {
  "@timestamp": string;
  event: { id: string; type?: string[]; code?: string; reason?: string };
  organization?: { name?: string };
  user?: { name?: string };
  client?: { mac?: string };
  observer?: { name?: string; ip?: string[]; ingress?: { interface?: { name?: string } } };
  rule?: { name?: string };
  network?: { vlan?: { id?: string } };
  admit: {
    kind: string;
    method?: string;
    verdict?: string;
    monitored_by?: string;
    site?: { name?: string };
  };
}

export function entryFromEvent(event: DecisionEvent): LogEntry {
  return {
    id: event.event.id.slice(event.event.id.indexOf(":") + 1),
    tenant: event.organization?.name ?? "",
    at: event["@timestamp"],
    verdict: event.admit.verdict ?? "",
    permitted: !(event.event.type ?? []).includes("denied"),
    monitored_by: event.admit.monitored_by ?? null,
    mac: event.client?.mac?.replaceAll("-", ":").toLowerCase() ?? null,
    user: event.user?.name ?? "",
    nas: event.observer?.name ?? event.observer?.ip?.[0] ?? "",
    nasPort: event.observer?.ingress?.interface?.name ?? "",
    site: event.admit.site?.name ?? null,
    method: event.admit.method ?? "",
    reason: event.event.code ?? "",
    title: event.event.reason ?? "",
    rule: event.rule?.name ?? "",
    vlan: event.network?.vlan?.id ?? "",
  };
}

const MAC = /^([0-9a-f]{2}[:-]?){5}[0-9a-f]{2}$|^([0-9a-f]{4}\.){2}[0-9a-f]{4}$/i;

/** The MAC address as aa:bb:cc:dd:ee:ff, or "" if the text is no MAC address. */
export function parseMac(text: string): string {
  if (!MAC.test(text.trim())) return "";
  const digits = text.replaceAll(/[^0-9a-f]/gi, "").toLowerCase();
  return (digits.match(/../g) ?? []).join(":");
}

/** Whether the user name is only the MAC address. In MAC authentication, the switch sends the address as user name. */
export function isMacOf(user: string, mac: string | null): boolean {
  return mac !== null && parseMac(user) === mac;
}

/** The user, or the MAC address without a user; "" if both are unknown. */
export function deviceLabel(entry: { user: string; mac: string | null }): string {
  return isMacOf(entry.user, entry.mac) ? (entry.mac ?? "") : entry.user || (entry.mac ?? "");
}
