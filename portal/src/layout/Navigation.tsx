import { Link } from "@tanstack/react-router";
import { Activity, HardDrive, House, LayoutGrid, Radio, Search } from "lucide-react";
import { useTranslations } from "use-intl";
import mark from "../design/mark.svg";
import { usePermissionAnywhere, usePermissions } from "./access";
import { ScopeMenu } from "./ScopeMenu";

/** The side bar: where the person is, and the pages that the person may open. */
export function Navigation({ tenant }: { tenant: string | null }) {
  const t = useTranslations("shell");
  return (
    <>
      <Link to="/" className="brand">
        <img src={mark} alt="" />
        Admit
      </Link>
      <ScopeMenu tenant={tenant} />
      <nav className="nav" aria-label={t("navigation")}>
        {tenant === null ? <AllTenantsLinks /> : <TenantLinks tenant={tenant} />}
      </nav>
    </>
  );
}

function AllTenantsLinks() {
  const t = useTranslations("nav");
  const readsLog = usePermissionAnywhere("log.read");
  return (
    <>
      <Link to="/" activeOptions={{ exact: true }}>
        <LayoutGrid aria-hidden />
        {t("customers")}
      </Link>
      <Link to="/search" search={{ text: "" }}>
        <Search aria-hidden />
        {t("search")}
      </Link>
      {readsLog ? (
        <Link to="/log">
          <Radio aria-hidden />
          {t("liveLog")}
        </Link>
      ) : null}
    </>
  );
}

function TenantLinks({ tenant }: { tenant: string }) {
  const t = useTranslations("nav");
  const permissions = usePermissions(tenant);
  const params = { tenant };
  return (
    <>
      <Link to="/t/$tenant" params={params} activeOptions={{ exact: true }}>
        <House aria-hidden />
        {t("overview")}
      </Link>
      {permissions.has("log.read") ? (
        <>
          <div className="nav-title">{t("monitor")}</div>
          <Link to="/t/$tenant/live" params={params}>
            <Radio aria-hidden />
            {t("liveLog")}
          </Link>
          <Link to="/t/$tenant/log" params={params}>
            <Activity aria-hidden />
            {t("log")}
          </Link>
        </>
      ) : null}
      {permissions.has("endpoint.read") ? (
        <>
          <div className="nav-title">{t("network")}</div>
          <Link to="/t/$tenant/devices" params={params}>
            <HardDrive aria-hidden />
            {t("devices")}
          </Link>
        </>
      ) : null}
    </>
  );
}
