import { expect, test } from "vitest";
import { DEFAULTS, formatState, parseInstant, parseState, sameData, type State } from "../src/state.ts";

test("a bare address shows the first page, and the first page has a bare address", () => {
  expect(parseState("")).toEqual(DEFAULTS);
  expect(formatState(DEFAULTS)).toBe("");
});

test.each<Partial<State>>([
  { query: 'histogram_quantile(0.99, sum by (route) (increase(rpc_seconds{code=~"5..", a="&=?"}[5m])))' },
  { range: { last: 5400 } },
  { range: { start: 1700000000, end: 1700003600 } },
  { scaling: "log", density: false, palette: "mono" },
  { quantiles: [] },
  { group: '{route="/a", code="5\\"x"}' },
  { group: "*" },
  { by: "broker" },
  { quantiles: ["0.999", "max"], threshold: 0.0012 },
])("%j goes into the address and comes back", (part) => {
  const state = { ...DEFAULTS, ...part };
  expect(parseState(formatState(state))).toEqual(state);
});

test("addresses stay readable", () => {
  expect(formatState({ ...DEFAULTS, range: { last: 900 }, quantiles: ["0.5", "max"] })).toBe("?range=15m&q=0.5,max");
});

test("senseless parts of an address take their defaults", () => {
  const state = parseState("?range=never&scale=cubic&colours=beige&q=7&threshold=high&start=5&end=3");
  expect(state).toEqual({ ...DEFAULTS, quantiles: [] });
  expect(parseState("?range=999999d").range).toEqual({ last: 315360000 });
});

test("only the expression and the range decide what is asked for", () => {
  expect(sameData(DEFAULTS, { ...DEFAULTS, scaling: "log", threshold: 1 })).toBe(true);
  expect(sameData(DEFAULTS, { ...DEFAULTS, range: { last: 60 } })).toBe(false);
});

test("instants are read as a person writes them", () => {
  expect(parseInstant("1700000000")).toBe(1700000000);
  expect(parseInstant("2023-11-14T22:13:20Z")).toBe(1700000000);
  expect(parseInstant("2023-11-14 22:13")).toBe(new Date(2023, 10, 14, 22, 13).getTime() / 1000);
  expect(["now", "now-7d", "now - 1h30m", "-1h"].map((text) => parseInstant(text, 1e9))).toEqual([1e9, 1e9 - 604800, 1e9 - 5400, 1e9 - 3600]);
  for (const text of ["", "-", "-5", "now-", "now-x", "yesterday", "22:13", "2023-11"]) expect(parseInstant(text)).toBeNull();
});

test("a box is read as it was written, and nothing else is one", () => {
  const area = { start: 1_700_000_050, end: 1_700_000_060, lo: 0.1, hi: 1 };
  expect(parseState(formatState({ ...DEFAULTS, area })).area).toEqual(area);
  for (const box of ["", "1,2,3", "2,1,3,4", "1,2,4,3", "1,2,3,4,5", "a,2,3,4", "1,2,,4"]) expect(parseState(`?box=${box}`).area, box).toBeNull();
});
