import { expect, test } from "vitest";
import { readLogSearch, toQuery } from "./filters";

const NOW = new Date("2026-11-24T12:00:30Z");

test("a MAC address and a user name become different filters", () => {
  expect(toQuery({ who: "0011.22aa.bbcc", period: "all" }, NOW)).toEqual({ mac: "00:11:22:aa:bb:cc" });
  expect(toQuery({ who: "anna", period: "all" }, NOW)).toEqual({ user: "anna" });
});

test("the period ends at the current minute, and is a day without a choice", () => {
  expect(toQuery({ period: "1h" }, NOW).since).toBe("2026-11-24T11:00:00.000Z");
  expect(toQuery({}, NOW).since).toBe("2026-11-23T12:00:00.000Z");
});

test("an address with unknown filters shows the log without them", () => {
  expect(readLogSearch({ who: "anna", result: "everything", period: "1y", page: 3 })).toEqual({
    who: "anna",
  });
});
