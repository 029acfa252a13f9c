import { expect, test } from "vitest";
import type { Series } from "../src/api.ts";
import { changeOf, checksOf, ledgerOf, pairSelector, queuesOf, sendersOf } from "../src/operations.ts";

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

test("senders that lost something come first, with every reason; the forgotten are one row", () => {
  const none = { batches: 1, received: 0, accepted: 0, duplicate: 0, rejected: {}, refused: {}, unreadable: {}, missing_batches: 0, first_ms: 1, last_ms: 1 };
  const senders = [
    { ...none, tenant: "a", protocol: "otlp", sender: "10.0.0.1", received: 5, accepted: 5, last_ms: 9 },
    { ...none, tenant: "a", protocol: "batch", sender: "10.0.0.2", source: "u", received: 9, accepted: 3, rejected: { time_too_old: 2 }, refused: { busy: 4 }, unreadable: { malformed: 3 }, missing_batches: 7 },
    { ...none, tenant: "a", protocol: "statsd", sender: "", last_ms: 10 },
    { ...none, tenant: "a", protocol: "rules", sender: "", last_ms: 8 },
  ];
  const rows = sendersOf(senders, [{ ...none, protocol: "otlp", received: 1, rejected: { series_limit: 1 } }]);
  expect(rows.map(({ name, lost }) => [name, lost])).toEqual([["10.0.0.2, u", 6], ["earlier ones", 1], ["any", 0], ["10.0.0.1", 0], ["this server", 0]]);
  expect(rows[0]).toMatchObject({ reasons: [["busy", 4], ["unreadable: malformed", 3], ["time_too_old", 2]], missing: 7, last: 1 });
});

test("a change is said with its sign, and how many times when it is much", () => {
  expect([[5, 0], [6, 3], [5, 4], [1, 4], [4, 4]].map(([now, before]) => changeOf({ now: now as number, before: before as number }))).toEqual(["+5, new", "+3, 2 times", "+1", "−3", "the same"]);
  expect(pairSelector('url=/a?x="1"')).toBe('{url="/a?x=\\"1\\""}');
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
