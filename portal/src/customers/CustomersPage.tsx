import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Award, Building2, Search, WifiOff } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { api, type Schemas } from "../api/client";
import { Button } from "../design/Button";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { Sparkline } from "../design/Sparkline";
import { Tag } from "../design/Tag";
import { Time } from "../design/Time";
import { VirtualRows } from "../design/VirtualRows";
import { Page } from "../layout/Page";
import { type CustomersSearch, ORDERS, readCustomersSearch } from "./search";
import "./customers.css";

type Health = Schemas["TenantHealth"];
const PAGE_ROWS = 100;
const REFRESH_MILLISECONDS = 60_000;
const TYPING_MILLISECONDS = 300;
const MANY_REJECTS = 0.2;

/** The health of all customers at a glance. */
export function CustomersPage({ search }: { search: CustomersSearch }) {
  const t = useTranslations("customers");
  const navigate = useNavigate();
  const [text, setText] = useState(search.text ?? "");
  const query = { ...(search.text ? { text: search.text } : {}), sort: search.sort ?? "name" };
  const found = useInfiniteQuery({
    queryKey: ["tenant-health", query],
    queryFn: async ({ pageParam, signal }) => {
      const { data } = await api.GET("/v1/tenant-health", {
        params: { query: { ...query, limit: PAGE_ROWS, ...(pageParam ? { after: pageParam } : {}) } },
        signal,
      });
      // biome-ignore lint/style/noNonNullAssertion: the client throws for error responses
      return data!;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    refetchInterval: REFRESH_MILLISECONDS,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = found;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== (search.text ?? "")) {
        void navigate({
          to: "/",
          search: (before) => readCustomersSearch({ ...before, text }),
          replace: true,
        });
      }
    }, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [text, search.text, navigate]);
  return (
    <Page title={t("title")}>
      <search className="filters">
        <div className="with-icon">
          <Search aria-hidden />
          <input
            className="input"
            type="search"
            aria-label={t("find")}
            placeholder={t("find")}
            value={text}
            maxLength={200}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
        <SelectField
          label={t("order")}
          hideLabel
          value={search.sort ?? "name"}
          options={ORDERS.map((id) => ({ id, label: t(`orders.${id}`) }))}
          onChange={(sort) =>
            void navigate({ to: "/", search: (before) => readCustomersSearch({ ...before, sort }) })
          }
        />
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card customer-rows">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : rows.length === 0 && !hasNextPage ? (
          <Empty
            icon={<Building2 aria-hidden />}
            title={search.text ? t("noneFound") : t("emptyTitle")}
            action={search.text ? <Button onPress={() => setText("")}>{t("clear")}</Button> : null}
          >
            {search.text ? null : t("emptyText")}
          </Empty>
        ) : (
          <VirtualRows
            label={t("title")}
            rows={rows}
            rowKey={(row) => row.slug}
            rowHeight={56}
            onEndReached={more}
            columns={[
              { id: "name", label: t("name") },
              { id: "hours", label: t("hours"), className: "wide-only" },
              { id: "rejects", label: t("rejects") },
              { id: "attention", label: t("attention") },
              { id: "last", label: t("lastRequest"), className: "wide-only" },
            ]}
            renderCells={(row) => [
              <span key="name" className="two-lines">
                <Link to="/t/$tenant" params={{ tenant: row.slug }} className="row-link clip">
                  {row.name || row.slug}
                </Link>
                <span className="muted small clip">{row.msp ?? row.slug}</span>
              </span>,
              row.hours ? <Sparkline key="hours" hours={row.hours} /> : null,
              <Rejects key="rejects" row={row} />,
              <Attention key="attention" row={row} />,
              row.last_request_at ? <Time key="last" at={row.last_request_at} relative /> : t("never"),
            ]}
          />
        )}
      </div>
    </Page>
  );
}

function Rejects({ row }: { row: Health }) {
  const format = useFormatter();
  if (row.reject_rate === null) return <span className="muted">–</span>;
  const share = format.number(row.reject_rate, { style: "percent", maximumFractionDigits: 1 });
  return row.reject_rate >= MANY_REJECTS ? <Tag tone="bad">{share}</Tag> : <span>{share}</span>;
}

/** What needs attention: state of the tenant, silent switches, expiring certificates. */
function Attention({ row }: { row: Health }) {
  const t = useTranslations("customers");
  const tags: ReactNode[] = [];
  if (row.state === "trial") {
    tags.push(
      <Tag key="trial" tone="neutral">
        {t("trial")}
      </Tag>,
    );
  } else if (row.state !== "active") {
    tags.push(
      <Tag key="state" tone="warn">
        {t(`states.${row.state}`)}
      </Tag>,
    );
  }
  if (row.silent_nases) {
    tags.push(
      <Tag key="silent" tone="bad" icon={<WifiOff aria-hidden />}>
        {t("silent", { count: row.silent_nases })}
      </Tag>,
    );
  }
  if (row.expiring_certificates) {
    tags.push(
      <Tag key="expiring" tone="warn" icon={<Award aria-hidden />}>
        {t("expiring", { count: row.expiring_certificates })}
      </Tag>,
    );
  }
  return <span className="row">{tags}</span>;
}
