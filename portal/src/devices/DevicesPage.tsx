import { Link, useNavigate } from "@tanstack/react-router";
import { HardDrive, Plus } from "lucide-react";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { api } from "../api/client";
import { usePages } from "../api/pages";
import { Button } from "../design/Button";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { TextFilter } from "../design/SearchBox";
import { Tag } from "../design/Tag";
import { Time } from "../design/Time";
import { VirtualRows } from "../design/VirtualRows";
import { usePermissions } from "../layout/access";
import { Page } from "../layout/Page";
import { RegisterDialog } from "./RegisterDialog";
import { type DevicesSearch, readDevicesSearch, STATUSES, type Status } from "./search";
import "./devices.css";

const TONES = { active: "good", blocked: "bad", discovered: "warn", ignored: "neutral" } as const;

export function StatusTag({ status }: { status: Status }) {
  const t = useTranslations("devices.statuses");
  return <Tag tone={TONES[status]}>{t(status)}</Tag>;
}

export function DevicesPage({ tenant, search }: { tenant: string; search: DevicesSearch }) {
  const t = useTranslations("devices");
  const navigate = useNavigate();
  const permissions = usePermissions(tenant);
  const [isRegistering, setRegistering] = useState(false);
  const query = {
    ...(search.text ? { text: search.text } : {}),
    ...(search.status ? { status: [search.status] } : {}),
  };
  const { found, rows, more } = usePages(["endpoints", tenant, query], (page, signal) =>
    api.GET("/v1/tenants/{tenant}/endpoints", {
      params: { path: { tenant }, query: { ...query, ...page } },
      signal,
    }),
  );
  const change = (changes: { text?: string; status?: string }) =>
    void navigate({
      to: ".",
      search: (before: DevicesSearch) => readDevicesSearch({ ...before, ...changes }),
      replace: true,
    });
  const register = permissions.has("endpoint.manage") ? (
    <Button kind="primary" icon={<Plus aria-hidden />} onPress={() => setRegistering(true)}>
      {t("register")}
    </Button>
  ) : null;
  const isFiltered = Boolean(search.text || search.status);
  return (
    <Page title={t("title")} actions={register}>
      <search className="filters">
        <TextFilter label={t("find")} value={search.text ?? ""} onChange={(text) => change({ text })} />
        <SelectField
          label={t("status")}
          hideLabel
          value={search.status ?? ""}
          options={[
            { id: "", label: t("statuses.all") },
            ...STATUSES.map((id) => ({ id, label: t(`statuses.${id}`) })),
          ]}
          onChange={(status) => change({ status })}
        />
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card device-rows">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : rows.length === 0 && !found.hasNextPage ? (
          <Empty
            icon={<HardDrive aria-hidden />}
            title={isFiltered ? t("noneFound") : t("emptyTitle")}
            action={isFiltered ? null : register}
          >
            {isFiltered ? t("noneFoundText") : t("emptyText")}
          </Empty>
        ) : (
          <VirtualRows
            label={t("title")}
            rows={rows}
            rowKey={(row) => row.mac}
            rowHeight={52}
            onEndReached={more}
            columns={[
              { id: "device", label: t("device") },
              { id: "state", label: t("status") },
              { id: "groups", label: t("groups"), className: "wide-only" },
              { id: "profile", label: t("profile"), className: "wide-only" },
              { id: "seen", label: t("lastSeen") },
            ]}
            renderCells={(row) => [
              <span key="device" className="two-lines">
                <Link
                  to="/t/$tenant/devices/$mac"
                  params={{ tenant, mac: row.mac }}
                  className="row-link clip"
                >
                  {row.name || row.mac}
                </Link>
                <span className="muted code">{row.name ? row.mac : row.vendor}</span>
              </span>,
              <StatusTag key="status" status={row.status} />,
              row.groups.join(", "),
              [row.profile, row.os || row.model].filter(Boolean).join(", "),
              row.last_seen_at ? <Time key="seen" at={row.last_seen_at} relative /> : t("never"),
            ]}
          />
        )}
      </div>
      <RegisterDialog tenant={tenant} isOpen={isRegistering} onClose={() => setRegistering(false)} />
    </Page>
  );
}
