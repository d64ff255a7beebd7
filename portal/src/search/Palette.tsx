import { useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useEffect, useState } from "react";
import {
  Autocomplete,
  Dialog,
  Input,
  ListBox,
  ListBoxItem,
  Modal,
  ModalOverlay,
  SearchField,
} from "react-aria-components";
import { useTranslations } from "use-intl";
import { $api } from "../api/client";
import { VerdictTag } from "../design/Tag";
import { HIT_ICONS, type Hit, hitKey, hitTarget } from "./hits";
import "./search.css";

const TYPING_MILLISECONDS = 150;
export const MIN_CHARACTERS = 2;
const MAX_HITS = 8;

/** Finds anything by one text, across all tenants. Opens with Ctrl-K. */
export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const t = useTranslations("search");
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      onOpenChange={(open) => open || onClose()}
      isDismissable
    >
      <Modal className="modal wide palette">
        <Dialog aria-label={t("title")}>
          <PaletteBox onClose={onClose} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function PaletteBox({ onClose }: { onClose: () => void }) {
  const t = useTranslations("search");
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), TYPING_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [text]);
  const isLongEnough = asked.length >= MIN_CHARACTERS;
  const found = $api.useQuery(
    "get",
    "/v1/search",
    { params: { query: { text: asked, limit: MAX_HITS } } },
    { enabled: isLongEnough, placeholderData: (before) => before },
  );
  const hits: Hit[] = isLongEnough ? (found.data?.items ?? []) : [];
  const open = (hit: Hit) => {
    onClose();
    void navigate(hitTarget(hit));
  };
  return (
    <Autocomplete inputValue={text} onInputChange={setText}>
      <SearchField aria-label={t("title")} autoFocus className="palette-input">
        <Search aria-hidden />
        <Input placeholder={t("placeholder")} maxLength={253} />
      </SearchField>
      <ListBox
        aria-label={t("results")}
        className="palette-list"
        items={hits.map((hit) => ({ id: hitKey(hit), hit }))}
        onAction={(key) => {
          const hit = hits.find((each) => hitKey(each) === key);
          if (hit) open(hit);
        }}
        renderEmptyState={() => (
          <p className="option muted">
            {!isLongEnough
              ? t("hint")
              : found.isFetching
                ? t("searching")
                : found.error
                  ? t("failed")
                  : t("nothing")}
          </p>
        )}
      >
        {({ id, hit }) => <HitOption id={id} hit={hit} />}
      </ListBox>
    </Autocomplete>
  );
}

function HitOption({ id, hit }: { id: string; hit: Hit }) {
  const t = useTranslations("search");
  const Icon = HIT_ICONS[hit.kind];
  return (
    <ListBoxItem id={id} className="option hit" textValue={hit.title}>
      <Icon aria-hidden />
      <span className="two-lines grow">
        <span className="clip">
          {hit.title} <span className="muted small">{t(`kinds.${hit.kind}`)}</span>
        </span>
        <span className="muted small clip">
          {hit.tenant_name || hit.tenant}
          {hit.last_decision && !hit.last_decision.permitted ? ` · ${hit.last_decision.title}` : ""}
        </span>
      </span>
      {hit.last_decision ? <VerdictTag decision={{ ...hit.last_decision, monitored_by: null }} /> : null}
    </ListBoxItem>
  );
}
