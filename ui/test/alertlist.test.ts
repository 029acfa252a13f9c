import { expect, test } from "vitest";
import { compared, familiesOf, groupsOf, hoursOf, ownLabels, shared, spans, watched, type Alert, type Finding } from "../src/alertlist.ts";

function alert(name: string, state: "pending" | "firing", more: Partial<Alert> = {}, labels: Record<string, string> = {}): Alert {
  const texts = { annotations: {}, activeAt: "2026-11-23T10:00:00Z", firedAt: null, value: 1, group: "g", file: "f", query: "up == 0", watermark: null };
  return { labels: { alertname: name, ...labels }, state, ...texts, ...more };
}

test("what fires and is heard of comes first, then what is quiet, then what is pending", () => {
  const quiet = { id: 1, reason: "known" };
  const groups = groupsOf([
    alert("Pending", "pending"),
    alert("Quiet", "firing", { quiet }),
    alert("Mixed", "pending"),
    alert("Mixed", "firing", { quiet }, { host: "a" }),
    alert("Mixed", "firing", {}, { host: "b" }),
    alert("Many", "firing", {}, { host: "a" }),
    alert("Many", "firing", {}, { host: "b" }),
    alert("Many", "firing", {}, { host: "c" }),
  ]);
  expect(groups.map(({ name, firing, quiet, pending }) => [name, firing, quiet, pending])).toEqual([["Many", 3, 0, 0], ["Mixed", 2, 1, 1], ["Quiet", 1, 1, 0], ["Pending", 0, 0, 1]]);
  expect(groups[1]?.alerts.map((one) => one.labels["host"])).toEqual(["b", "a", undefined]);
});

test("what alerts have in common is said once", () => {
  const alerts = ["a", "b"].map((host) => alert("Down", "firing", {}, { host, job: "x" }));
  const common = shared(alerts);
  expect(common).toEqual({ job: "x" });
  expect(alerts.map((one) => ownLabels(one, common))).toEqual(["host=a", "host=b"]);
});

test("hours are those before the end, the oldest first", () => {
  const end = 1_700_000_000;
  const hours = hoursOf([{ metric: { __name__: "ALERTS", alertstate: "firing", alertname: "Down" }, values: [[end - 23 * 3600, "1"], [end - 3600, "0"], [end, "1"]] }], end);
  const found = hours.get('[["alertname","Down"]]') ?? [];
  expect([found[0], found[22], found[23], found.length]).toEqual([true, false, true, 24]);
});

test("a comparison gives what it watches and its threshold", () => {
  expect(compared("histogram_quantile(0.99, sum by (job) (rate(a[5m]))) > 0.5")).toEqual({ query: "sum by (job) (rate(a[5m]))", threshold: 0.5 });
  expect(compared("a / b <= 1e-3")).toEqual({ query: "a / b", threshold: 0.001 });
  expect(compared("absent(up)")).toEqual({ query: "absent(up)", threshold: null });
});

test("spans of a backtest begin and end with the stretch", () => {
  const at = (second: number): string => new Date(second * 1000).toISOString();
  const of = (time: number, from: string, to: string, host: string) => ({ time: at(time), from, to, labels: { host } });
  const transitions = [of(100, "pending", "firing", "a"), of(150, "pending", "firing", "b"), of(200, "firing", "inactive", "a")];
  expect(spans({ name: "A", type: "alerting", failures: 0, transitions }, 0, 400)).toEqual([{ from: 0.25, to: 0.5 }, { from: 0.375, to: 1 }]);
});

test("what is lost with a parent stands below it", () => {
  const finding = (kind: string, labels: Record<string, string>): Finding => ({ kind, labels, sentence: "", began_ms: 0, evidence: { silent: 2000 } });
  const alerts = [
    alert("Down", "firing", {}, { broker: "b7", host: "a" }),
    alert("Down", "firing", {}, { broker: "b8" }),
    alert("OgiveLostParent", "firing", {}, { broker: "b7", kind: "lost_parent" }),
  ];
  const found = familiesOf([finding("shape", { broker: "b7" }), finding("shape", { broker: "b8" }), finding("lost_parent", { broker: "b7" })], alerts);
  expect(found.families.map(({ parent, alerts: own, findings, series }) => [parent.kind, own.length, findings.length, series])).toEqual([["lost_parent", 1, 1, 2000]]);
  expect(found.alerts.map((one) => one.labels["alertname"])).toEqual(["Down", "OgiveLostParent"]);
  expect(found.findings.map((one) => one.labels["broker"])).toEqual(["b8"]);
});

test("what an alert watches is the sum of its rate by the names of its labels", () => {
  const labels = { alertname: "Slow", job: "a", severity: "page" };
  expect(watched("histogram_quantile(0.99, sum by (job) (rate(x_seconds{path=\"{a}\"}[5m]))) > 0.5", labels)).toBe('sum by (job, severity) (x_seconds{path="{a}"})');
  expect(watched("rate(x[1m]) > 2", { alertname: "Slow" })).toBe("x");
  expect(watched("x > 2", labels)).toBe("sum by (job, severity) (x)");
  expect(watched("x / y > 2", labels)).toBe(null);
});
