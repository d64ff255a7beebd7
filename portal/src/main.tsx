import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { IntlProvider } from "use-intl";
import { queryClient } from "./api/queryClient";
import { restorePage, SignedIn } from "./layout/session";
import { applyTheme } from "./layout/theme";
import { messages } from "./messages";
import { router } from "./router";
import "./design/tokens.css";
import "./design/base.css";
import "./design/components.css";

applyTheme();
restorePage();
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
// Texts are English. Dates and numbers follow the English of the browser, such as en-US or en-GB.
const locale = navigator.language.startsWith("en") ? navigator.language : "en-GB";
const root = document.getElementById("portal");
if (!root) throw new Error("index.html has no element #portal");
createRoot(root).render(
  <StrictMode>
    <IntlProvider locale={locale} messages={messages} timeZone={zone}>
      <QueryClientProvider client={queryClient}>
        <SignedIn>
          <RouterProvider router={router} />
        </SignedIn>
      </QueryClientProvider>
    </IntlProvider>
  </StrictMode>,
);
