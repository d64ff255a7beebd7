import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDashed } from "lucide-react";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { $api, type Schemas } from "../api/client";
import { Problem } from "../api/problem";
import { Button } from "../design/Button";
import { CloseButton, Drawer } from "../design/Dialog";
import { ErrorMessage, Message, Skeleton } from "../design/Message";
import { VerdictTag } from "../design/Tag";
import { Time } from "../design/Time";
import { DeviceActions } from "../devices/DeviceActions";
import { usePermissions } from "../layout/access";

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
          <h2>{data.user || data.mac || t("unknownDevice")}</h2>
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
export function Answer({ decision }: { decision: Pick<Decision, "permitted" | "title" | "detail" | "remedy"> }) {
  return (
    <Message tone={decision.permitted ? "good" : "bad"} title={decision.title}>
      {decision.detail ? <p>{decision.detail}</p> : null}
      {decision.remedy ? <p>{decision.remedy}</p> : null}
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
  const facts: [string, string][] = [
    [t("mac"), decision.mac ?? ""],
    [t("user"), decision.user],
    [t("outerUser"), decision.outer_user],
    [t("nas"), [decision.nas, decision.nas_port].filter(Boolean).join(", ")],
    [t("nasAddress"), decision.nas_address ?? ""],
    [t("site"), decision.site ?? ""],
    [t("method"), [decision.method, decision.tls_version && `TLS ${decision.tls_version}`].filter(Boolean).join(", ")],
    [t("certificate"), [decision.certificate, decision.certificate_serial].filter(Boolean).join(", ")],
    [t("rule"), decision.rule],
    [t("policy"), decision.policy ? t("policyVersion", { policy: decision.policy, version: decision.policy_version }) : ""],
    [t("vlan"), decision.vlan],
    [t("addresses"), decision.addresses.join(", ")],
    [t("suppressed"), decision.suppressed ? String(decision.suppressed) : ""],
    [t("duration"), t("milliseconds", { value: decision.microseconds / 1000 })],
    [t("tenant"), tenant],
  ];
  return (
    <section>
      <h3>{t("facts")}</h3>
      <dl className="pairs">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name} style={{ display: "contents" }}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
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
      {simulation.error ? <ErrorMessage error={simulation.error} retry={() => void simulation.refetch()} /> : null}
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
      <dl className="pairs small">
        {decision.reply.map((each) => (
          <div key={`${each.attribute}${each.value}`} style={{ display: "contents" }}>
            <dt className="code">{each.attribute}</dt>
            <dd className="code">{each.value}</dd>
          </div>
        ))}
      </dl>
      <h3>{t("request")}</h3>
      <pre className="attributes">{JSON.stringify(decision.request, null, 2)}</pre>
    </section>
  );
}
