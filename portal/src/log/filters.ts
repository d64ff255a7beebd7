/** The filters of the log in the page's address. Empty filters are absent. */

import type { paths } from "../api/schema";
import { parseMac } from "./entry";

type Reason = NonNullable<
  NonNullable<paths["/v1/tenants/{tenant}/decisions"]["get"]["parameters"]["query"]>["reason"]
>;

export const RESULTS = ["rejects", "quarantine", "monitored"] as const;
export type Result = (typeof RESULTS)[number];
export const PERIODS = ["1h", "24h", "7d", "30d", "all"] as const;
export type Period = (typeof PERIODS)[number];
export const DEFAULT_PERIOD: Period = "24h";

const PERIOD_HOURS: Record<Exclude<Period, "all">, number> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

export interface LogSearch {
  /** MAC address, user name, or name or serial number of a certificate. */
  who?: string;
  nas?: string;
  result?: Result;
  reason?: string;
  period?: Period;
  /** Id of the decision that is open. */
  decision?: string;
}

export function readLogSearch(raw: Record<string, unknown>): LogSearch {
  const found: LogSearch = {};
  for (const name of ["who", "nas", "reason", "decision"] as const) {
    const value = raw[name];
    if ((typeof value === "string" || typeof value === "number") && value !== "") found[name] = String(value);
  }
  const result = RESULTS.find((each) => each === raw.result);
  if (result) found.result = result;
  const period = PERIODS.find((each) => each === raw.period);
  if (period) found.period = period;
  return found;
}

/** Start of the period, rounded to the minute so that repeated requests are the same. */
export function startOfPeriod(period: Period, now: Date): Date | null {
  if (period === "all") return null;
  const minute = Math.floor(now.getTime() / 60_000) * 60_000;
  return new Date(minute - PERIOD_HOURS[period] * 3_600_000);
}

export interface DecisionQuery {
  mac?: string;
  user?: string;
  nas?: string;
  rejects?: boolean;
  monitored?: boolean;
  verdict?: "quarantine";
  reason?: Reason;
  since?: string;
}

export function toQuery(search: LogSearch, now: Date): DecisionQuery {
  const query: DecisionQuery = {};
  const who = search.who?.trim() ?? "";
  const mac = parseMac(who);
  if (mac) query.mac = mac;
  else if (who) query.user = who;
  if (search.nas) query.nas = search.nas;
  if (search.reason) query.reason = search.reason as Reason;
  if (search.result === "rejects") query.rejects = true;
  if (search.result === "quarantine") query.verdict = "quarantine";
  if (search.result === "monitored") query.monitored = true;
  const since = startOfPeriod(search.period ?? DEFAULT_PERIOD, now);
  if (since) query.since = since.toISOString();
  return query;
}
