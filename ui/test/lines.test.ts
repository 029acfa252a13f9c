import { expect, test } from "vitest";
import { formatValue } from "../src/format.ts";
import { orderOf, shownAfter, summaryOf, type Row } from "../src/linetable.ts";
import { limitNotice, LINES_MAX, rateOf, strokeOf } from "../src/series.ts";
import { resultUnit, unitOfName } from "../src/units.ts";

test("a line's numbers are those of the steps that have a value", () => {
  expect(summaryOf([3, null, 1, 8, null])).toEqual({ last: 8, min: 1, max: 8, mean: 4 });
  expect(summaryOf([null])).toEqual({ last: null, min: null, max: null, mean: null });
});

test("rows sort by name upwards and by numbers downwards, without values last", () => {
  const row = (name: string, last: number | null): Row => ({ name, last, min: last, max: last, mean: last, stroke: strokeOf(0) });
  const rows = [row("b", 1), row("a", null), row("c", 5)];
  expect(orderOf(rows, "name", false)).toEqual([1, 0, 2]);
  expect(orderOf(rows, "last", false)).toEqual([2, 0, 1]);
  expect(orderOf(rows, "last", true)).toEqual([1, 0, 2]);
});

test("a click isolates and brings back, shift hides and shows", () => {
  expect(shownAfter([true, true, true], 1, true)).toEqual([false, true, false]);
  expect(shownAfter([false, true, false], 1, true)).toEqual([true, true, true]);
  expect(shownAfter([false, true, false], 0, true)).toEqual([true, false, false]);
  expect(shownAfter([true, true, true], 1, false)).toEqual([true, false, true]);
});

test("no two of the lines that are drawn look alike", () => {
  const strokes = Array.from({ length: LINES_MAX }, (_, at) => JSON.stringify(strokeOf(at)));
  expect(new Set(strokes).size).toBe(LINES_MAX);
});

test("the server's remark on what the limit left out is said once, in the page's words", () => {
  expect(limitNotice(["results truncated due to limit", "w"], ["the first 40 of 5000 series", "i"])).toEqual({
    warnings: ["w", "The first 40 of 5000 series are drawn. Aggregate, for example with sum by (...), to see all."],
    infos: ["i"],
  });
  expect(limitNotice(["w"], ["i"])).toEqual({ warnings: ["w"], infos: ["i"] });
});

test("a counter's rate looks back over several steps, and a minute at least", () => {
  expect([rateOf('a_total{b="c"}', 1), rateOf("a_total", 60)]).toEqual(['rate(a_total{b="c"}[60s])', "rate(a_total[240s])"]);
});

test("rates have units of their own", () => {
  const unitOf = (name: string): string => unitOfName(name);
  const cases = [["rate(io_bytes_total[1m])", "By/s"], ["sum by (a) (rate(requests_total[5m]))", "/s"], ["rate(cpu_seconds_total[1m])", ""], ["increase(io_bytes_total[1m])", "By"]] as const;
  for (const [query, unit] of cases) expect(resultUnit(query, unitOf), query).toBe(unit);
  expect([formatValue(1500, "/s"), formatValue(1500, "By/s"), formatValue(0, "By/s")]).toEqual(["1.5k/s", "1.5 kB/s", "0 B/s"]);
});
