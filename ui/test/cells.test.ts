import { expect, test } from "vitest";
import { ValueAxis } from "../src/axis.ts";
import { BinTable, type WireColumn } from "../src/bins.ts";
import { layOut, paint, shadesOf, type Look } from "../src/cells.ts";
import { level, palette, paletteWords } from "../src/colour.ts";

const words = paletteWords(palette("ember", "dark"));
const shades = shadesOf(words, "linear");

function picture(bins: WireColumn["bins"], density: boolean, rows = 300, max = 100): { at(value: number): number; word(amount: number): number; out: Uint32Array; table: BinTable } {
  const table = new BinTable();
  const count = bins.reduce((sum, bin) => sum + Number(bin[2]), 0);
  const column = table.column({ t: 1, count, sum: null, min: null, max: null, bins });
  const axis = new ValueAxis({ positive: { lo: 1, hi: 100 }, negative: null, zero: false }, rows);
  const usual = new Float64Array(table.size);
  column.ids.forEach((id, i) => (usual[id] = column.counts[i] as number));
  const look: Look = { axis, shades, empty: words[0] as number, density, usual, max };
  const out = new Uint32Array(rows);
  paint(column, layOut(table, axis, density, usual), look, new Float64Array(rows), out, 0);
  return { at: (value) => out[Math.floor(axis.y(value))] as number, word: (amount) => words[level(amount, max, "linear")] as number, out, table };
}

test("a bin is painted between its bounds, in the colour of its count, and nothing else is", () => {
  const { at, word } = picture([[2, 4, 50], [10, 20, 100]], false);
  expect(at(3)).toBe(word(50));
  expect(at(14)).toBe(word(100));
  for (const value of [1.5, 4.5, 8, 25, 90]) expect(at(value)).toBe(words[0]);
});

test("a column without data is transparent, one that holds nothing there is not", () => {
  const rows = 50;
  const table = new BinTable();
  const axis = new ValueAxis({ positive: { lo: 1, hi: 10 }, negative: null, zero: false }, rows);
  const out = new Uint32Array(rows).fill(7);
  paint(undefined, layOut(table, axis, false, []), { axis, shades, empty: words[0] as number, density: false, usual: new Float64Array(0), max: 1 }, new Float64Array(rows), out, 0);
  expect([...new Set(out)]).toEqual([0]);
  expect(words[0]).not.toBe(0);
});

// LogLinear10 bins are 9.5 times wider just above a power of ten. A smooth distribution, painted by count, shows a
// step there that the data do not have; painted by density it is smooth.
test("density shows no band at a power of ten", () => {
  const bins: WireColumn["bins"] = [];
  for (let i = 50; i < 100; i++) bins.push([i / 10, (i + 1) / 10, 0]);
  for (let i = 10; i < 20; i++) bins.push([i, i + 1, 0]);
  // As many samples as the bin is wide on the log axis: the flat distribution.
  for (const bin of bins) bin[2] = 1e6 * Math.log((bin[1] as number) / (bin[0] as number));
  const byDensity = picture(bins, true, 4000, 20000);
  const byCount = picture(bins, false, 4000, 1e5);
  expect(byDensity.at(9.95)).toBe(byDensity.at(10.5));
  expect(byCount.at(9.95)).not.toBe(byCount.at(10.5));
});

test("bins finer than a pixel neither vanish nor count twice", () => {
  const bins: WireColumn["bins"] = [];
  for (let i = 0; i < 1000; i++) bins.push([10 * 1.0005 ** i, 10 * 1.0005 ** (i + 1), 10]);
  const { out } = picture(bins, true, 100, 1e4);
  const inside = new Set(out.slice(42, 48));
  expect(inside.size).toBe(1);
  expect(inside.has(words[0] as number)).toBe(false);
  const lone = picture([[50, 50.0001, 1]], false, 100);
  expect(lone.out.filter((word) => word !== words[0])).toHaveLength(1);
});

test.each(["linear", "sqrt", "log"] as const)("the table of %s shades agrees with the rule within one colour", (scaling) => {
  const table = shadesOf(words, scaling);
  const order = new Map([...words].map((word, i) => [word, i]));
  for (let amount = 1; amount <= 5000; amount++) {
    const found = order.get(table[Math.floor((amount / 5000) * (table.length - 1))] as number) as number;
    expect(Math.abs(found - level(amount, 5000, scaling))).toBeLessThanOrEqual(1);
  }
});

test("a count is itself, a density is per one percent of value, and a column of two slots has half in each", () => {
  expect(picture([[10, 12, 60]], false).at(11)).toBe(words[level(60, 100, "linear")]);
  const { at, word } = picture([[10, 10.1, 1000]], true, 3000, 5000);
  expect([word(1000), word(995), word(1005)]).toContain(at(10.05));
  const table = new BinTable();
  const column = { ...table.column({ t: 1, count: 50, sum: null, min: null, max: null, bins: [[10, 20, 50]] }), slots: 2 };
  const axis = new ValueAxis({ positive: { lo: 1, hi: 100 }, negative: null, zero: false }, 50);
  const out = new Uint32Array(50);
  const look: Look = { axis, shades, empty: words[0] as number, density: false, usual: new Float64Array(1), max: 100 };
  paint(column, layOut(table, axis, false, []), look, new Float64Array(50), out, 0);
  expect(out[Math.floor(axis.y(14))]).toBe(words[level(25, 100, "linear")]);
});

test("rows that a bin covers in part take it in part", () => {
  // 300 rows for two decades: a row is 10^(1/150). This bin begins half a row below row 100 and ends in the middle of row 103.
  const row = (at: number): number => 100 / 10 ** (at / 150);
  const { out, word } = picture([[row(103.25), row(100.5), 80]], false);
  expect([...out.slice(99, 105)]).toEqual([0, 40, 80, 80, 20, 0].map((amount) => word(amount)));
  const inside = picture([[row(100.5), row(100.25), 80]], false);
  expect([...inside.out.slice(99, 102)]).toEqual([0, 20, 0].map((amount) => inside.word(amount)));
});
