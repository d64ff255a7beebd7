import { useTranslations } from "use-intl";
import { Page } from "../layout/Page";

export function TenantHomePage({ tenant }: { tenant: string }) {
  const t = useTranslations("tenantHome");
  return (
    <Page title={t("title")} sub={tenant}>
      {null}
    </Page>
  );
}
