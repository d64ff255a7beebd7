import { Link, useNavigate } from "@tanstack/react-router";
import { Pause, Play, Radio } from "lucide-react";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { Button } from "../design/Button";
import { Empty, Message } from "../design/Message";
import { Page } from "../layout/Page";
import { DecisionDrawer } from "./DecisionDrawer";
import { type LogSearch, toQuery } from "./filters";
import { LogFilters } from "./LogPage";
import { LogRows } from "./LogRows";
import { MAX_ENTRIES, useLiveEvents } from "./liveEvents";

/** Authentications as they happen, of one tenant or of all tenants. */
export function LivePage({ tenant, search }: { tenant: string | null; search: LogSearch }) {
  const t = useTranslations("live");
  const navigate = useNavigate();
  const [isPaused, setPaused] = useState(false);
  const live = useLiveEvents(streamUrl(tenant, search), isPaused);
  // The id of a decision is unique within its tenant.
  const [openTenant, setOpenTenant] = useState(tenant ?? "");
  const change = (changes: { [K in keyof LogSearch]: LogSearch[K] | undefined }) =>
    void navigate({
      to: ".",
      search: (before: LogSearch) =>
        Object.fromEntries(
          Object.entries({ ...before, ...changes }).filter(([, value]) => value),
        ) as LogSearch,
      replace: true,
      resetScroll: false,
    });
  const dot = live.state === "broken" ? "warn" : live.state === "open" ? "on" : "";
  return (
    <Page
      title={tenant === null ? t("titleAll") : t("title")}
      actions={
        <Button
          icon={isPaused ? <Play aria-hidden /> : <Pause aria-hidden />}
          onPress={() => setPaused(!isPaused)}
        >
          {isPaused ? t("resume", { count: live.waiting }) : t("pause")}
        </Button>
      }
    >
      <LogFilters search={search} onChange={change} hidesPeriod />
      <div className="live-bar small muted" role="status">
        <span className="row">
          <span className={`live-dot ${dot}`} />
          {t(`states.${live.state}`)}
        </span>
        {live.sampled ? (
          <span>
            {t("sampled", { shown: live.sampled.shown, all: live.sampled.shown + live.sampled.omitted })}
          </span>
        ) : null}
        {live.entries.length === MAX_ENTRIES ? <span>{t("full", { count: MAX_ENTRIES })}</span> : null}
      </div>
      {live.isSilent ? (
        <Message tone="warn" title={t("silentTitle")}>
          <p>{t("silentText")}</p>
        </Message>
      ) : null}
      <div className="card">
        {live.entries.length === 0 ? (
          <Empty icon={<Radio aria-hidden />} title={t("emptyTitle")}>
            {t("emptyText")}
          </Empty>
        ) : (
          <LogRows
            label={t("title")}
            entries={live.entries}
            showsTenant={tenant === null}
            selectedId={search.decision}
            renderLink={(entry, text) => (
              <Link
                to="."
                search={(before: LogSearch) => ({ ...before, decision: entry.id })}
                onClick={() => setOpenTenant(entry.tenant)}
                className="row-link code clip"
                resetScroll={false}
                preload={false}
              >
                {text}
              </Link>
            )}
          />
        )}
      </div>
      <DecisionDrawer
        tenant={tenant ?? openTenant}
        id={openTenant || tenant ? search.decision : undefined}
        onClose={() => change({ decision: undefined })}
      />
    </Page>
  );
}

function streamUrl(tenant: string | null, search: LogSearch): string {
  const {
    since: _,
    reason: __,
    monitored: ___,
    ...query
  } = toQuery({ ...search, period: "all" }, new Date());
  const parameters = new URLSearchParams({ kind: "authentication" });
  for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
  const path = tenant === null ? "/v1/events" : `/v1/tenants/${encodeURIComponent(tenant)}/events`;
  return `${path}?${parameters}`;
}
