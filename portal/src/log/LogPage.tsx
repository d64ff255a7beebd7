import { Link, useNavigate } from "@tanstack/react-router";
import { Activity } from "lucide-react";
import { useEffect, useMemo } from "react";
import { useTranslations } from "use-intl";
import { api } from "../api/client";
import { PAGE_ROWS, usePages } from "../api/pages";
import { Button } from "../design/Button";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { TextFilter } from "../design/SearchBox";
import { Time } from "../design/Time";
import { Page } from "../layout/Page";
import { DecisionDrawer } from "./DecisionDrawer";
import { entryFromDecision, type LogEntry } from "./entry";
import { DEFAULT_PERIOD, type LogSearch, PERIODS, RESULTS, toQuery } from "./filters";
import { LogRows } from "./LogRows";

/** Months of authentications of one tenant, newest first. */
export function LogPage({ tenant, search }: { tenant: string; search: LogSearch }) {
  const t = useTranslations("log");
  const navigate = useNavigate();
  // The period ends when the filter is set. Otherwise each new render would ask for other rows.
  const { decision, ...filter } = search;
  const filterKey = JSON.stringify(filter);
  // biome-ignore lint/correctness/useExhaustiveDependencies: filterKey contains the filter
  const query = useMemo(() => toQuery(filter, new Date()), [filterKey]);
  const { found, rows, more } = usePages(["decisions", tenant, query], (page, signal) =>
    api.GET("/v1/tenants/{tenant}/decisions", {
      params: { path: { tenant }, query: { ...query, ...page } },
      signal,
    }),
  );
  const { hasNextPage, isFetchingNextPage } = found;
  const entries = useMemo(() => rows.map((each) => entryFromDecision(tenant, each)), [rows, tenant]);
  // A page can be empty although more rows match, because the API searches a limited number of rows at a time.
  useEffect(() => {
    if (entries.length < PAGE_ROWS / 2) more();
  }, [entries.length, more]);
  const change = (changes: Partial<LogSearch>) =>
    void navigate({
      to: ".",
      search: (before: LogSearch) => withoutEmpty({ ...before, ...changes }),
      replace: true,
    });
  const searchedTo = found.data?.pages.at(-1)?.searched_to;
  const isEmpty = entries.length === 0 && !hasNextPage && !found.isPending;
  return (
    <Page title={t("title")}>
      <LogFilters search={search} onChange={change} />
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : isEmpty ? (
          <Empty
            icon={<Activity aria-hidden />}
            title={t("emptyTitle")}
            action={
              Object.keys(filter).length > 0 ? (
                <Button onPress={() => void navigate({ to: ".", search: {} })}>{t("clearFilters")}</Button>
              ) : null
            }
          >
            {Object.keys(filter).length > 0 ? t("emptyFiltered") : t("emptyText")}
          </Empty>
        ) : (
          <LogRows
            label={t("title")}
            entries={entries}
            selectedId={decision}
            onEndReached={more}
            renderLink={(entry: LogEntry, text) => (
              <Link
                to="."
                search={(before: LogSearch) => ({ ...before, decision: entry.id })}
                className="row-link code clip"
                resetScroll={false}
              >
                {text}
              </Link>
            )}
          />
        )}
      </div>
      <p className="small muted" role="status">
        {isFetchingNextPage && searchedTo
          ? t.rich("searching", { time: () => <Time at={searchedTo} /> })
          : !hasNextPage && entries.length > 0
            ? t("end", { count: entries.length })
            : ""}
      </p>
      <DecisionDrawer tenant={tenant} id={decision} onClose={() => change({ decision: "" })} />
    </Page>
  );
}

function withoutEmpty(search: LogSearch): LogSearch {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value)) as LogSearch;
}

interface LogFiltersProps {
  search: LogSearch;
  onChange: (changes: { [K in keyof LogSearch]: LogSearch[K] | undefined }) => void;
  hidesPeriod?: boolean;
}

export function LogFilters({ search, onChange, hidesPeriod }: LogFiltersProps) {
  const t = useTranslations("log");
  const results = [
    { id: "", label: t("results.all") },
    ...RESULTS.map((id) => ({ id, label: t(`results.${id}`) })),
  ] as const;
  return (
    <search className="filters">
      <TextFilter label={t("who")} value={search.who ?? ""} onChange={(who) => onChange({ who })} />
      <TextFilter
        label={t("nasFilter")}
        value={search.nas ?? ""}
        onChange={(nas) => onChange({ nas })}
        hasIcon={false}
      />
      <SelectField
        label={t("result")}
        hideLabel
        value={search.result ?? ""}
        options={results}
        onChange={(result) => onChange({ result: result === "" ? undefined : result })}
      />
      {hidesPeriod ? null : (
        <SelectField
          label={t("period")}
          hideLabel
          value={search.period ?? DEFAULT_PERIOD}
          options={PERIODS.map((id) => ({ id, label: t(`periods.${id}`) }))}
          onChange={(period) => onChange({ period })}
        />
      )}
    </search>
  );
}
