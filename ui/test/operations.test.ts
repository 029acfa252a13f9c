import { expect, test } from "vitest";
import type { Series } from "../src/api.ts";
import { checksOf, growthOf, ledgerOf, queuesOf } from "../src/operations.ts";

const one = (metric: Record<string, string>, value: number): Series => ({ metric, value: [1, String(value)] });

test("the ledger has what became of each sample, the protocol that lost most first", () => {
  const rows = ledgerOf([
    one({ protocol: "batch", outcome: "accepted", reason: "" }, 100),
    one({ protocol: "batch", outcome: "duplicate", reason: "" }, 10),
    one({ protocol: "statsd", outcome: "accepted", reason: "" }, 5),
    one({ protocol: "statsd", outcome: "rejected", reason: "too_old" }, 2),
    one({ protocol: "statsd", outcome: "refused", reason: "busy" }, 3),
    one({ protocol: "influx", outcome: "rejected", reason: "x" }, 0),
  ]);
  expect(rows).toEqual([
    { protocol: "statsd", accepted: 5, duplicate: 0, rejected: 2, refused: 3, reasons: [["busy", 3], ["too_old", 2]] },
    { protocol: "batch", accepted: 100, duplicate: 10, rejected: 0, refused: 0, reasons: [] },
  ]);
});

test("names that have another number of series are named, what grew most first", () => {
  const now = [one({ __name__: "a" }, 10), one({ __name__: "b" }, 5), one({ __name__: "new" }, 7)];
  const before = [one({ __name__: "a" }, 4), one({ __name__: "b" }, 5), one({ __name__: "gone" }, 3)];
  expect(growthOf(now, before).map(({ name }) => name)).toEqual(["new", "a", "gone"]);
  expect(growthOf(now, before, 1)).toEqual([{ name: "new", now: 7, before: 0 }]);
});

test("queues are those that the server has, and what is sent on after them", () => {
  const status = { queue_batches: 3, deletions_pending: 0, blocks: 9 };
  const lags = [one({ __name__: "ogive_forward_lag_seconds", forward: "far" }, 2), one({ __name__: "ogive_alerts_waiting", destination: "hook" }, 7), one({ __name__: "other" }, 9)];
  expect(queuesOf(status, lags).map(({ name, label, value, unit }) => [name, label, value, unit])).toEqual([
    ["Batches", "", 3, ""],
    ["Deletions", "", 0, ""],
    ["Alerts", "hook", 7, ""],
    ["Forwards", "far", 2, "s"],
  ]);
});

test("checks that are down come first, each with its last error", () => {
  const up = [one({ check: "a", kind: "tcp", target: "h:1" }, 1), one({ check: "b", kind: "http", target: "http://h" }, 0)];
  const texts: Series[] = [
    { metric: { check: "b" }, values: [[10, "refused: no"], [30, "timeout: late"]] },
    { metric: { check: "b" }, values: [[20, "status: 500"]] },
  ];
  expect(checksOf(up, [one({ check: "a" }, 0.5), { metric: { check: "b" }, value: [1, "NaN"] }], texts)).toEqual([
    { check: "b", kind: "http", target: "http://h", up: false, p99: null, error: "timeout: late", errorAt: 30 },
    { check: "a", kind: "tcp", target: "h:1", up: true, p99: 0.5, error: "", errorAt: 0 },
  ]);
});
