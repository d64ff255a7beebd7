import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { HardDrive, Plus, Search } from "lucide-react";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { api } from "../api/client";
import { Button } from "../design/Button";
import { SelectField } from "../design/Field";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { Tag } from "../design/Tag";
import { Time } from "../design/Time";
import { VirtualRows } from "../design/VirtualRows";
import { usePermissions } from "../layout/access";
import { Page } from "../layout/Page";
import { RegisterDialog } from "./RegisterDialog";
import { type DevicesSearch, readDevicesSearch, STATUSES, type Status } from "./search";
import "./devices.css";

const PAGE_ROWS = 100;
const TYPING_MILLISECONDS = 300;
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
  const [text, setText] = useState(search.text ?? "");
  const query = {
    ...(search.text ? { text: search.text } : {}),
    ...(search.status ? { status: [search.status] } : {}),
  };
  const found = useInfiniteQuery({
    queryKey: ["endpoints", tenant, query],
    queryFn: async ({ pageParam, signal }) => {
      const { data } = await api.GET("/v1/tenants/{tenant}/endpoints", {
        params: {
          path: { tenant },
          query: { ...query, limit: PAGE_ROWS, ...(pageParam ? { after: pageParam } : {}) },
        },
        signal,
      });
      // biome-ignore lint/style/noNonNullAssertion: the client throws for error responses
      return data!;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  const rows = useMemo(() => found.data?.pages.flatMap((page) => page.items) ?? [], [found.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = found;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== (search.text ?? "")) {
        void navigate({
          to: ".",
          search: (before: DevicesSearch) => readDevicesSearch({ ...before, text }),
          replace: true,
        });
      }
    }, TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [text, search.text, navigate]);
  const register = permissions.has("endpoint.manage") ? (
    <Button kind="primary" icon={<Plus aria-hidden />} onPress={() => setRegistering(true)}>
      {t("register")}
    </Button>
  ) : null;
  const isFiltered = Boolean(search.text || search.status);
  return (
    <Page title={t("title")} actions={register}>
      <search className="filters">
        <div className="with-icon">
          <Search aria-hidden />
          <input
            type="search"
            className="input"
            aria-label={t("find")}
            placeholder={t("find")}
            value={text}
            maxLength={200}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
        <SelectField
          label={t("status")}
          hideLabel
          value={search.status ?? ""}
          options={[
            { id: "", label: t("statuses.all") },
            ...STATUSES.map((id) => ({ id, label: t(`statuses.${id}`) })),
          ]}
          onChange={(status) =>
            void navigate({
              to: ".",
              search: (before: DevicesSearch) => readDevicesSearch({ ...before, status }),
            })
          }
        />
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card device-rows">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : rows.length === 0 && !hasNextPage ? (
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
