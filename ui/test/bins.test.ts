import { expect, test } from "vitest";
import { binAt, BinTable, countUpTo, merge, quantileBin, shareBelow, snapToEdge, type WireColumn } from "../src/bins.ts";

function wire(t: number, bins: WireColumn["bins"], more: Partial<WireColumn> = {}): WireColumn {
  const count = bins.reduce((sum, bin) => sum + Number(bin[2]), 0);
  return { t, count: String(count), sum: null, min: null, max: null, bins, ...more };
}

test("bounds that come again have one id, and open ends are read in every form", () => {
  const table = new BinTable();
  const column = table.column(wire(1, [["-Inf", 1, 2], [1, 2, "3"], [2, null, 4]]));
  expect(table.size).toBe(3);
  expect([...column.ids].map((id) => [table.lo[id], table.hi[id]])).toEqual([[-Infinity, 1], [1, 2], [2, Infinity]]);
  table.column(wire(2, [[1, 2, 1]]));
  expect(table.size).toBe(3);
  table.column(wire(2, [[1, 3, 1]]));
  expect(table.size).toBe(4);
});

test("a column is put in order and loses bins that hold nothing", () => {
  const table = new BinTable();
  const column = table.column(wire(1, [[3, 4, 1], [1, 2, 5], [2, 3, 0]]));
  expect([...column.counts]).toEqual([5, 1]);
  expect(column.count).toBe(6);
});

// The model: every sample in a sorted list.
test("merging agrees with the sorted list of all samples", () => {
  let seed = 7;
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let round = 0; round < 50; round++) {
    const table = new BinTable();
    const samples: number[] = [];
    const columns = [0, 1, 2].map((t) => {
      const bins: WireColumn["bins"] = [];
      for (let lo = 1; lo < 30; lo++) {
        const count = random() < 0.4 ? Math.floor(random() * 5) : 0;
        bins.push([lo, lo + 1, count]);
        for (let i = 0; i < count; i++) samples.push(lo);
      }
      return table.column(wire(t, bins));
    });
    samples.sort((a, b) => a - b);
    const merged = merge(table, columns);
    expect(merged.total).toBe(samples.length);
    for (const q of [0, 0.01, 0.25, 0.5, 0.9, 0.99, 1]) {
      const rank = Math.max(1, Math.ceil(q * samples.length - 1e-9 * samples.length));
      expect(quantileBin(table, merged, q)?.lo).toBe(samples[rank - 1]);
    }
    for (const edge of [1, 5, 12, 30]) {
      const below = samples.filter((sample) => sample < edge).length / samples.length;
      expect(shareBelow(table, merged, edge).lo).toBeCloseTo(below, 12);
      expect(shareBelow(table, merged, edge).hi).toBeCloseTo(below, 12);
    }
  }
});

test("inside of a bin the share has bounds, and the threshold goes to the nearer edge", () => {
  const table = new BinTable();
  const merged = merge(table, [table.column(wire(1, [[1, 2, 50], [10, 20, 50]]))]);
  expect(shareBelow(table, merged, 12)).toEqual({ lo: 0.5, hi: 1 });
  expect(snapToEdge(table, merged, 12)).toBe(10);
  expect(snapToEdge(table, merged, 18)).toBe(20);
  expect(snapToEdge(table, merged, 5)).toBe(5);
});

test("what one column does not know, the sum does not claim to know", () => {
  const table = new BinTable();
  const known = table.column(wire(1, [[1, 2, 1]], { min: 1.5, max: 1.5, sum: 1.5 }));
  const unknown = table.column(wire(2, [[1, 2, 1]]));
  expect(merge(table, [known])).toMatchObject({ min: 1.5, max: 1.5, sum: 1.5 });
  expect(merge(table, [known, unknown])).toMatchObject({ min: null, max: null, sum: null });
  expect(merge(table, [])).toMatchObject({ total: 0, min: null, max: null });
});

test("a value finds its bin, and nothing between bins", () => {
  const table = new BinTable();
  const column = table.column(wire(1, [[1, 2, 3], [2, 3, 4], [5, 6, 1]]));
  expect(binAt(table, column, 1.5)).toBe(0);
  expect(binAt(table, column, 2.5)).toBe(1);
  expect(binAt(table, column, 4)).toBe(-1);
  expect(countUpTo(column, 1)).toBe(7);
});
