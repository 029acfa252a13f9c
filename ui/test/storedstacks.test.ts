import { expect, test } from "vitest";
import { formatChoice, parseChoice, RANGE_MAX, selectorOf, spanOf } from "../src/storedstacks.ts";

test("a choice of a series and of two ranges is in the address", () => {
  const series = selectorOf({ __name__: "ogive_kernel_stacks", kind: "on_cpu", comm: 'a"b' });
  expect(series).toBe('ogive_kernel_stacks{comm="a\\"b", kind="on_cpu"}');
  const one = { series, now: { start: 1000, end: 1900.5 }, before: null };
  const two = { ...one, before: { start: 100, end: 200 } };
  for (const choice of [one, two]) expect(parseChoice(formatChoice(choice))).toEqual(choice);
  for (const search of ["", "?series=a", "?series=a&start=2&end=1", `?series=a&start=0&end=${RANGE_MAX + 1}`, "?start=1&end=2"]) expect(parseChoice(search)).toBe(null);
});

test("ranges are typed as instants", () => {
  expect(spanOf("now-15m", "now", 1e9)).toEqual({ start: 1e9 - 900, end: 1e9 });
  expect(spanOf(" ", "", 1e9)).toBe(null);
  expect(() => spanOf("soon", "now", 1e9)).toThrow('"soon" is no time');
  expect(() => spanOf("now-15m", "", 1e9)).toThrow("is no time");
  expect(() => spanOf("now", "now-1m", 1e9)).toThrow("ends after its beginning");
  expect(() => spanOf("now-7h", "now", 1e9)).toThrow("at most 6 hours");
});
