import { expect, test } from "vitest";
import { ValueAxis } from "../src/axis.ts";
import { BinTable } from "../src/bins.ts";
import { accumulate, layOut } from "../src/cells.ts";
import { shareUpTo, WIDEST, windows } from "../src/kernel.ts";

/** Log-linear bins from 10^-2 to 10^3 that a density on the log axis fills; `random` rounds to whole samples. */
function filled(density: (log10: number) => number, random?: () => number): { table: BinTable; counts: Float64Array } {
  const table = new BinTable();
  const counts: number[] = [];
  for (let decade = -2; decade < 3; decade++) {
    for (let tenth = 10; tenth < 100; tenth++) {
      const [lo, hi] = [Number(`${tenth}e${decade - 1}`), Number(`${tenth + 1}e${decade - 1}`)];
      const expected = density(Math.log10(lo * hi) / 2) * Math.log10(hi / lo);
      counts[table.id(lo, hi)] = random === undefined ? expected : poisson(expected, random);
    }
  }
  return { table, counts: Float64Array.from(counts) };
}

function poisson(mean: number, random: () => number): number {
  let count = 0;
  for (let product = random(); product > Math.exp(-mean); count++) product *= random();
  return count;
}

function generator(seed: number): () => number {
  return () => (seed = (seed * 48271) % 2147483647) / 2147483647;
}

/** Amounts of the rows of one column. */
function rows({ table, counts }: { table: BinTable; counts: Float64Array }, height = 1000): { axis: ValueAxis; amounts: Float64Array } {
  const axis = new ValueAxis({ positive: { lo: 0.01, hi: 1000 }, negative: null, zero: false }, height);
  const amounts = new Float64Array(height);
  accumulate({ ids: [...counts.keys()], counts }, layOut(table, axis, true, counts), 1, amounts);
  return { axis, amounts };
}

const mean = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0) / values.length;

// Once, lone samples below a power of ten were nine times as bright as above it: an edge, and with few samples a second mode.
test.each([3, 30, 300, 3000])("a flat distribution of %i samples a decade has no edge at a power of ten", (per) => {
  let [below, above] = [0, 0];
  for (let seed = 1; seed <= 20; seed++) {
    const { axis, amounts } = rows(filled(() => per, generator(seed * 7919)));
    const between = (lo: number, hi: number): Float64Array => amounts.slice(Math.ceil(axis.y(hi)), Math.floor(axis.y(lo)));
    // The greatest is what the eye sees.
    for (const ten of [0.1, 1, 10]) {
      below += Math.max(...between(ten * 0.7, ten * 0.95));
      above += Math.max(...between(ten * 1.05, ten * 1.4));
    }
  }
  expect(below / above).toBeGreaterThan(0.6);
  expect(below / above).toBeLessThan(1.6);
});

// Narrow bins that were widened alone spilt over a power of ten, and nothing came back: a line where it stands.
test.each([30, 300, 1000, 3000, 30000])("%i samples a decade without chance are drawn flat", (per) => {
  const { axis, amounts } = rows(filled(() => per), 2000);
  const inner = amounts.slice(Math.ceil(axis.y(100)), Math.floor(axis.y(0.1)));
  expect(Math.max(...inner) / Math.min(...inner)).toBeLessThan(1.15);
});

test("one sample looks like any other, whatever the width of its bin", () => {
  for (const [lo, hi] of [[9.9, 10], [10, 11], [5, 5.1]] as const) {
    const table = new BinTable();
    const counts = Float64Array.of(1);
    table.id(lo, hi);
    const { amounts } = rows({ table, counts });
    const lone = Math.log(1.01) / WIDEST;
    expect(Math.max(...amounts)).toBeGreaterThan(0.9 * lone);
    expect(Math.max(...amounts)).toBeLessThan(1.02 * lone);
  }
});

test("where there are many samples, bins are drawn as they are, and two modes 6 % apart stay two", () => {
  const { table, counts } = filled((log10) => (Math.abs(log10 - Math.log10(8.05)) < 0.008 || Math.abs(log10 - Math.log10(8.55)) < 0.008 ? 1e7 : 1e3));
  const { axis, amounts } = rows({ table, counts }, 4000);
  const at = (value: number): number => amounts[Math.floor(axis.y(value))] as number;
  expect(at(8.3)).toBeLessThan(0.01 * at(8.05));
  expect(at(8.3)).toBeLessThan(0.01 * at(8.55));
});

test("samples are neither lost nor made, on both sides of zero, and bins without a log width stay", () => {
  const { table, counts } = filled((log10) => 200 * Math.exp(-((log10 - 0.5) ** 2) * 8), generator(5));
  const { amounts } = rows({ table, counts }, 5000);
  const perRow = Math.log(1e5) / 5000 / Math.log(1.01);
  expect(mean(amounts) * 5000 * perRow).toBeCloseTo(counts.reduce((sum, count) => sum + count, 0), 0);
  const both = new BinTable();
  [both.id(-11, -10), both.id(-1e-128, 1e-128), both.id(9.9, 10), both.id(10, Infinity)];
  const widths = windows(both, [1, 1, 1, 1]);
  expect([...widths].map((width) => Number.isNaN(width))).toEqual([false, true, false, true]);
  for (const [width, window] of [[0.1, 0.01], [0.01, 0.1], [0.1, 0.1], [0.1, 1e-9]] as const) {
    expect([-1, 0, 1].map((u) => shareUpTo(u, width, window))).toEqual([0, expect.closeTo(0.5, 9), 1]);
  }
});
