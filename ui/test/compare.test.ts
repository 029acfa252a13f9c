import { expect, test } from "vitest";
import { ValueAxis } from "../src/axis.ts";
import { BinTable } from "../src/bins.ts";
import { differences, greatestDifference, layOut, paintDifference } from "../src/cells.ts";
import { differencePalette, lightness, paletteWords } from "../src/colour.ts";
import { comparedText, formatCompared, offsetOf, parseCompared } from "../src/compared.ts";
import { changeText, parseOther } from "../src/comparepanel.ts";
import { formatState, parseState } from "../src/state.ts";

test("what is compared with stands in the address", () => {
  for (const text of ["1h", "1d", "7d", "45m", "@1700000000"]) expect(formatCompared(parseCompared(text) ?? { ago: 0 })).toBe(text);
  for (const text of ["", "x", "@", "@x", "0s", null]) expect(parseCompared(text)).toBeNull();
  const address = formatState(parseState("?compare=1h&difference=1&values=0.001,0.5&and=up&and=x"));
  expect(parseState(address)).toMatchObject({ compare: { ago: 3600 }, difference: true, values: [0.001, 0.5], more: ["up", "x"] });
  expect(formatState(parseState(""))).toBe("");
  expect(parseState("?values=2,1").values).toBeNull();
});

test("another time is whole columns away", () => {
  expect(offsetOf({ ago: 3600 }, 1_700_000_000, 5)).toBe(3600);
  expect(offsetOf({ ago: 3600 }, 1_700_000_000, 7200)).toBe(7200);
  expect(offsetOf({ ago: 10 }, 1_700_000_000, 60)).toBe(60);
  expect(offsetOf({ from: 1_699_999_000 }, 1_700_000_000, 1)).toBe(1000);
  expect(offsetOf({ from: 1_700_000_100 }, 1_700_000_000, 1)).toBe(-100);
  expect(comparedText({ ago: 86400 })).toBe("a day ago");
  expect(comparedText({ ago: 10800 })).toBe("3h ago");
  expect(parseOther("3h ago")).toEqual({ ago: 10800 });
  expect(parseOther("1700000000")).toEqual({ from: 1_700_000_000 });
  expect(parseOther("whenever")).toBeNull();
});

test("a change is written with its bounds", () => {
  const one = { q: 0.5, before: [1, 1, 1] as [number, number, number], after: [1, 1, 1] as [number, number, number], differs: true, words: "" };
  expect(changeText({ ...one, change: 0.041, bounds: [0.032, 0.05] })).toBe("+4.1 % (+3.2 to +5.0)");
  expect(changeText({ ...one, change: -0.3, bounds: [-0.35, -0.25] })).toBe("−30 % (−35 to −25)");
  expect(changeText({ ...one, change: 0.5, bounds: null })).toContain("too few");
  expect(changeText({ ...one, change: null, bounds: null })).toBe("–");
});

test("differences are of shares, not of counts", () => {
  const table = new BinTable();
  const column = (bins: [number, number, number][]): ReturnType<BinTable["column"]> => table.column({ t: 1, count: bins.reduce((sum, bin) => sum + bin[2], 0), sum: null, min: null, max: null, bins });
  const before = column([[1, 2, 50], [10, 20, 50]]);
  const now = column([[1, 2, 250], [10, 20, 750]]);
  const rows = 100;
  const axis = new ValueAxis({ positive: { lo: 1, hi: 100 }, negative: null, zero: false }, rows);
  const geometry = layOut(table, axis, false, []);
  const [scratch, out] = [new Float64Array(rows), new Float64Array(rows)];
  differences(now, before, geometry, scratch, out);
  expect(out[Math.floor(axis.y(1.5))]).toBeCloseTo(-0.25);
  expect(out[Math.floor(axis.y(15))]).toBeCloseTo(0.25);
  expect(out[Math.floor(axis.y(5))]).toBe(0);
  const max = greatestDifference(table, new Map([[1, now]]), new Map([[1, before]]), axis, false, []);
  expect(max).toBeCloseTo(0.25);
  const colours = differencePalette("dark");
  const words = new Uint32Array(rows).fill(7);
  const look = { before: new Map([[1, before]]), shades: paletteWords(colours), max };
  paintDifference(now, 1, geometry, look, [scratch, out], words, 0);
  const shades = [...look.shades];
  expect(shades.indexOf(words[Math.floor(axis.y(1.5))] as number)).toBe(0);
  expect(shades.indexOf(words[Math.floor(axis.y(15))] as number)).toBe(colours.length - 1);
  expect(words[Math.floor(axis.y(5))]).toBe(shades[(colours.length - 1) / 2]);
  // Where there is nothing to compare with, nothing is painted.
  paintDifference(now, 2, geometry, look, [scratch, out], words, 0);
  expect(new Set(words)).toEqual(new Set([0]));
  // The middle is the darkest on dark ground.
  expect(lightness(colours[128] as (typeof colours)[0])).toBeLessThan(lightness(colours[0] as (typeof colours)[0]));
});

test("bins that are not of the chosen values are not painted", () => {
  const table = new BinTable();
  const column = table.column({ t: 1, count: 3, sum: null, min: null, max: null, bins: [[1, 2, 1], [20, 30, 1], [200, 300, 1], [-3, -2, 1], [0, 0, 1]] });
  const axis = new ValueAxis({ positive: { lo: 10, hi: 100 }, negative: null, zero: false }, 100);
  for (const density of [false, true]) {
    const geometry = layOut(table, axis, density, [1, 1, 1, 1, 1]);
    const amounts = new Float64Array(100);
    differences({ ...column, count: 1 }, { ...column, ids: new Int32Array(0), counts: new Float64Array(0), count: 1 }, geometry, new Float64Array(100), amounts);
    expect([amounts[0], amounts[99]]).toEqual([0, 0]);
    expect(amounts[Math.floor(axis.y(25))]).toBeGreaterThan(0);
  }
  expect([axis.shows(1, 2), axis.shows(1, 11), axis.shows(10, 10), axis.shows(100, 200), axis.shows(0, 0)]).toEqual([false, true, true, false, false]);
});
