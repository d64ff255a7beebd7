import { useNavigate } from "@tanstack/react-router";
import { Building2, Check, ChevronsUpDown, LayoutGrid } from "lucide-react";
import { useState } from "react";
import {
  Button as AriaButton,
  Autocomplete,
  Dialog,
  DialogTrigger,
  Input,
  ListBox,
  ListBoxItem,
  Popover,
  SearchField,
} from "react-aria-components";
import { useTranslations } from "use-intl";
import { $api } from "../api/client";
import { useTenant } from "./access";

const MAX_TENANTS = 50;
const ALL = "";

/** Shows the tenant of this page, or that the page is about all tenants. Opens a list to change the tenant. */
export function ScopeMenu({ tenant }: { tenant: string | null }) {
  const t = useTranslations("shell");
  const [isOpen, setOpen] = useState(false);
  return (
    <DialogTrigger isOpen={isOpen} onOpenChange={setOpen}>
      <AriaButton className="button scope">
        {tenant === null ? <LayoutGrid aria-hidden /> : <Building2 aria-hidden />}
        <span className="names">
          <span>{t("scope")}</span>
          <span className="clip">{tenant === null ? t("allTenants") : <TenantName slug={tenant} />}</span>
        </span>
        <ChevronsUpDown aria-hidden />
      </AriaButton>
      <Popover className="popover" placement="bottom start">
        <Dialog aria-label={t("chooseTenant")}>
          <TenantList current={tenant} onChosen={() => setOpen(false)} />
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

function TenantName({ slug }: { slug: string }) {
  const { data } = useTenant(slug);
  return <>{data?.name || slug}</>;
}

function TenantList({ current, onChosen }: { current: string | null; onChosen: () => void }) {
  const t = useTranslations("shell");
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const { data } = $api.useQuery(
    "get",
    "/v1/tenants",
    { params: { query: { limit: MAX_TENANTS, ...(text ? { text } : {}) } } },
    { placeholderData: (previous) => previous },
  );
  const items = [
    ...(text ? [] : [{ id: ALL, name: t("allTenants") }]),
    ...(data?.items ?? []).map((each) => ({ id: each.slug, name: each.name || each.slug })),
  ];
  return (
    <Autocomplete inputValue={text} onInputChange={setText}>
      <SearchField className="field" aria-label={t("findTenant")} autoFocus>
        <Input className="input" placeholder={t("findTenant")} />
      </SearchField>
      <ListBox
        aria-label={t("tenants")}
        items={items}
        onAction={(key) => {
          onChosen();
          void (key === ALL
            ? navigate({ to: "/" })
            : navigate({ to: "/t/$tenant", params: { tenant: String(key) } }));
        }}
        renderEmptyState={() => <p className="option muted">{t("noTenant")}</p>}
      >
        {(item) => (
          <ListBoxItem id={item.id} className="option" textValue={item.name}>
            <span className="grow clip">{item.name}</span>
            {item.id === (current ?? ALL) ? <Check aria-hidden /> : null}
          </ListBoxItem>
        )}
      </ListBox>
    </Autocomplete>
  );
}
