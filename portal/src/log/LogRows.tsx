import type { ReactNode } from "react";
import { useTranslations } from "use-intl";
import { VerdictTag } from "../design/Tag";
import { Time } from "../design/Time";
import { type Column, VirtualRows } from "../design/VirtualRows";
import { deviceLabel, type LogEntry } from "./entry";
import "./log.css";

export interface LogRowsProps {
  label: string;
  entries: readonly LogEntry[];
  /** Renders the link that opens the entry. */
  renderLink: (entry: LogEntry, text: ReactNode) => ReactNode;
  showsTenant?: boolean;
  selectedId?: string | undefined;
  onEndReached?: () => void;
}

export function LogRows({ label, entries, renderLink, showsTenant, selectedId, onEndReached }: LogRowsProps) {
  const t = useTranslations("log");
  const columns: Column[] = [
    { id: "at", label: t("time") },
    { id: "result", label: t("result") },
    ...(showsTenant ? [{ id: "tenant", label: t("tenant") }] : []),
    { id: "device", label: t("device") },
    { id: "reason", label: t("reason") },
    { id: "nas", label: t("nas"), className: "wide-only" },
    { id: "method", label: t("method"), className: "wide-only" },
    { id: "vlan", label: t("vlan"), className: "wide-only" },
  ];
  return (
    <div className={showsTenant ? "log-rows with-tenant" : "log-rows"}>
      <VirtualRows
        label={label}
        columns={columns}
        rows={entries}
        rowKey={(entry) => `${entry.tenant}/${entry.id}`}
        rowHeight={52}
        isSelected={(entry) => entry.id === selectedId}
        {...(onEndReached ? { onEndReached } : {})}
        renderCells={(entry) => [
          <Time key="at" at={entry.at} />,
          <VerdictTag key="result" decision={entry} />,
          ...(showsTenant ? [entry.tenant] : []),
          <span key="device" className="two-lines">
            {renderLink(entry, deviceLabel(entry) || t("unknownDevice"))}
            {entry.mac && deviceLabel(entry) !== entry.mac ? (
              <span className="muted code">{entry.mac}</span>
            ) : null}
          </span>,
          <span key="reason" className="two-lines">
            <span className="clip" title={entry.title}>
              {entry.title}
            </span>
            {entry.rule ? <span className="muted clip">{t("ruleName", { rule: entry.rule })}</span> : null}
          </span>,
          <span key="nas" className="two-lines">
            <span className="clip">{entry.nas}</span>
            <span className="muted clip">{entry.nasPort}</span>
          </span>,
          entry.method,
          entry.vlan,
        ]}
      />
    </div>
  );
}
