import { Outlet, useParams, useRouterState } from "@tanstack/react-router";
import { CircleUser, LogOut, Menu as MenuIcon, Moon, Search, Sun, SunMoon } from "lucide-react";
import { useEffect, useState } from "react";
import { Menu, MenuItem, MenuTrigger, Popover, Separator } from "react-aria-components";
import { useTranslations } from "use-intl";
import { Button } from "../design/Button";
import { Drawer } from "../design/Dialog";
import { Palette } from "../search/Palette";
import { Navigation } from "./Navigation";
import { signOut, useMe } from "./session";
import { setTheme, THEMES, type Theme, useTheme } from "./theme";
import "./shell.css";

const THEME_ICONS = { system: SunMoon, light: Sun, dark: Moon };

/** The frame of the portal: side bar, search, account, and the page. */
export function Shell() {
  const t = useTranslations("shell");
  const params = useParams({ strict: false });
  const tenant = params.tenant ?? null;
  const [isSearching, setSearching] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page closes the menu
  useEffect(() => setMenuOpen(false), [path]);
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof HTMLElement &&
        event.target.matches("input, textarea, select, [contenteditable]");
      if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !isTyping)) {
        event.preventDefault();
        setSearching(true);
      }
    };
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
  return (
    <div className="shell">
      <a className="button skip" href="#content">
        {t("skip")}
      </a>
      <aside className="side">
        <Navigation tenant={tenant} />
      </aside>
      <Drawer isOpen={isMenuOpen} onClose={() => setMenuOpen(false)} label={t("navigation")} side="left">
        <div className="side">
          <Navigation tenant={tenant} />
        </div>
      </Drawer>
      <header className="top">
        <Button
          className="menu-button"
          kind="plain"
          icon={<MenuIcon aria-hidden />}
          aria-label={t("openMenu")}
          onPress={() => setMenuOpen(true)}
        />
        <Button className="search-button" icon={<Search aria-hidden />} onPress={() => setSearching(true)}>
          <span className="clip">{t("searchHint")}</span>
          <kbd aria-hidden>Ctrl K</kbd>
        </Button>
        <AccountMenu />
      </header>
      <main className="main" id="content" tabIndex={-1}>
        <Outlet />
      </main>
      <Palette isOpen={isSearching} onClose={() => setSearching(false)} />
    </div>
  );
}

function AccountMenu() {
  const t = useTranslations("shell");
  const { data: me } = useMe();
  const theme = useTheme();
  return (
    <MenuTrigger>
      <Button kind="plain" icon={<CircleUser aria-hidden />} aria-label={t("account")} />
      <Popover className="popover" placement="bottom end">
        <p className="option muted">{me?.email}</p>
        <Menu
          aria-label={t("account")}
          onAction={(key) => {
            if (key === "sign-out") void signOut();
            else setTheme(key as Theme);
          }}
        >
          {THEMES.map((each) => {
            const Icon = THEME_ICONS[each];
            return (
              <MenuItem key={each} id={each} className="option" textValue={t(`themes.${each}`)}>
                <Icon aria-hidden />
                <span className="grow">{t(`themes.${each}`)}</span>
                {theme === each ? t("chosen") : null}
              </MenuItem>
            );
          })}
          <Separator />
          <MenuItem id="sign-out" className="option" textValue={t("signOut")}>
            <LogOut aria-hidden />
            {t("signOut")}
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
