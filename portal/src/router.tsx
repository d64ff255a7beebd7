import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { readCustomersSearch } from "./customers/search";
import { ErrorMessage } from "./design/Message";
import { readDevicesSearch } from "./devices/search";
import { Page } from "./layout/Page";
import { Shell } from "./layout/Shell";
import { readLogSearch } from "./log/filters";

const root = createRootRoute({ component: Shell });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  validateSearch: readCustomersSearch,
  component: lazyRouteComponent(() => import("./routes/home")),
});
const search = createRoute({
  getParentRoute: () => root,
  path: "/search",
  validateSearch: (raw) => ({ text: typeof raw.text === "string" ? raw.text : "" }),
  component: lazyRouteComponent(() => import("./routes/search")),
});
const live = createRoute({
  getParentRoute: () => root,
  path: "/log",
  validateSearch: readLogSearch,
  component: lazyRouteComponent(() => import("./routes/live")),
});
const tenant = createRoute({ getParentRoute: () => root, path: "/t/$tenant" });
const tenantHome = createRoute({
  getParentRoute: () => tenant,
  path: "/",
  component: lazyRouteComponent(() => import("./routes/tenant")),
});
const tenantLive = createRoute({
  getParentRoute: () => tenant,
  path: "/live",
  validateSearch: readLogSearch,
  component: lazyRouteComponent(() => import("./routes/tenantLive")),
});
const tenantLog = createRoute({
  getParentRoute: () => tenant,
  path: "/log",
  validateSearch: readLogSearch,
  component: lazyRouteComponent(() => import("./routes/tenantLog")),
});
const devices = createRoute({
  getParentRoute: () => tenant,
  path: "/devices",
  validateSearch: readDevicesSearch,
  component: lazyRouteComponent(() => import("./routes/devices")),
});
const device = createRoute({
  getParentRoute: () => tenant,
  path: "/devices/$mac",
  validateSearch: (raw) =>
    (typeof raw.decision === "string" ? { decision: raw.decision } : {}) as { decision?: string },
  component: lazyRouteComponent(() => import("./routes/device")),
});

function NotFound() {
  const t = useTranslations("errors");
  return (
    <Page title={t("noPageTitle")}>
      <p>{t("noPage")}</p>
    </Page>
  );
}

function Failed({ error }: { error: unknown }) {
  const t = useTranslations("errors");
  return (
    <Page title={t("failedTitle")}>
      <ErrorMessage error={error} retry={() => window.location.reload()} />
    </Page>
  );
}

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    search,
    live,
    tenant.addChildren([tenantHome, tenantLive, tenantLog, devices, device]),
  ]),
  basepath: "/portal",
  defaultPreload: "intent",
  scrollRestoration: true,
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: Failed,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
