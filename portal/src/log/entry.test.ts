import { expect, test } from "vitest";
import { entryFromEvent, parseMac } from "./entry";

test.each([
  ["00:11:22:33:44:55", "00:11:22:33:44:55"],
  ["00-11-22-AA-BB-CC", "00:11:22:aa:bb:cc"],
  ["0011.22aa.bbcc", "00:11:22:aa:bb:cc"],
  [" 001122aabbcc ", "00:11:22:aa:bb:cc"],
])("the MAC address %s is recognised", (text, mac) => {
  expect(parseMac(text)).toBe(mac);
});

test.each(["", "anna", "00:11:22:33:44", "00:11:22:33:44:5g", "00:11:22:33:44:55:66"])(
  "the text %s is not a MAC address",
  (text) => {
    expect(parseMac(text)).toBe("");
  },
);

test("an event becomes an entry of the log", () => {
  const entry = entryFromEvent({
    "@timestamp": "2026-11-21T18:30:00.123456Z",
    event: {
      id: "authentication:1795285800123456-90210",
      type: ["start", "denied"],
      code: "unknown-mac",
      reason: "Unknown device",
    },
    organization: { name: "acme" },
    client: { mac: "AA-BB-CC-00-11-22" },
    observer: { ip: ["192.0.2.7"], ingress: { interface: { name: "1/0/3" } } },
    admit: { kind: "authentication", method: "mab", verdict: "deny" },
  });
  expect(entry).toMatchObject({
    id: "1795285800123456-90210",
    tenant: "acme",
    permitted: false,
    mac: "aa:bb:cc:00:11:22",
    nas: "192.0.2.7",
    nasPort: "1/0/3",
    title: "Unknown device",
  });
});
