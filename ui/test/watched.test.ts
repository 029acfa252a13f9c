import { expect, test } from "vitest";
import { EventReader, leftOutText, rowOf, Watched, type WatchCell, type WatchColumn } from "../src/watched.ts";

const cell = (t: number, more: Partial<WatchCell> = {}): WatchCell => ({ t, labels: { __name__: "rpc_seconds", host: "a" }, unit: "s", temporality: "delta", samples: 1, count: "3", max: 0.5, quantiles: [[0.5, 0.1, 0.1, 0.2], [0.99, null, null, null]], ...more });
const column = (t: number, cells: WatchCell[], more: Partial<WatchColumn["left_out"]> = {}): WatchColumn => ({ t, count: "3", cells, left_out: { batches: 0, samples: 0, texts: 0, schemes: 0, bins: 0, ...more } });

test("events are put together from any pieces", () => {
  const text = 'event: column\ndata: {"t": 1}\n\n:\n\nevent: error\ndata: {"error": "a"}\n\n';
  const expected = [{ name: "column", data: '{"t": 1}' }, { name: "error", data: '{"error": "a"}' }];
  for (let at = 0; at <= text.length; at++) {
    const reader = new EventReader();
    expect([...reader.push(text.slice(0, at)), ...reader.push(text.slice(at))]).toEqual(expected);
  }
});

test("a row is the newest second, and fragments of it add up", () => {
  const first = rowOf(cell(5), 5, undefined);
  expect([first.name, first.count, first.max, [...first.quantiles], first.largest]).toEqual(['rpc_seconds{host="a"}', 3, 0.5, [[0.5, 0.1]], 3]);
  const more = rowOf(cell(5, { count: "10", max: 0.2, quantiles: [[0.5, 0.3, 0.3, 0.3]] }), 6, first);
  expect([more.count, more.max, more.quantiles.get(0.5), more.largest, more.seen]).toEqual([13, 0.5, 0.3, 10, 6]);
  const late = rowOf(cell(4, { count: "99" }), 7, more);
  expect([late.t, late.count, late.seen]).toEqual([5, 13, 7]);
  expect(rowOf(cell(6), 7, late).count).toBe(3);
  const gauge = cell(6, { temporality: "gauge", count: null, max: null, quantiles: [], value: "+Inf" });
  expect(rowOf({ ...gauge, value: "2" }, 7, rowOf(gauge, 6, undefined)).value).toBe(2);
  expect(rowOf(gauge, 6, undefined).value).toBe(Infinity);
});

test("series that are silent go", () => {
  const watched = new Watched();
  watched.take(column(10, [cell(9), cell(9, { labels: { __name__: "b" } })]));
  watched.take(column(60, [cell(59)]));
  expect(watched.all().map((row) => row.name)).toEqual(["b", 'rpc_seconds{host="a"}']);
  watched.take(column(71, []));
  expect(watched.all().map((row) => row.name)).toEqual(['rpc_seconds{host="a"}']);
});

test("what is left out is said", () => {
  expect(leftOutText(column(1, []))).toBe("");
  expect(leftOutText(column(1, [], { samples: 1200, texts: 3 }))).toBe("Left out: 1,200 samples of further series or seconds (narrow the selector), 3 texts.");
  expect(leftOutText(column(1, [], { deltas: 2 }))).toBe("Left out: 2 histograms that the sum has no room for.");
});
