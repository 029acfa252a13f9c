import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { readFrame } from "../src/frame.ts";
import { quantileOf, rankOf } from "../src/quantile.ts";

const hex = readFileSync(resolve(import.meta.dirname, "../../vectors/columns/frame.hex"), "utf8").replace(/\s/g, "");
const example = Uint8Array.from(hex.match(/../g) as string[], (byte) => parseInt(byte, 16));

test("the example of the format is read as what it was made of", () => {
  const { head, columns } = readFrame(example);
  expect(head).toEqual({ status: "success" });
  expect(columns).toEqual([
    { t: 1700000001, from: 1700000000, count: 5, sum: -1.9976000000000003, min: -2.5, max: 0.5, quantiles: [], bins: [[-2.6, -2.5, 1], [0, 0, 1], [0.0012, 0.0013, 2], [0.5, 0.51, 1]] },
    { t: 1700000002, count: 2.5, sum: null, min: null, max: null, quantiles: [], bins: [[0.5, 0.51, 2.5]] },
  ]);
});

test("a frame that is cut anywhere, longer, or of another kind is refused", () => {
  for (let end = 0; end < example.length; end++) expect(() => readFrame(example.slice(0, end)), `cut at ${end}`).toThrow();
  expect(() => readFrame(Uint8Array.from([...example, 0]))).toThrow("1 bytes too many");
  const other = (at: number, byte: number): Uint8Array => Uint8Array.from(example, (old, i) => (i === at ? byte : old));
  expect(() => readFrame(other(0, 0x50))).toThrow("other bytes");
  expect(() => readFrame(other(4, 2))).toThrow("another version");
  // Bounds without end: refused before anything of that size is made.
  expect(() => readFrame(Uint8Array.from([...example.slice(0, 26), 255, 255, 255, 255, 255, 127]))).toThrow("entries");
});

test("no mutated frame does anything but fail or give columns", () => {
  let seed = 11;
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below;
  let read = 0;
  for (let round = 0; round < 4_000; round++) {
    const bytes = Uint8Array.from(example);
    for (let change = 0; change <= random(3); change++) bytes[random(bytes.length)] = random(256);
    try {
      readFrame(bytes).columns.forEach((column) => expect(Array.isArray(column.bins)).toBe(true));
      read++;
    } catch (cause) {
      expect(cause instanceof RangeError || cause instanceof SyntaxError, String(cause)).toBe(true);
    }
  }
  expect(read).toBeGreaterThan(200);
});

test("ranks follow the server's rule", () => {
  expect([rankOf(0.07, 100), rankOf(0.99, 12), rankOf(0.5, 5), rankOf(0, 5), rankOf(1, 5)]).toEqual([7, 12, 3, 1, 5]);
  const bins = { lo: [1, 2], hi: [2, 3], counts: [3, 1], min: 1.5, max: 2.25, float: false };
  expect(quantileOf(bins, 0.5)).toEqual({ value: 1.75, lo: 1.5, hi: 2 });
  expect(quantileOf(bins, 1)).toEqual({ value: 2.25, lo: 2.25, hi: 2.25 });
  expect(quantileOf({ ...bins, counts: [0, 0] }, 0.5)).toBeNull();
});
