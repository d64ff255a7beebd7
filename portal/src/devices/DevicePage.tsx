import { Link, useNavigate } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { $api, type Schemas } from "../api/client";
import { Problem } from "../api/problem";
import { ErrorMessage, Message, Skeleton } from "../design/Message";
import { type Pair, Pairs } from "../design/Pairs";
import { VerdictTag } from "../design/Tag";
import { Time } from "../design/Time";
import { usePermissions } from "../layout/access";
import { Page } from "../layout/Page";
import { Answer, DecisionDrawer } from "../log/DecisionDrawer";
import { DeviceActions } from "./DeviceActions";
import { StatusTag } from "./DevicesPage";
import { Timeline } from "./Timeline";

export interface DeviceSearch {
  decision?: string;
}

/** One device: whether it gets on the network, its history, and what a help desk may do. */
export function DevicePage({ tenant, mac, search }: { tenant: string; mac: string; search: DeviceSearch }) {
  const t = useTranslations("device");
  const navigate = useNavigate();
  const permissions = usePermissions(tenant);
  const endpoint = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/endpoints/{mac}",
    { params: { path: { tenant, mac } } },
    { enabled: permissions.has("endpoint.read") },
  );
  const newest = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/decisions",
    { params: { path: { tenant }, query: { mac, limit: 1 } } },
    { enabled: permissions.has("log.read"), refetchInterval: 10_000 },
  );
  const isUnknown = endpoint.error instanceof Problem && endpoint.error.status === 404;
  const last = newest.data?.items[0];
  return (
    <Page
      title={endpoint.data?.name || mac}
      sub={
        <span className="row">
          {endpoint.data?.name ? <span className="code">{mac}</span> : null}
          {endpoint.data ? <StatusTag status={endpoint.data.status} /> : null}
        </span>
      }
      actions={<DeviceActions tenant={tenant} mac={mac} endpoint={endpoint.data} isUnknown={isUnknown} />}
    >
      {endpoint.error && !isUnknown ? (
        <ErrorMessage error={endpoint.error} retry={() => void endpoint.refetch()} />
      ) : null}
      {isUnknown ? (
        <Message title={t("unknownTitle")}>
          <p>{t("unknownText")}</p>
        </Message>
      ) : null}
      {last ? (
        <section className="stack">
          <div className="row">
            <h2>{t("lastDecision")}</h2>
            <VerdictTag decision={last} />
            <span className="muted small">
              <Time at={last.at} relative /> · {[last.nas, last.nas_port].filter(Boolean).join(", ")}
            </span>
            <Link to="." search={{ decision: last.id }} resetScroll={false}>
              {t("details")}
            </Link>
          </div>
          <Answer decision={last} />
        </section>
      ) : null}
      <div className="device-grid">
        <section className="card">
          <header>
            <h2>{t("timeline")}</h2>
          </header>
          <div className="body">
            <Timeline tenant={tenant} mac={mac} />
          </div>
        </section>
        <section className="card">
          <header>
            <h2>{t("facts")}</h2>
          </header>
          <div className="body">
            {endpoint.data ? (
              <DeviceFacts endpoint={endpoint.data} />
            ) : isUnknown ? (
              <p>{t("noFacts")}</p>
            ) : (
              <Skeleton />
            )}
          </div>
        </section>
      </div>
      <DecisionDrawer
        tenant={tenant}
        id={search.decision}
        onClose={() => void navigate({ to: ".", search: {}, resetScroll: false })}
      />
    </Page>
  );
}

function DeviceFacts({ endpoint }: { endpoint: Schemas["Endpoint"] }) {
  const t = useTranslations("device");
  const facts: Pair[] = [
    { name: t("groups"), value: endpoint.groups.join(", ") },
    { name: t("owner"), value: endpoint.owner },
    {
      name: t("profile"),
      value:
        endpoint.profile &&
        t("confidence", { profile: endpoint.profile, value: endpoint.profile_confidence }),
    },
    { name: t("vendor"), value: endpoint.vendor },
    { name: t("os"), value: endpoint.os },
    { name: t("model"), value: endpoint.model },
    { name: t("random"), value: endpoint.random ? t("yes") : "" },
    { name: t("passphrase"), value: endpoint.psk ? t("yes") : "" },
    { name: t("validUntil"), value: endpoint.valid_until ? <Time at={endpoint.valid_until} /> : "" },
    { name: t("firstSeen"), value: endpoint.first_seen_at ? <Time at={endpoint.first_seen_at} /> : "" },
    { name: t("lastSeen"), value: endpoint.last_seen_at ? <Time at={endpoint.last_seen_at} /> : t("never") },
    { name: t("notes"), value: endpoint.notes },
    ...Object.entries(endpoint.attributes).map(([name, value]) => ({ name, value })),
  ];
  return <Pairs pairs={facts} />;
}
