import { expect, test } from "vitest";
import { BinTable } from "../src/bins.ts";
import { Pending } from "../src/pending.ts";

test("a column without a claim is unknown, an empty one is not", () => {
  const table = new BinTable();
  const wire = { t: 1, sum: null, min: null, max: null, bins: [] };
  expect(table.column({ ...wire, count: null, state: "unknown" }).unknown).toBe(true);
  expect(table.column({ ...wire, count: "0", state: "known" }).unknown).toBe(false);
  // Numbers have no count, and are known.
  expect(table.column({ ...wire, count: null, state: "known" }).unknown).toBe(false);
  expect(table.column({ ...wire, count: "0" }).unknown).toBe(false);
});

test("unknown seconds are runs until something is known of them", () => {
  const pending = new Pending();
  for (const slot of [7, 5, 6, 9]) pending.note(slot, true);
  expect(pending.runs()).toEqual([[5, 7], [9, 9]]);
  // The late cell, or the claim that there is none.
  pending.note(6, false);
  expect(pending.runs()).toEqual([[5, 5], [7, 7], [9, 9]]);
  pending.keep(6, 8, new Map());
  expect(pending.runs()).toEqual([[7, 7]]);
  pending.keep(6, 8, new Map([[7, null]]));
  expect(pending.runs()).toEqual([]);
});
