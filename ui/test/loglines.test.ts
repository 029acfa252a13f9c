import { describe, expect, test } from "vitest";
import { barText, barsOf, formatLogState, gridOf, parseLogState, stepOf, withField, type LogColumns } from "../src/loglines.ts";

describe("the address", () => {
  test("comes back, and usual values are left out", () => {
    expect(formatLogState(parseLogState(""))).toBe("");
    for (const address of ["?search=level%3Derror&match=log%7Bjob%3D%22a%22%7D&start=1700000000&end=1700000060", "?search=a&range=15m", "?match=log"]) {
      expect(formatLogState(parseLogState(address))).toBe(address);
    }
    expect(parseLogState("?start=5&end=1").range).toEqual({ last: 3600 });
  });
});

describe("columns", () => {
  test("are as wide as people count, and fill the range on their grid", () => {
    const check = (seconds: number, step: number): void => expect(stepOf(seconds, 90)).toBe(step);
    check(1, 1);
    check(90, 1);
    check(91, 2);
    check(3600, 60);
    check(86400, 1800);
    check(90 * 86400, 86400);
    check(365 * 86400, 5 * 86400);
    expect(gridOf({ start: 61, end: 179 }, 60)).toEqual({ start: 60, end: 180 });
    expect(gridOf({ start: 60, end: 60 }, 60)).toEqual({ start: 60, end: 120 });
  });

  const columns: LogColumns = { series: 1, scanned: 9, scanned_bytes: 90, partial: true, from: 70, columns: [[180, { info: 3, error: 1 }], [120, { unknown: 2 }]] };

  test("are bars, the most serious lowest, and say what was not counted", () => {
    const bars = barsOf(columns, 0, 240, 60);
    expect(bars.map((bar) => [bar.start, bar.end, bar.total, bar.unknown])).toEqual([[0, 60, 0, true], [60, 120, 2, true], [120, 180, 4, false], [180, 240, 0, false]]);
    expect(bars[2]?.parts).toEqual([{ severity: "error", count: 1, height: 0.25 }, { severity: "info", count: 3, height: 0.75 }]);
    expect(bars[1]?.parts).toEqual([{ severity: "unknown", count: 2, height: 0.5 }]);
    expect(barText(bars[2]!, String)).toBe("120 – 180: 4 lines, 1 error, 3 info");
    expect(barText(bars[1]!, String)).toBe("60 – 120: not counted");
    expect(barsOf({ ...columns, columns: [], from: null }, 0, 60, 60)).toEqual([{ start: 0, end: 60, total: 0, parts: [], unknown: false }]);
  });
});

describe("a field", () => {
  test("is added to the search, in quotes where it has to be", () => {
    expect(withField("", "level", "error")).toBe("level=error");
    expect(withField(" a b ", "msg", 'no "route"')).toBe('a b msg="no \\"route\\""');
    expect(withField("a OR b", "http.path", "/api/x")).toBe("(a OR b) http.path=/api/x");
    expect(withField("", "AND", "*")).toBe('"AND"="*"');
    expect(withField("", "e", "")).toBe('e=""');
  });
});
