/** The sign-in of this browser: who is signed in, and what happens when the sign-in ends. */

import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { useTranslations } from "use-intl";
import { $api, api, setCsrfToken, setSignedOutHandler } from "../api/client";
import { Problem } from "../api/problem";
import { Button } from "../design/Button";
import { Dialog } from "../design/Dialog";
import { ErrorMessage } from "../design/Message";

const SIGN_IN_PATH = "/sign-in";
const HOME_PATH = "/portal/";
const NEXT_KEY = "admit-next";

/** Keep the address of this page in the tab, so that the portal returns to this page after the sign-in. */
function rememberPage(): void {
  try {
    sessionStorage.setItem(NEXT_KEY, window.location.pathname + window.location.search);
  } catch {
    // Without storage, the portal opens its first page.
  }
}

/** After a sign-in, return to the page that the person wanted to see. */
export function restorePage(): void {
  try {
    const next = sessionStorage.getItem(NEXT_KEY);
    sessionStorage.removeItem(NEXT_KEY);
    if (next?.startsWith(HOME_PATH) && window.location.pathname === HOME_PATH) {
      window.history.replaceState(null, "", next);
    }
  } catch {
    // The browser blocks storage.
  }
}

export function useMe() {
  return $api.useQuery("get", "/v1/me", {}, { staleTime: 60_000 });
}

/** Renders the portal for a signed-in person. Other visitors go to the sign-in page. */
export function SignedIn({ children }: { children: ReactNode }) {
  const { data, error, refetch } = useMe();
  const [isOver, setOver] = useState(false);
  const wasSignedIn = data !== undefined;
  useEffect(() => {
    if (data) setCsrfToken(data.csrf_token);
  }, [data]);
  useEffect(() => {
    if (wasSignedIn) setSignedOutHandler(() => setOver(true));
  }, [wasSignedIn]);
  const isUnknown = error instanceof Problem && error.status === 401;
  useEffect(() => {
    if (isUnknown && !wasSignedIn) {
      rememberPage();
      window.location.replace(SIGN_IN_PATH);
    }
  }, [isUnknown, wasSignedIn]);
  if (data) {
    return (
      <>
        {children}
        <SignInOver isOpen={isOver} onBack={() => setOver(false)} />
      </>
    );
  }
  return error && !isUnknown ? (
    <main className="main">
      <ErrorMessage error={error} retry={() => void refetch()} />
    </main>
  ) : null;
}

/** Covers the page when the sign-in ended. The page keeps its input while the person signs in in another tab. */
function SignInOver({ isOpen, onBack }: { isOpen: boolean; onBack: () => void }) {
  const t = useTranslations("session");
  const queries = useQueryClient();
  const { data: before } = useMe();
  const [isOther, setOther] = useState(false);
  useEffect(() => {
    if (!isOpen) return undefined;
    const check = async () => {
      if (document.visibilityState !== "visible") return;
      const response = await fetch("/v1/me");
      if (!response.ok) return;
      const me = (await response.json()) as { email: string; csrf_token: string };
      if (before && me.email !== before.email) {
        setOther(true);
        return;
      }
      setCsrfToken(me.csrf_token);
      onBack();
      await queries.invalidateQueries();
    };
    const listener = () => void check().catch(() => {});
    document.addEventListener("visibilitychange", listener);
    window.addEventListener("focus", listener);
    return () => {
      document.removeEventListener("visibilitychange", listener);
      window.removeEventListener("focus", listener);
    };
  }, [isOpen, onBack, queries, before]);
  return (
    <Dialog
      isOpen={isOpen}
      onClose={() => {}}
      modal
      title={t("overTitle")}
      actions={
        isOther ? (
          <Button kind="primary" onPress={() => window.location.assign(HOME_PATH)}>
            {t("reload")}
          </Button>
        ) : (
          <Button kind="primary" onPress={() => window.open(SIGN_IN_PATH, "_blank")}>
            {t("signIn")}
          </Button>
        )
      }
    >
      <p>{isOther ? t("otherPerson") : t("overText")}</p>
    </Dialog>
  );
}

export async function signOut(): Promise<void> {
  await api.POST("/v1/sign-out");
  window.location.assign(SIGN_IN_PATH);
}
