import { expect, test } from "vitest";
import { rowsInView } from "../src/multiples.ts";

test("rows in view are those that can be seen and one on either side, inside of what there is", () => {
  // A row is 128 high with a gap of 10.
  expect(rowsInView(0, 500, 100)).toEqual([0, 4]);
  expect(rowsInView(1380, 276, 100)).toEqual([9, 13]);
  expect(rowsInView(0, 500, 2)).toEqual([0, 1]);
  expect(rowsInView(0, 500, 0)).toEqual([0, -1]);
});
