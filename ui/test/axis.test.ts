import { expect, test } from "vitest";
import { COLUMNS_MAX, covers, DomainBuilder, niceCeil, niceFloor, stepFor, timeTicks, ValueAxis } from "../src/axis.ts";

test.each([[1.2e-5, 1e-5, 2e-5], [0.003, 2e-3, 5e-3], [5, 5, 5], [0.1, 0.1, 0.1], [9.9, 5, 10], [7e-9, 5e-9, 1e-8]])(
  "%s lies between the round values %s and %s",
  (value, floor, ceil) => {
    expect(niceFloor(value)).toBe(floor);
    expect(niceCeil(value)).toBe(ceil);
  },
);

function domain(...bins: [number, number][]) {
  const builder = new DomainBuilder();
  for (const [lo, hi] of bins) builder.add(lo, hi);
  return builder.build();
}

test("a domain shows every bin, at least a decade of it, and knows zero and open ends", () => {
  expect(domain()).toBeNull();
  expect(domain([1.2e-5, 1.3e-5], [0.3, 0.31])).toEqual({ positive: { lo: 1e-5, hi: 0.5 }, negative: null, zero: false });
  const narrow = domain([1, 1.1]);
  expect((narrow?.positive?.hi ?? 0) / (narrow?.positive?.lo ?? 1)).toBeGreaterThanOrEqual(10);
  expect(domain([-1e-128, 1e-128], [1, 2])?.zero).toBe(true);
  expect(domain([-2, -1], [10, 20])).toMatchObject({ zero: true, negative: { lo: expect.any(Number) }, positive: { lo: expect.any(Number) } });
  expect(domain([-Infinity, 5], [5, 10], [10, Infinity])).toEqual({ zero: false, negative: null, positive: { lo: 0.5, hi: 100 } });
});

test("covers sees an axis that is too short", () => {
  const wide = domain([1e-5, 1])!;
  expect(covers(wide, domain([1e-3, 0.1])!)).toBe(true);
  expect(covers(wide, domain([1e-3, 5])!)).toBe(false);
  expect(covers(wide, domain([-5, -1])!)).toBe(false);
});

test("pixels and values are each other's inverse, and rise the other way round", () => {
  const axis = new ValueAxis({ positive: { lo: 1e-6, hi: 10 }, negative: { lo: 1e-3, hi: 1 }, zero: true }, 600);
  for (const value of [1.5e-6, 1e-3, 0.7, 9.9, -0.002, -0.9]) expect(axis.value(axis.y(value)) / value).toBeCloseTo(1, 9);
  let last = Infinity;
  for (const value of [-1, -0.01, -0.001, 0, 1e-6, 1e-3, 1, 10]) {
    expect(axis.y(value)).toBeLessThanOrEqual(last);
    last = axis.y(value);
  }
  expect(axis.y(1e9)).toBe(0);
  expect(axis.y(-1e9)).toBe(600);
  expect(axis.value((axis.band[0] + axis.band[1]) / 2)).toBe(0);
});

test("a log axis gives bins their true heights: the one after a decade is the tallest", () => {
  const axis = new ValueAxis({ positive: { lo: 1, hi: 100 }, negative: null, zero: false }, 1000);
  const height = (lo: number, hi: number): number => axis.span(lo, hi)[1] - axis.span(lo, hi)[0];
  expect(height(10, 11) / height(9.9, 10)).toBeCloseTo(Math.log(1.1) / Math.log(10 / 9.9), 9);
  expect(axis.span(1, 100)).toEqual([0, 1000]);
});

test("ticks are round, labelled where there is room, and inside", () => {
  const axis = new ValueAxis({ positive: { lo: 5e-6, hi: 0.05 }, negative: null, zero: false }, 600);
  const major = axis.ticks().filter((tick) => tick.major).map((tick) => tick.value);
  expect(major).toContain(1e-3);
  expect(major).toContain(2e-4);
  for (const tick of axis.ticks()) expect(tick.at).toBeGreaterThanOrEqual(0);
  const tall = new ValueAxis({ positive: { lo: 1e-100, hi: 1e100 }, negative: null, zero: false }, 400);
  expect(tall.ticks().filter((tick) => tick.major).length).toBeLessThan(20);
});

test("steps keep columns wide enough to see and few enough to draw", () => {
  expect(stepFor(300, 850)).toBe(1);
  expect(stepFor(900, 850)).toBe(5);
  expect(stepFor(86400, 850)).toBe(300);
  for (const seconds of [60, 3600, 86400 * 30, 86400 * 3650]) {
    expect(seconds / stepFor(seconds, 1e6)).toBeLessThanOrEqual(COLUMNS_MAX);
    expect(stepFor(seconds, 1e6)).toBeGreaterThanOrEqual(1);
  }
});

test("time ticks fall on round times and do not crowd", () => {
  const ticks = timeTicks(1_700_000_003, 1_700_000_303, 800);
  expect(ticks.length).toBeGreaterThan(3);
  expect(ticks.length).toBeLessThanOrEqual(10);
  for (const tick of ticks) expect(tick.t % 10).toBe(0);
});
