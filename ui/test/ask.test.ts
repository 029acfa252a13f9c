import { expect, test } from "vitest";
import { formatClock, formatDate, setZone } from "../src/format.ts";
import { distance, nearest } from "../src/near.ts";
import { parseInstant } from "../src/state.ts";
import { withBy, withP99, withRate } from "../src/wrappers.ts";

test("letters that change, come, go or change places are counted", () => {
  expect([distance("rate", "rate"), distance("rat", "rate"), distance("raet", "rate"), distance("", "ab"), distance("sum", "max")]).toEqual([0, 1, 1, 2, 3]);
});

test("only a name that is near is meant", () => {
  expect(nearest("rat", ["rate", "sum", "max"])).toBe("rate");
  expect(nearest("http_secnods", ["http_seconds", "grpc_seconds"])).toBe("http_seconds");
  expect(nearest("x", ["y"])).toBeNull();
  expect(nearest("nothing_like_it", ["rate", "http_seconds"])).toBeNull();
  expect(nearest("rate", ["rate"])).toBeNull();
});

test("what a click puts around an expression, a click takes away", () => {
  expect(withRate('a_total{b="c"}')).toBe('rate(a_total{b="c"}[5m])');
  expect(withRate('rate(a_total{b="c"}[5m])')).toBe('a_total{b="c"}');
  expect(withRate("sum(a)")).toBeNull();
  expect(withP99("a_seconds")).toBe("histogram_quantile(0.99, sum (a_seconds))");
  expect(withP99(withP99("a_seconds"))).toBe("a_seconds");
  expect(withBy("a_seconds", "route")).toBe("sum by (route) (a_seconds)");
  expect(withBy("sum by (route) (a_seconds)", "host")).toBe("sum by (host) (a_seconds)");
  expect(withBy("sum by (route) (a_seconds)", "route")).toBe("a_seconds");
  expect(withBy(withP99("a_seconds"), "route")).toBe("histogram_quantile(0.99, sum by (route) (a_seconds))");
  expect(withP99(withBy("a_seconds", "route"))).toBe("histogram_quantile(0.99, sum by (route) (a_seconds))");
});

test("instants are written and read in the chosen zone", () => {
  setZone("utc");
  expect(`${formatDate(1_700_000_000)} ${formatClock(1_700_000_000)}`).toBe("2023-11-14 22:13:20");
  expect(parseInstant("2023-11-14 22:13:20")).toBe(1_700_000_000);
  setZone("local");
  const date = new Date(1_700_000_000_000);
  expect(formatClock(1_700_000_000)).toBe(date.toTimeString().slice(0, 8));
});
