import { Link, useNavigate } from "@tanstack/react-router";
import { Award, Building2, WifiOff } from "lucide-react";
import type { ReactNode } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { api, type Schemas } from "../api/client";
import { usePages } from "../api/pages";
import { Button } from "../design/Button";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { TextFilter } from "../design/SearchBox";
import { Sparkline } from "../design/Sparkline";
import { Tag } from "../design/Tag";
import { Time } from "../design/Time";
import { VirtualRows } from "../design/VirtualRows";
import { Page } from "../layout/Page";
import { type CustomersSearch, ORDERS, readCustomersSearch } from "./search";
import "./customers.css";

type Health = Schemas["TenantHealth"];
const REFRESH_MILLISECONDS = 60_000;
const MANY_REJECTS = 0.2;

/** The health of all customers at a glance. */
export function CustomersPage({ search }: { search: CustomersSearch }) {
  const t = useTranslations("customers");
  const navigate = useNavigate();
  const { text = "", sort = "name" } = search;
  const { found, rows, more } = usePages(
    ["tenant-health", text, sort],
    (page, signal) => api.GET("/v1/tenant-health", { params: { query: { text, sort, ...page } }, signal }),
    { refetchInterval: REFRESH_MILLISECONDS },
  );
  const change = (changes: CustomersSearch) =>
    void navigate({
      to: "/",
      search: (before) => readCustomersSearch({ ...before, ...changes }),
      replace: true,
    });
  return (
    <Page title={t("title")}>
      <search className="filters">
        <TextFilter label={t("find")} value={text} onChange={(value) => change({ text: value })} />
        <SelectField
          label={t("order")}
          hideLabel
          value={sort}
          options={ORDERS.map((id) => ({ id, label: t(`orders.${id}`) }))}
          onChange={(order) => change({ sort: order })}
        />
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card customer-rows">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : rows.length === 0 && !found.hasNextPage ? (
          <Empty
            icon={<Building2 aria-hidden />}
            title={text ? t("noneFound") : t("emptyTitle")}
            action={text ? <Button onPress={() => change({ text: "" })}>{t("clear")}</Button> : null}
          >
            {text ? null : t("emptyText")}
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
