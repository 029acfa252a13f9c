import { describe, expect, test } from "vitest";
import { readFileSync } from "node:fs";
import { spaced } from "../src/marks.ts";
import { parseState, formatState } from "../src/state.ts";
import { barsOf, chosenIndex, classesOf, clockText, doubts, idOf, lineSummary, listText, placedMarks, publishedAt, sentence, stageSelector, worstOf, type Raw, type Trace } from "../src/traces.ts";

const clock = { mode: "counter", source: "tsc-lfence", frequency_hz: 2_596_120_000, err_ns: 35, read_ns: 10.1, epoch: 0 };

function trace(more: Partial<Trace> = {}): Trace {
  return {
    t: 1700000001,
    labels: { __name__: "order_path_slow", stage: "total", host: "a" },
    cell: { labels: { __name__: "order_path_seconds", stage: "total", host: "a" }, selector: 'order_path_seconds{host="a", stage="total"}', t: 1700000001 },
    path: "OrderPath",
    publisher: "feed 1",
    published_ns: "1700000000123456789",
    total_ns: 10_047_998,
    limit_ns: 1_000_000,
    gap_ns: 10_052_113,
    epoch: 0,
    clamped: 0,
    missing: [],
    worst: "journal",
    stages: [
      { name: "decode", class: "infra", start_ns: 0, ns: 1_204, percent: 0.01 },
      { name: "journal", class: "infra", start_ns: 1_204, ns: 10_041_210, percent: 99.93 },
      { name: "matched", class: "logic", start_ns: 10_042_414, ns: 2_313, percent: 0.02 },
      { name: "publish", class: "infra", start_ns: 10_044_727, ns: 3_271, percent: 0.03 },
    ],
    listed: 0,
    listed_lost: 0,
    marks: [],
    clock,
    ...more,
  };
}

const raw: Raw = { t: 5, labels: {}, cell: null, raw: "x", error: "not a slow trace" };

describe("bars", () => {
  test("lie one after the other, stay inside, and are all seen", () => {
    const bars = barsOf(trace());
    expect(bars.map((bar) => bar.stage.name)).toEqual(["decode", "journal", "matched", "publish"]);
    for (const { left, width } of bars) {
      expect(width).toBeGreaterThan(0.3);
      expect(left + width).toBeLessThanOrEqual(100);
    }
    expect(bars[1]?.left).toBeCloseTo(0.012, 3);
    expect(bars[1]?.width).toBeCloseTo(99.93, 2);
  });

  test("a trace of no time has bars too", () => {
    const stages = [{ name: "a", class: "logic" as const, start_ns: 0, ns: 0, percent: 0 }];
    expect(barsOf(trace({ total_ns: 0, stages }))[0]).toMatchObject({ left: 0 });
  });

  test("classes add up", () => {
    expect(classesOf(trace()).map(({ name, ns }) => [name, ns])).toEqual([["infra", 10_045_685], ["logic", 2_313]]);
  });
});

describe("choosing", () => {
  const list = [trace({ total_ns: 50_000_000, published_ns: "3" }), trace({ published_ns: "2" }), trace({ total_ns: 2_000_000, published_ns: "1" }), raw];
  test.each<[string | null, number | null, number]>([
    ["2", 0.05, 1],
    [null, 0.0021, 2],
    [null, 0.012, 1],
    [null, 9, 0],
    ["gone", null, 0],
    [idOf(raw), null, 3],
    [null, 0, 0],
  ])("id %s, value %s", (id, value, expected) => expect(chosenIndex(list, id, value)).toBe(expected));

  test("of none there is none", () => expect(chosenIndex([], "1", 1)).toBe(-1));
});

describe("words", () => {
  test("say where the time went, and when", () => {
    expect(worstOf(trace())).toBe("journal 99.93 %");
    expect(sentence(trace())).toBe("10 ms in OrderPath, journal 99.93 %; infra 99.98 %, logic 0.02 %");
    expect(publishedAt(trace())).toMatch(/^\d\d:\d\d:20\.123$/);
    expect(publishedAt(trace({ published_ns: "1700000000029999999" }))).toMatch(/20\.029$/);
  });

  test("say what the clock was", () => {
    expect(clockText(clock)).toBe("counter, tsc-lfence at 2.5961 GHz; error at most 35 ns; a stamp costs 10.1 ns; epoch 0");
    expect(clockText({ ...clock, frequency_hz: 0 })).not.toContain("Hz");
  });

  test("marks have their place and the time since the one before of their name", () => {
    const marks = [
      { name: "trade", ns: 1_000 },
      { name: "ack", ns: 2_000 },
      { name: "trade", ns: 5_023_999 },
      { name: "trade", ns: 99_000_000 },
    ];
    const with_marks = trace({ marks, listed: 6, listed_lost: 1 });
    const placed = placedMarks(with_marks);
    expect(placed.map(({ since }) => since)).toEqual([null, null, 5_022_999, 93_976_001]);
    expect(placed.map(({ left }) => Math.round(left))).toEqual([0, 0, 50, 100]);
    expect(listText(with_marks)).toBe("6 marks on its list, 4 shown, the first 1 overwritten before it was finished.");
    expect(listText(trace())).toBeNull();
  });

  test.each<[Partial<Trace>, string]>([
    [{ missing: ["replicate"] }, "replicate"],
    [{ clamped: 2 }, "2 stamps"],
    [{ epoch: 1 }, "broke"],
    [{ clock: { ...clock, mode: "os" } }, "through the os"],
    [{ clock: { ...clock, read_ns: 900 } }, "900 ns"],
  ])("doubts of %j", (more, word) => {
    expect(doubts(trace())).toEqual([]);
    expect(doubts(trace(more)).join()).toContain(word);
  });

  test("sum up a stored line", () => {
    const line = readFileSync(new URL("../../vectors/trace/slow.txt", import.meta.url), "utf8").trimEnd();
    expect(lineSummary(line)).toEqual({ text: "OrderPath of feed 1: 10 ms, journal 99.93 %", id: "1700000000123456789" });
    expect(lineSummary(line.replace("%20", "%zz"))).toBeNull();
    expect(lineSummary("started ogive-trace=1")).toBeNull();
  });

  test("a stage leads to its own histogram", () => {
    const one = trace();
    expect(stageSelector(one, one.stages[1]!)).toBe('order_path_seconds{stage="journal", host="a", class="infra"}');
    expect(stageSelector(trace({ cell: null }), one.stages[1]!)).toBeNull();
  });
});

test("marks that would touch are one", () => {
  expect(spaced([9, 1, 2, 3, 7], 2)).toEqual([1, 7]);
  expect(spaced([1, 2, 3], 6)).toEqual([1, 2, 3]);
});

test("the address keeps which slow traces are shown", () => {
  const address = "?slow=1700000000.5-1700000001&trace=1700000000123456789";
  const state = parseState(address);
  expect(state).toMatchObject({ slow: { start: 1700000000.5, end: 1700000001 }, trace: "1700000000123456789" });
  expect(formatState(state)).toBe(address);
  expect(formatState({ ...state, slow: null })).toBe("");
  for (const wrong of ["2-1", "a-b", "1", ""]) expect(parseState(`?slow=${wrong}`).slow).toBeNull();
});
