import { expect, test } from "vitest";
import { arranged, inSight, problems, versionText, type BrokerRow, type State } from "../src/fleetrows.ts";

function row(name: string, state: State, version: number | null, more: Partial<BrokerRow> = {}): BrokerRow {
  const report = version === null ? null : { ogive: "0.1.0", version, refused: null, lag_seconds: version, spool_bytes: 1, spool_bytes_max: 2, gap_samples: 0, cpu: 0.01, memory_bytes: 1, checks: 1, findings: [], destinations: [] };
  return { name, group: "edge", state, should_run: 8, seen_ms: null, address: null, clock_offset_seconds: null, report, token_expires_ms: 0, tasks: 0, ...more };
}

test("a version shows what it should be where that is another", () => {
  expect([row("a", "in_sync", 8), row("a", "drift", 7), row("a", "unseen", null)].map(versionText)).toEqual(["8", "7 → 8", "– → 8"]);
});

test("those that want somebody come first, and words and states select", () => {
  const all = [row("c", "in_sync", 8), row("b", "refusing", 7), row("a", "in_sync", 9), row("d", "away", 3, { group: "core" })];
  const names = (words: string, state: State | null, by: string, reversed = false): string => arranged(all, words, state, by, reversed).map((one) => one.name).join("");
  expect(names("", null, "state")).toBe("bdac");
  expect(names("", null, "state", true)).toBe("acdb");
  expect(names("", null, "name")).toBe("abcd");
  expect(names("", null, "lag")).toBe("acbd");
  expect(names("CORE", null, "name")).toBe("d");
  expect(names("edge b", null, "name")).toBe("b");
  expect(names("", "in_sync", "name", true)).toBe("ca");
});

test("problems are what is refused, found and behind", () => {
  const one = row("a", "refusing", 7);
  const report = { ...(one.report as NonNullable<BrokerRow["report"]>), refused: { version: 8, reason: "invalid", why: "line 2" }, findings: ["disk full"], destinations: [{ name: "dc1", lag_seconds: 9, problem: "no answer" }, { name: "dc2", lag_seconds: 0, problem: null }] };
  expect(problems({ ...one, report })).toEqual(["It refuses version 8, invalid: line 2", "disk full", "dc1: no answer"]);
});

test("only rows in sight are drawn", () => {
  expect(inSight(0, 300, 30, 10_000)).toEqual([0, 18]);
  expect(inSight(150_000, 300, 30, 10_000)).toEqual([4_992, 5_018]);
  expect(inSight(299_700, 300, 30, 10_000)).toEqual([9_982, 10_000]);
  expect(inSight(500, 300, 30, 0)).toEqual([0, 0]);
});
