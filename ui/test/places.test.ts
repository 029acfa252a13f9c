import { expect, test } from "vitest";
import type { QueryData } from "../src/api.ts";
import type { WireColumn } from "../src/bins.ts";
import { checkAddress, checksOf, labelsThatDiffer, linesOf, placesMax, placesOf, placesQuery, stepOfGap, strokeAt, usualGap } from "../src/places.ts";
import { LINES_MAX } from "../src/series.ts";
import { parseState } from "../src/state.ts";

test("a selector is separated by the label, and nothing else is", () => {
  expect(placesQuery('ogive_check_seconds{check="shop"}', "broker")).toBe('sum by (broker) (ogive_check_seconds{check="shop"})');
  expect(placesQuery("rpc_seconds", "a.b")).toBe('sum by ("a.b") (rpc_seconds)');
  for (const query of ["sum(rpc_seconds)", "rate(rpc_seconds[1m])", "1 + 1"]) expect(placesQuery(query, "broker"), query).toBeNull();
});

test("places have hues, quantiles have strokes, and no two lines look alike", () => {
  for (const quantiles of [1, 2, 3, 4, 5]) {
    const strokes = Array.from({ length: placesMax(quantiles) }, (_, place) => Array.from({ length: quantiles }, (_, which) => strokeAt(place, which, quantiles))).flat();
    expect(strokes.length).toBeLessThanOrEqual(LINES_MAX);
    expect(new Set(strokes.map((stroke) => JSON.stringify(stroke))).size, String(quantiles)).toBe(strokes.length);
  }
  // All sixteen brokers of a spread check, with the usual two.
  expect(placesMax(2)).toBe(16);
  expect(strokeAt(3, 0, 2).colour).toBe(strokeAt(3, 1, 2).colour);
  expect(strokeAt(0, 1, 2).dash).toEqual(strokeAt(5, 1, 2).dash);
});

test("labels to go by are those that differ, places first", () => {
  const all = [{ __name__: "a", broker: "edge-1", check: "shop", zone: "x", app: "1" }, { __name__: "b", broker: "edge-2", check: "shop", zone: "y", app: "2" }];
  expect(labelsThatDiffer(all)).toEqual(["broker", "zone", "app"]);
  expect(labelsThatDiffer([{ a: "1" }, {}])).toEqual(["a"]);
  expect(labelsThatDiffer([])).toEqual([]);
});

test("columns are as wide as places measure", () => {
  expect(usualGap([[10, 20, 30, 90], [15, 25]])).toBe(10);
  expect(usualGap([[1], []])).toBe(0);
  expect([stepOfGap(1, 0), stepOfGap(1, 1), stepOfGap(5, 60), stepOfGap(7, 60)]).toEqual([1, 1, 60, 63]);
});

const column = (t: number, values: readonly [number, number][], max: number | null = null): WireColumn => ({ t, count: "2", sum: null, min: null, max, bins: [[1, 2, 2]], quantiles: values.map(([q, value]) => [q, value, value, value]) });

test("each place has a line for each quantile", () => {
  const groups = [{ labels: { broker: "b" }, list: [column(10, [[0.5, 3], [0.99, 4]], 9), column(20, [])] }, { labels: { broker: "a" }, list: [column(10, [[0.5, 1]])] }, { labels: {}, list: [] }];
  const places = placesOf(groups, "broker");
  expect(places.map(({ name }) => name)).toEqual(["a", "b", "without broker"]);
  const { series, strokes } = linesOf(places, ["0.5", "max"]);
  expect(series.map(({ metric, values }) => [metric["__name__"], values])).toEqual([
    ["a p50", [[10, "1"]]],
    ["a max", [[10, "2"]]],
    ["b p50", [[10, "3"]]],
    ["b max", [[10, "9"], [20, "2"]]],
    ["without broker p50", []],
    ["without broker max", []],
  ]);
  expect(strokes[0]?.colour).toBe(strokes[1]?.colour);
  expect(linesOf(places, []).series).toEqual([]);
});

test("a check leads to its answers by place", () => {
  const address = checkAddress('sh"op');
  expect(address.startsWith("./?")).toBe(true);
  const state = parseState(address.slice(2));
  expect([state.query, state.by, state.range]).toEqual(['ogive_check_seconds{check="sh\\"op", phase="total"}', "broker", { last: 3600 }]);
  const row = (check: string, places: string): { metric: Record<string, string>; value: [number, string] } => ({ metric: { check }, value: [1, places] });
  const data: QueryData = { resultType: "vector", result: [row("b", "2"), row("a", "3"), row("c", "1")] };
  expect(checksOf(data)).toEqual([{ name: "a", places: 3 }, { name: "b", places: 2 }]);
  expect(checksOf({ resultType: "matrix", result: [] })).toEqual([]);
});
