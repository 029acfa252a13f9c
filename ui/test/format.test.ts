import { expect, test } from "vitest";
import { formatBounds, formatCompact, formatCount, formatDuration, formatShare, formatValue, parseDuration, formatRate } from "../src/format.ts";

test.each([
  [0.00012, "s", "120 µs"],
  [1.2e-9, "s", "1.2 ns"],
  [5e-10, "s", "0.5 ns"],
  [0.030000000000000002, "s", "30 ms"],
  [0.9999999999999, "s", "1 s"],
  [90, "s", "1.5 min"],
  [7200, "seconds", "2 h"],
  [172800, "s", "2 d"],
  [0, "s", "0 s"],
  [-0.0025, "s", "−2.5 ms"],
  [Infinity, "s", "+∞"],
  [NaN, "s", "NaN"],
  [1500, "bytes", "1.5 kB"],
  [999, "By", "999 B"],
  [2.5e9, "B", "2.5 GB"],
  [12345, "", "12.3k"],
  [0.25, "1", "0.25"],
  [0.05, "", "0.05"],
  [0.00012, "", "0.00012"],
  [-0.0000125, "", "−1.25e−5"],
  [0.25, "requests", "0.25 requests"],
  [3, "requests", "3 requests"],
  [1234567, "rows", "1.23 Mrows"],
])("%s %s is written %s", (value, unit, text) => expect(formatValue(value, unit)).toBe(text));

test("bounds name a unit once when both have it", () => {
  expect(formatBounds(66e-6, 67e-6, "s")).toBe("66 – 67 µs");
  expect(formatBounds(990e-6, 1e-3, "s")).toBe("990 µs – 1 ms");
  expect(formatBounds(1, 2, "")).toBe("1 – 2");
  // Bins of an exponential histogram of a fine scale: three digits made them "1.9 – 1.9 s".
  expect(formatBounds(1.8981, 1.9032, "s")).toBe("1.898 – 1.903 s");
  expect(formatBounds(1.8989431, 1.8989437, "s")).toBe("1.899 s");
  expect(formatBounds(0, 0, "EUR")).toBe("0 EUR");
});

test("counts keep every digit, also beyond 2^53", () => {
  expect(formatCount(1234567)).toBe("1,234,567");
  expect(formatCount("18446744073709551615")).toBe("18,446,744,073,709,551,615");
  expect(formatCount("1.5e3")).toBe("1,500");
  expect(formatCompact(9999)).toBe("9,999");
  expect(formatCompact(12345)).toBe("12.3k");
});

test("a part is never written as all or nothing", () => {
  expect(formatShare(0.999999)).toBe("99.9999 %");
  expect(formatShare(0.0000001)).toBe("0.00001 %");
  expect(formatShare(1)).toBe("100 %");
  expect(formatShare(0)).toBe("0 %");
  expect(formatShare(0.5)).toBe("50.0 %");
  expect(formatShare(NaN)).toBe("–");
});

test("durations are read and written", () => {
  expect(formatDuration(90)).toBe("1m30s");
  expect(formatDuration(86400)).toBe("1d");
  for (const text of ["1m30s", "6h", "1d2h", "45s"]) expect(formatDuration(parseDuration(text) as number)).toBe(text);
  expect(parseDuration("500ms")).toBe(0.5);
  expect(parseDuration("90")).toBe(90);
  expect(parseDuration("1y")).toBe(365 * 86400);
  for (const text of ["", "m", "5 m", "-5m", "5x"]) expect(parseDuration(text)).toBeNull();
});

test("rates are per second, in plain digits below one", () => {
  expect([0, 0.9, 0.0123, 1, 2.25, 1500, 3e6].map(formatRate)).toEqual(["0/s", "0.9/s", "0.0123/s", "1/s", "2.25/s", "1,500/s", "3M/s"]);
});
