import { expect, test } from "vitest";
import { withoutSteps } from "./advice";

test.each([
  [
    "Approve the device in the inbox: createEndpoint, listDiscoveredEndpoints.",
    "Approve the device in the inbox.",
  ],
  ["Offer the method: updateTenant (methods=eap-tls).", "Offer the method."],
  ["List the policies: listPolicies", "List the policies"],
  ["Correct the name: it is too long.", "Correct the name: it is too long."],
  ["", ""],
])("the advice %s has no operations", (advice, text) => {
  expect(withoutSteps(advice)).toBe(text);
});
