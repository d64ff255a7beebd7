import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import { useMemo, useState } from "react";
import { useFormatter, useTranslations } from "use-intl";
import { withoutSteps } from "../api/advice";
import { $api } from "../api/client";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { RequestChart } from "../design/RequestChart";
import { usePermissions, useTenant } from "../layout/access";
import { Page } from "../layout/Page";

const SPANS = { hour: 3_600_000, day: 24 * 3_600_000, week: 7 * 24 * 3_600_000 };
const INTERVALS = { hour: "minute", day: "hour", week: "hour" } as const;
type Span = keyof typeof SPANS;
const REFRESH_MILLISECONDS = 30_000;
const MINUTE_MILLISECONDS = 60_000;

/** How the customer's network does: requests over time, and why devices are rejected. */
export function TenantHomePage({ tenant }: { tenant: string }) {
  const t = useTranslations("tenantHome");
  const { data, error } = useTenant(tenant);
  const permissions = usePermissions(tenant);
  const [span, setSpan] = useState<Span>("day");
  return (
    <Page
      title={data?.name || tenant}
      actions={
        <>
          <a className="button" href={`/start/${tenant}`}>
            {t("firstSteps")}
          </a>
          <SelectField
            label={t("span")}
            hideLabel
            value={span}
            options={(Object.keys(SPANS) as Span[]).map((id) => ({ id, label: t(`spans.${id}`) }))}
            onChange={setSpan}
          />
        </>
      }
    >
      {error ? <ErrorMessage error={error} /> : null}
      {permissions.has("log.read") ? (
        <>
          <Requests tenant={tenant} span={span} />
          <RejectReasons tenant={tenant} span={span} />
        </>
      ) : null}
    </Page>
  );
}

/** Start of the span, by the minute, so that repeated requests are the same. */
function useSince(span: Span): string {
  return useMemo(() => {
    const minute = Math.floor(Date.now() / MINUTE_MILLISECONDS) * MINUTE_MILLISECONDS;
    return new Date(minute - SPANS[span]).toISOString();
  }, [span]);
}

function Requests({ tenant, span }: { tenant: string; span: Span }) {
  const t = useTranslations("tenantHome");
  const v = useTranslations("verdict");
  const format = useFormatter();
  const since = useSince(span);
  const { data, error, refetch } = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/decision-counts",
    { params: { path: { tenant }, query: { since, interval: INTERVALS[span] } } },
    { refetchInterval: REFRESH_MILLISECONDS },
  );
  const labels = useMemo(
    () => ({
      time: t("time"),
      permitted: v("admitted"),
      quarantined: v("quarantined"),
      rejected: v("rejected"),
    }),
    [t, v],
  );
  if (error) return <ErrorMessage error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton />;
  const sum = (name: "permitted" | "quarantined" | "rejected") =>
    data.items.reduce((all, item) => all + item[name], 0);
  const figures = [
    [v("admitted"), sum("permitted")],
    [v("quarantined"), sum("quarantined")],
    [v("rejected"), sum("rejected")],
  ] as const;
  return (
    <section className="card">
      <header>
        <h2>{t("requests")}</h2>
      </header>
      <div className="body stack">
        <dl className="row">
          {figures.map(([name, value]) => (
            <div key={name} className="grow">
              <dt className="muted small">{name}</dt>
              <dd className="figure">{format.number(value)}</dd>
            </div>
          ))}
        </dl>
        <RequestChart
          points={data.items}
          labels={labels}
          summary={t("summary", { permitted: sum("permitted"), rejected: sum("rejected") })}
        />
      </div>
    </section>
  );
}

function RejectReasons({ tenant, span }: { tenant: string; span: Span }) {
  const t = useTranslations("tenantHome");
  const format = useFormatter();
  const since = useSince(span);
  const { data, error, refetch } = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/reject-reasons",
    { params: { path: { tenant }, query: { since } } },
    { refetchInterval: REFRESH_MILLISECONDS },
  );
  if (error) return <ErrorMessage error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton />;
  return (
    <section className="card flush">
      <header>
        <h2>{t("reasons")}</h2>
      </header>
      <div className="body">
        {data.items.length === 0 ? (
          <Empty icon={<CircleCheck aria-hidden />} title={t("noRejects")} />
        ) : (
          <div className="table-box">
            <table className="table">
              <thead>
                <tr>
                  <th>{t("reason")}</th>
                  <th className="right">{t("count")}</th>
                  <th className="right">{t("share")}</th>
                  <th>{t("remedy")}</th>
                </tr>
              </thead>
              <tbody>
                {data.items.map((item) => (
                  <tr key={item.reason}>
                    <td>
                      <Link
                        to="/t/$tenant/log"
                        params={{ tenant }}
                        search={{
                          reason: item.reason,
                          period: span === "hour" ? "1h" : span === "day" ? "24h" : "7d",
                        }}
                      >
                        {item.title}
                      </Link>
                    </td>
                    <td className="right">{format.number(item.count)}</td>
                    <td className="right">{format.number(item.share, { style: "percent" })}</td>
                    <td className="muted">{withoutSteps(item.remedy)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </section>
  );
}
