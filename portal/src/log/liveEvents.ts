/** The live event stream (server-sent events) as React state. */

import { useEffect, useRef, useState } from "react";
import { type DecisionEvent, entryFromEvent, type LogEntry } from "./entry";

export const MAX_ENTRIES = 1_000;
// The page renders new events a few times a second, however many arrive.
const FLUSH_MILLISECONDS = 250;
const RETRY_MILLISECONDS = 5_000;

export type StreamState = "connecting" | "open" | "broken";

export interface Sampled {
  shown: number;
  /** Number of events in the last second that the server left out. */
  omitted: number;
}

export interface LiveEvents {
  state: StreamState;
  /** Newest first. */
  entries: readonly LogEntry[];
  /** Number of entries that arrived while the view was paused. */
  waiting: number;
  sampled: Sampled | null;
  /** Whether no RADIUS server sends events. */
  isSilent: boolean;
}

interface Notice {
  notice: "listening" | "silent" | "left-out" | "lost" | "back" | "sampled";
  shown?: number;
  count?: number;
}

const NOTHING: LiveEvents = { state: "connecting", entries: [], waiting: 0, sampled: null, isSilent: false };

/** Listen to the stream at `url`. While `isPaused`, new entries wait. */
export function useLiveEvents(url: string, isPaused: boolean): LiveEvents {
  const [shown, setShown] = useState(NOTHING);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  useEffect(() => {
    let source: EventSource | null = null;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let arrived: LogEntry[] = [];
    let seen = new Set<string>();
    let sampled: Sampled | null = null;
    let sampledAt = 0;
    let isSilent = false;
    let state: StreamState = "connecting";
    setShown(NOTHING);
    const listen = () => {
      source = new EventSource(url);
      source.onopen = () => {
        state = "open";
      };
      source.onerror = () => {
        state = "broken";
        // The browser reconnects by itself, unless the server refused the stream.
        if (source?.readyState === EventSource.CLOSED) retry = setTimeout(listen, RETRY_MILLISECONDS);
      };
      source.addEventListener("authentication", (message: MessageEvent<string>) => {
        const entry = entryFromEvent(JSON.parse(message.data) as DecisionEvent);
        // After a reconnection, the server can send events again.
        const key = `${entry.tenant}/${entry.id}`;
        if (seen.has(key)) return;
        seen.add(key);
        if (seen.size > 2 * MAX_ENTRIES) seen = new Set([...seen].slice(-MAX_ENTRIES));
        arrived.push(entry);
        if (arrived.length > MAX_ENTRIES) arrived = arrived.slice(-MAX_ENTRIES);
      });
      source.addEventListener("notice", (message: MessageEvent<string>) => {
        const notice = JSON.parse(message.data) as Notice;
        if (notice.notice === "sampled") {
          sampled = { shown: notice.shown ?? 0, omitted: notice.count ?? 0 };
          sampledAt = performance.now();
        } else if (notice.notice === "silent") isSilent = true;
        else if (notice.notice === "listening") isSilent = false;
      });
    };
    listen();
    const timer = setInterval(() => {
      if (sampled && performance.now() - sampledAt > 2_000) sampled = null;
      setShown((before) => {
        const common = { state, sampled, isSilent };
        if (paused.current || arrived.length === 0) {
          const isSame =
            before.state === state &&
            before.sampled === sampled &&
            before.isSilent === isSilent &&
            before.waiting === arrived.length;
          return isSame ? before : { ...before, ...common, waiting: arrived.length };
        }
        const entries = [...arrived.toReversed(), ...before.entries].slice(0, MAX_ENTRIES);
        arrived = [];
        return { ...common, entries, waiting: 0 };
      });
    }, FLUSH_MILLISECONDS);
    return () => {
      clearInterval(timer);
      clearTimeout(retry);
      source?.close();
    };
  }, [url]);
  return shown;
}
