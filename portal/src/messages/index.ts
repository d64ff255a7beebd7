import en from "./en.json";

declare module "use-intl" {
  interface AppConfig {
    Messages: typeof en;
  }
}

export const messages = en;
