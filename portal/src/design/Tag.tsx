import { Check, CircleSlash, ShieldAlert, X } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";

export type Tone = "good" | "bad" | "warn" | "neutral";

export function Tag({
  tone = "neutral",
  icon,
  children,
}: {
  tone?: Tone;
  icon?: ReactNode;
  children: ReactNode;
}) {
  return (
    <span className={`tag ${tone}`}>
      {icon}
      {children}
    </span>
  );
}

export interface VerdictLike {
  verdict: string;
  permitted: boolean;
  monitored_by: string | null;
}

/** Whether the device was admitted, in words and with an icon, so that nobody depends on the colour. */
export function VerdictTag({ decision }: { decision: VerdictLike }) {
  const t = useTranslations("verdict");
  if (decision.permitted && decision.monitored_by && decision.verdict === "deny") {
    return (
      <Tag tone="warn" icon={<CircleSlash aria-hidden />}>
        {t("wouldReject")}
      </Tag>
    );
  }
  if (decision.permitted && decision.verdict === "quarantine") {
    return (
      <Tag tone="warn" icon={<ShieldAlert aria-hidden />}>
        {t("quarantined")}
      </Tag>
    );
  }
  return decision.permitted ? (
    <Tag tone="good" icon={<Check aria-hidden />}>
      {t("admitted")}
    </Tag>
  ) : (
    <Tag tone="bad" icon={<X aria-hidden />}>
      {t("rejected")}
    </Tag>
  );
}
