import { Link, useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { $api } from "../api/client";
import { Button } from "../design/Button";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { SearchBox } from "../design/SearchBox";
import { VerdictTag } from "../design/Tag";
import { Time } from "../design/Time";
import { Page } from "../layout/Page";
import { Answer } from "../log/DecisionDrawer";
import { HIT_ICONS, type Hit, hitKey, hitTarget } from "./hits";
import { MIN_CHARACTERS } from "./Palette";
import "./search.css";

const MAX_HITS = 50;

/** Search results with an address that can be shared. The first result answers why a device was rejected. */
export function SearchPage({ text }: { text: string }) {
  const t = useTranslations("search");
  const navigate = useNavigate();
  const [typed, setTyped] = useState(text);
  const isLongEnough = text.trim().length >= MIN_CHARACTERS;
  const found = $api.useQuery(
    "get",
    "/v1/search",
    { params: { query: { text: text.trim(), limit: MAX_HITS } } },
    { enabled: isLongEnough },
  );
  return (
    <Page title={t("title")}>
      <search>
        <form
          className="row"
          onSubmit={(event) => {
            event.preventDefault();
            void navigate({ to: "/search", search: { text: typed } });
          }}
        >
          <SearchBox label={t("title")} placeholder={t("placeholder")} value={typed} onChange={setTyped} />
          <Button type="submit" kind="primary">
            {t("submit")}
          </Button>
        </form>
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      {!isLongEnough ? (
        <Empty icon={<Search aria-hidden />} title={t("emptyTitle")}>
          {t("hint")}
        </Empty>
      ) : found.isPending ? (
        <Skeleton />
      ) : found.data?.items.length === 0 ? (
        <Empty icon={<Search aria-hidden />} title={t("nothing")}>
          {t("nothingText")}
        </Empty>
      ) : (
        <ul className="stack">
          {found.data?.items.map((hit, index) => (
            <HitCard key={hitKey(hit)} hit={hit} isFirst={index === 0} />
          ))}
        </ul>
      )}
    </Page>
  );
}

function HitCard({ hit, isFirst }: { hit: Hit; isFirst: boolean }) {
  const t = useTranslations("search");
  const Icon = HIT_ICONS[hit.kind];
  const last = hit.last_decision;
  return (
    <li className="card hit-card">
      <div className="spread">
        <span className="row grow">
          <Icon aria-hidden className="icon" />
          <Link {...hitTarget(hit)}>
            <strong>{hit.title}</strong>
          </Link>
          <span className="muted small">
            {t(`kinds.${hit.kind}`)} · {hit.tenant_name || hit.tenant}
          </span>
        </span>
        {last ? (
          <span className="row small">
            <VerdictTag decision={{ ...last, monitored_by: null }} />
            <Time at={last.at} relative />
          </span>
        ) : null}
      </div>
      <p className="muted small">{hit.detail}</p>
      {isFirst && last ? <Answer decision={{ ...last, detail: "" }} /> : null}
    </li>
  );
}
