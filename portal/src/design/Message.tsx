import { CircleAlert, CircleCheck, Info, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";
import { isOffline, Problem } from "../api/problem";
import { Button } from "./Button";

const ICONS = { good: CircleCheck, bad: CircleAlert, warn: TriangleAlert, neutral: Info };

export interface MessageProps {
  tone?: keyof typeof ICONS;
  title: ReactNode;
  children?: ReactNode;
  actions?: ReactNode;
}

export function Message({ tone = "neutral", title, children, actions }: MessageProps) {
  const Icon = ICONS[tone];
  return (
    <div className={`message ${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon aria-hidden />
      <div className="text grow">
        <strong>{title}</strong>
        {children}
        {actions ? <div className="row">{actions}</div> : null}
      </div>
    </div>
  );
}

/** What failed and what to do about it. */
export function ErrorMessage({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useTranslations("errors");
  const problem = error instanceof Problem ? error : null;
  const title = problem ? problem.detail : isOffline(error) ? t("offline") : t("unexpected");
  return (
    <Message tone="bad" title={title} actions={retry ? <Button onPress={retry}>{t("retry")}</Button> : null}>
      {problem?.remedy ? <p>{problem.remedy}</p> : null}
      {problem && problem.status >= 500 && problem.requestId ? (
        <p className="small muted">{t("requestId", { id: problem.requestId })}</p>
      ) : null}
    </Message>
  );
}

export interface EmptyProps {
  icon: ReactNode;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}

/** Shown instead of an empty list. Says what to do next. */
export function Empty({ icon, title, children, action }: EmptyProps) {
  return (
    <div className="empty">
      {icon}
      <h2>{title}</h2>
      {children ? <p>{children}</p> : null}
      {action}
    </div>
  );
}

export function Skeleton({ lines = 5 }: { lines?: number }) {
  const t = useTranslations("common");
  return (
    <div className="stack" role="status" aria-label={t("loading")}>
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <div key={line} className="skeleton" />
      ))}
    </div>
  );
}
