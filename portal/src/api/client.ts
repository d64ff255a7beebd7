/** The typed client of the REST API. Types come from the API's OpenAPI document. */

import createFetchClient from "openapi-fetch";
import createQueryClient from "openapi-react-query";
import { readProblem } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

const SAFE_METHODS = new Set(["GET", "HEAD"]);
let csrfToken = "";
let onSignedOut: () => void = () => {};

/** Store the token that changes need (header Admit-CSRF). GET /v1/me returns the token. */
export function setCsrfToken(token: string): void {
  csrfToken = token;
}

/** Set the function that runs if the API rejects the sign-in. */
export function setSignedOutHandler(handler: () => void): void {
  onSignedOut = handler;
}

export const api = createFetchClient<paths>({ baseUrl: window.location.origin });
api.use({
  onRequest({ request }) {
    if (!SAFE_METHODS.has(request.method)) request.headers.set("Admit-CSRF", csrfToken);
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return undefined;
    if (response.status === 401) onSignedOut();
    throw await readProblem(response);
  },
});

/** Hooks that read and change objects of the API. They throw `Problem` for error responses. */
export const $api = createQueryClient(api);
