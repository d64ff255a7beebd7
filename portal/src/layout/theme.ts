/** The colour theme that the person chose in this browser. */

import { useSyncExternalStore } from "react";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const STORAGE_KEY = "admit-theme";
const listeners = new Set<() => void>();

function read(): Theme {
  try {
    return THEMES.find((each) => each === localStorage.getItem(STORAGE_KEY)) ?? "system";
  } catch {
    // The browser blocks storage.
    return "system";
  }
}

let current = read();

export function applyTheme(): void {
  if (current === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = current;
}

export function setTheme(theme: Theme): void {
  current = theme;
  try {
    localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // The theme applies until the page closes.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
