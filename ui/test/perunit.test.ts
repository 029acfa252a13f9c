import { expect, test } from "vitest";
import { countersOf, countOf, countQuery, perUnit } from "../src/perunit.ts";

test("counters are counted by their increase, and expressions stand", () => {
  expect(countQuery("a_total", "1h")).toBe("sum(increase(a_total[1h]))");
  expect(countQuery(' a_total{b="c"} ', "5m")).toBe('sum(increase(a_total{b="c"}[5m]))');
  expect(countQuery('{__name__="a",b="c"}', "5m")).toBe('sum(increase({__name__="a",b="c"}[5m]))');
  for (const expr of ["sum(rate(a_total[5m]))", "a_total offset 5m", "a + b", ""]) expect(countQuery(expr, "1h")).toBe(expr);
});

test("answers are summed, and histograms counted", () => {
  const vector = (...result: object[]): number | null => countOf({ resultType: "vector", result } as never);
  expect(vector()).toBe(null);
  expect(vector({ metric: {}, value: [1, "2.5"] }, { metric: {}, value: [1, "1"] })).toBe(3.5);
  expect(vector({ metric: {}, histogram: [1, { count: "12", sum: "1", buckets: [] }] })).toBe(12);
  expect(countOf({ resultType: "scalar", result: [1, "7"] })).toBe(7);
  expect(countOf({ resultType: "matrix", result: [] })).toBe(null);
});

test("rows are quotients, and small counts are noise", () => {
  const per = [1_000_000, 500_000] as const;
  expect(perUnit("a", [3_200_000, 1_000_000], per)).toEqual({ name: "a", counts: [3_200_000, 1_000_000], each: [3.2, 2], change: expect.closeTo(0.6) as number, noise: false });
  expect(perUnit("few", [6, 2], per).noise).toBe(true);
  expect(perUnit("new", [5, null], per)).toMatchObject({ each: [5e-6, null], change: null, noise: false });
  expect(perUnit("none", [5, 5], [0, null]).each).toEqual([null, null]);
});

test("lines are counters", () => {
  expect(countersOf(" a_total \n\n b ")).toEqual([{ name: "a_total", expr: "a_total" }, { name: "b", expr: "b" }]);
});
