import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDashed } from "lucide-react";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { withoutSteps } from "../api/advice";
import { $api, type Schemas } from "../api/client";
import { Problem } from "../api/problem";
import { Button } from "../design/Button";
import { CloseButton, Drawer } from "../design/Dialog";
import { ErrorMessage, Message, Skeleton } from "../design/Message";
import { Pairs } from "../design/Pairs";
import { VerdictTag } from "../design/Tag";
import { Time } from "../design/Time";
import { DeviceActions } from "../devices/DeviceActions";
import { usePermissions } from "../layout/access";
import { deviceLabel, isMacOf } from "./entry";

type Decision = Schemas["DecisionDetail"];
const HISTORY_ROWS = 6;

export interface DecisionDrawerProps {
  tenant: string;
  id: string | undefined;
  onClose: () => void;
}

/** One decision with its reason, the rules that were tried, the attributes, and what to do. */
export function DecisionDrawer({ tenant, id, onClose }: DecisionDrawerProps) {
  const t = useTranslations("decision");
  return (
    <Drawer isOpen={id !== undefined} onClose={onClose} label={t("label")}>
      {id === undefined ? null : <DecisionView tenant={tenant} id={id} onClose={onClose} />}
    </Drawer>
  );
}

function DecisionView({ tenant, id, onClose }: { tenant: string; id: string; onClose: () => void }) {
  const t = useTranslations("decision");
  const { data, error, refetch } = $api.useQuery("get", "/v1/tenants/{tenant}/decisions/{decision}", {
    params: { path: { tenant, decision: id } },
  });
  if (!data) {
    return (
      <div className="decision">
        <div className="decision-head">
          <h2 className="grow">{t("label")}</h2>
          <CloseButton onPress={onClose} />
        </div>
        <div className="decision-body">
          {error ? <ErrorMessage error={error} retry={() => void refetch()} /> : <Skeleton />}
        </div>
      </div>
    );
  }
  return (
    <div className="decision">
      <div className="decision-head">
        <div className="grow">
          <div className="row">
            <VerdictTag decision={data} />
            <span className="muted small">
              <Time at={data.at} />
            </span>
          </div>
          <h2>{deviceLabel(data) || t("unknownDevice")}</h2>
        </div>
        <CloseButton onPress={onClose} />
      </div>
      <div className="decision-body">
        <Answer decision={data} />
        <Actions tenant={tenant} decision={data} />
        <Facts tenant={tenant} decision={data} />
        <Trace tenant={tenant} decision={data} />
        <History tenant={tenant} decision={data} />
        <Attributes decision={data} />
      </div>
    </div>
  );
}

/** Why the device was admitted or rejected, and what to do. */
export function Answer({
  decision,
}: {
  decision: Pick<Decision, "permitted" | "title" | "detail" | "remedy">;
}) {
  return (
    <Message tone={decision.permitted ? "good" : "bad"} title={decision.title}>
      {decision.detail ? <p>{decision.detail}</p> : null}
      {decision.remedy ? <p>{withoutSteps(decision.remedy)}</p> : null}
    </Message>
  );
}

function Actions({ tenant, decision }: { tenant: string; decision: Decision }) {
  const t = useTranslations("decision");
  const permissions = usePermissions(tenant);
  const mac = decision.mac ?? "";
  const endpoint = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/endpoints/{mac}",
    { params: { path: { tenant, mac } } },
    { enabled: mac !== "" && permissions.has("endpoint.read") },
  );
  if (!mac) return null;
  const isUnknown = endpoint.error instanceof Problem && endpoint.error.status === 404;
  return (
    <div className="row">
      <Link to="/t/$tenant/devices/$mac" params={{ tenant, mac }} className="button">
        {t("openDevice")}
      </Link>
      <DeviceActions tenant={tenant} mac={mac} endpoint={endpoint.data} isUnknown={isUnknown} />
    </div>
  );
}

function Facts({ tenant, decision }: { tenant: string; decision: Decision }) {
  const t = useTranslations("decision");
  const pairs = [
    { name: t("mac"), value: decision.mac },
    { name: t("user"), value: isMacOf(decision.user, decision.mac) ? "" : decision.user },
    { name: t("outerUser"), value: decision.outer_user },
    { name: t("nas"), value: joined(decision.nas, decision.nas_port) },
    { name: t("nasAddress"), value: decision.nas_address },
    { name: t("site"), value: decision.site },
    {
      name: t("method"),
      value: joined(decision.method, decision.tls_version && `TLS ${decision.tls_version}`),
    },
    { name: t("certificate"), value: joined(decision.certificate, decision.certificate_serial) },
    { name: t("rule"), value: decision.rule },
    {
      name: t("policy"),
      value: decision.policy_version ? t("version", { version: decision.policy_version }) : "",
    },
    { name: t("vlan"), value: decision.vlan },
    { name: t("addresses"), value: decision.addresses.join(", ") },
    { name: t("suppressed"), value: decision.suppressed || "" },
    { name: t("duration"), value: t("milliseconds", { value: decision.microseconds / 1000 }) },
    { name: t("tenant"), value: tenant },
  ];
  return (
    <section>
      <h3>{t("facts")}</h3>
      <Pairs pairs={pairs} />
    </section>
  );
}

function joined(...texts: string[]): string {
  return texts.filter(Boolean).join(", ");
}

/** The rules in the order in which the policy tried them, up to the rule that decided. */
function Trace({ tenant, decision }: { tenant: string; decision: Decision }) {
  const t = useTranslations("decision");
  const [isOpen, setOpen] = useState(false);
  const simulation = $api.useQuery(
    "post",
    "/v1/tenants/{tenant}/policy-simulations",
    { params: { path: { tenant } }, body: { decision: decision.id } },
    { enabled: isOpen },
  );
  const result = simulation.data;
  const hasChanged = result?.recorded && result.recorded.permitted !== result.permitted;
  return (
    <section>
      <div className="spread">
        <h3>{t("trace")}</h3>
        {isOpen ? null : <Button onPress={() => setOpen(true)}>{t("showTrace")}</Button>}
      </div>
      {simulation.error ? (
        <ErrorMessage error={simulation.error} retry={() => void simulation.refetch()} />
      ) : null}
      {isOpen && simulation.isPending ? <Skeleton lines={3} /> : null}
      {hasChanged ? (
        <Message tone="warn" title={result.permitted ? t("nowAdmits") : t("nowRejects")}>
          <p>{result.detail}</p>
        </Message>
      ) : null}
      {result ? (
        <ol className="trace">
          {result.trace.map((rule) => (
            <li key={rule.rule} className={rule.matched ? "hit" : "miss"}>
              {rule.matched ? <CircleCheck aria-hidden /> : <CircleDashed aria-hidden />}
              <div>
                <strong>{rule.name || rule.rule}</strong>
                <p className="small muted">{rule.sentence}</p>
              </div>
            </li>
          ))}
        </ol>
      ) : null}
    </section>
  );
}

function History({ tenant, decision }: { tenant: string; decision: Decision }) {
  const t = useTranslations("decision");
  const mac = decision.mac ?? "";
  const { data } = $api.useQuery(
    "get",
    "/v1/tenants/{tenant}/decisions",
    { params: { path: { tenant }, query: { mac, limit: HISTORY_ROWS } } },
    { enabled: mac !== "" },
  );
  if (!data || data.items.length === 0) return null;
  return (
    <section>
      <h3>{t("history")}</h3>
      <div className="table-box">
        <table className="table">
          <tbody>
            {data.items.map((each) => (
              <tr key={each.id}>
                <td>
                  <Time at={each.at} />
                </td>
                <td>
                  <VerdictTag decision={each} />
                </td>
                <td>{each.title}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Attributes({ decision }: { decision: Decision }) {
  const t = useTranslations("decision");
  return (
    <section>
      <h3>{t("reply")}</h3>
      {decision.reply.length === 0 ? <p className="muted">{t("noReply")}</p> : null}
      <Pairs
        className="small"
        pairs={decision.reply.map((each) => ({ name: each.attribute, value: <code>{each.value}</code> }))}
      />
      <h3>{t("request")}</h3>
      <pre className="attributes">{JSON.stringify(decision.request, null, 2)}</pre>
    </section>
  );
}
