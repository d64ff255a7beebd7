import { Link } from "@tanstack/react-router";
import { Award, CircleCheck, CircleX, Fingerprint, History, PencilLine, Plug, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";
import { api, type Schemas } from "../api/client";
import { usePages } from "../api/pages";
import { Button } from "../design/Button";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { Tag } from "../design/Tag";
import { Time } from "../design/Time";

type Item = Schemas["TimelineItem"];
const PAGE_ITEMS = 50;

/** What happened to a device: authentications, sessions, changes, certificates and evidence, newest first. */
export function Timeline({ tenant, mac }: { tenant: string; mac: string }) {
  const t = useTranslations("timeline");
  const { found, rows, more } = usePages(
    ["timeline", tenant, mac],
    (page, signal) =>
      api.GET("/v1/tenants/{tenant}/endpoints/{mac}/timeline", {
        params: { path: { tenant, mac }, query: page },
        signal,
      }),
    { limit: PAGE_ITEMS },
  );
  if (found.isPending) return <Skeleton />;
  if (found.error) return <ErrorMessage error={found.error} retry={() => void found.refetch()} />;
  const omitted = found.data.pages[0]?.omitted ?? [];
  return (
    <div className="stack">
      {rows.length === 0 && !found.hasNextPage ? (
        <Empty icon={<History aria-hidden />} title={t("emptyTitle")}>
          {t("emptyText")}
        </Empty>
      ) : (
        <ol className="timeline">
          {rows.map((item) => (
            <TimelineRow key={`${item.kind}/${item.id}/${item.at}`} item={item} />
          ))}
        </ol>
      )}
      {omitted.length > 0 ? (
        <p className="small muted">
          {t("omitted", { kinds: omitted.map((kind) => t(`kinds.${kind}`)).join(", ") })}
        </p>
      ) : null}
      {found.hasNextPage ? (
        <div>
          <Button isPending={found.isFetchingNextPage} onPress={more}>
            {t("more")}
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function TimelineRow({ item }: { item: Item }) {
  const t = useTranslations("timeline");
  const [tone, icon] = appearance(item);
  const { decision, change } = item;
  return (
    <li>
      <span className="small muted">
        <Time at={item.at} />
      </span>
      <span className={`line ${tone}`}>{icon}</span>
      <div>
        <div className="row">
          {decision ? (
            <Link to="." search={{ decision: decision.newest.id }} resetScroll={false}>
              {decision.newest.title}
            </Link>
          ) : (
            <span>{item.title}</span>
          )}
          {decision && decision.count > 1 ? <Tag>{t("times", { count: decision.count })}</Tag> : null}
        </div>
        <p className="small muted">{decision ? describe(decision.newest) : item.detail}</p>
        {decision && decision.count > 1 ? (
          <p className="small muted">{t.rich("since", { time: () => <Time at={decision.first_at} /> })}</p>
        ) : null}
        {change && change.differences.length > 0 ? <Differences differences={change.differences} /> : null}
      </div>
    </li>
  );
}

function describe(decision: Schemas["Decision"]): string {
  const { nas, nas_port: port, method, rule, vlan } = decision;
  return [nas, port, method, rule, vlan && `VLAN ${vlan}`].filter(Boolean).join(" · ");
}

function Differences({ differences }: { differences: Schemas["AuditDifference"][] }) {
  const t = useTranslations("timeline");
  return (
    <ul className="small muted">
      {differences.map((each) => (
        <li key={each.name} style={{ display: "block", padding: 0 }}>
          {t("difference", { name: each.name, before: shown(each.before), after: shown(each.after) })}
        </li>
      ))}
    </ul>
  );
}

function shown(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function appearance(item: Item): [string, ReactNode] {
  if (item.decision) {
    return item.decision.newest.permitted
      ? ["good", <CircleCheck key="icon" aria-hidden />]
      : ["bad", <CircleX key="icon" aria-hidden />];
  }
  if (item.session) {
    return [
      "",
      item.session.event === "started" ? <Plug key="icon" aria-hidden /> : <Unplug key="icon" aria-hidden />,
    ];
  }
  if (item.certificate) {
    return [item.certificate.event === "issued" ? "" : "warn", <Award key="icon" aria-hidden />];
  }
  if (item.change) return ["", <PencilLine key="icon" aria-hidden />];
  return ["", <Fingerprint key="icon" aria-hidden />];
}
