// One conversation with a real API: node round_trip.ts URL TOKEN PLATFORM_TOKEN. It fails where an answer is not as described.
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

declare const process: { argv: string[] };

function expect(actual: unknown, wanted: unknown, what: string): void {
  if (JSON.stringify(actual) !== JSON.stringify(wanted)) {
    throw new Error(`${what}: ${JSON.stringify(actual)} instead of ${JSON.stringify(wanted)}`);
  }
}

const [, , baseUrl = "", token = "", platformToken = ""] = process.argv;
const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const platform = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${platformToken}` } });
const tenant = { path: { tenant: "alpha" } };

// What was made is where Location says.
const made = await api.POST("/v1/tenants/{tenant}/sites", { params: tenant, body: { slug: "north", name: "North" } });
expect(made.response.status, 201, "status");
expect(made.response.headers.get("location"), "/v1/tenants/alpha/sites/north", "Location");
const site = { path: { tenant: "alpha", site: "north" } };
const read = await api.GET("/v1/tenants/{tenant}/sites/{site}", { params: site });
expect(read.data, made.data, "the site");

// What is left out of a change stays.
const etag = read.response.headers.get("etag") ?? "";
const changed = await api.PATCH("/v1/tenants/{tenant}/sites/{site}", {
  params: { ...site, header: { "If-Match": etag } },
  body: { time_zone: "Europe/Berlin" },
});
expect([changed.data?.name, changed.data?.time_zone], ["North", "Europe/Berlin"], "the changed site");

// A body that names something unknown is a problem with the field as place.
const refused = await api.PATCH("/v1/tenants/{tenant}/sites/{site}", { params: site, body: { policy: "unknown" } });
expect([refused.response.status, refused.error?.code, refused.error?.place], [422, "policy-not-found", "policy"], "problem");

// A body that may be left out, without and with it.
for (const body of [undefined, { next: false }]) {
  const secret = await api.POST("/v1/tenants/{tenant}/radius-secret/reveal", {
    params: tenant,
    ...(body === undefined ? {} : { body }),
  });
  expect([secret.data?.secret, secret.data?.text], ["the-secret-of-alpha-01", ""], "the secret");
}

// A schema whose name another one's field would have taken.
const cells = await platform.GET("/v1/cells");
expect(cells.data?.items.map((cell) => cell.status), ["active"], "cells");

const gone = await api.DELETE("/v1/tenants/{tenant}/sites/{site}", { params: site });
expect(gone.response.status, 204, "status");
console.log("round trip done");
