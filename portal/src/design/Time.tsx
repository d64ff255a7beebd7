import { createContext, useContext, useEffect, useState } from "react";
import { useFormatter } from "use-intl";

/** The tenant's time zone, which times show on hover. null if unknown. */
export const TenantZone = createContext<string | null>(null);

const TICK_MILLISECONDS = 15_000;

/** The current time, updated a few times a minute. */
export function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), TICK_MILLISECONDS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** A time in the viewer's zone. On hover, also in the tenant's zone and in UTC. */
export function Time({ at, relative = false }: { at: string; relative?: boolean }) {
  const format = useFormatter();
  const now = useNow();
  const zone = useContext(TenantZone);
  const date = new Date(at);
  const zones = [...new Set([zone, "UTC"])].filter((each) => each !== null);
  const hover = zones
    .map(
      (each) =>
        `${format.dateTime(date, { dateStyle: "medium", timeStyle: "medium", timeZone: each })} ${each}`,
    )
    .join("\n");
  const isToday = date.toDateString() === now.toDateString();
  const shown = relative
    ? format.relativeTime(date, now)
    : isToday
      ? format.dateTime(date, { timeStyle: "medium" })
      : format.dateTime(date, { dateStyle: "medium", timeStyle: "short" });
  return (
    <time dateTime={at} title={hover}>
      {shown}
    </time>
  );
}
