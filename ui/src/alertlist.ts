/** Alerts as a list: groups by name, those that fire first, with the hours in which they fired. Pure. */

import type { Labels, Series } from "./api.ts";

export interface Quiet {
  /** Of a silence. */
  readonly id?: number;
  readonly by?: string;
  readonly reason?: string;
  readonly end?: string;
  readonly acknowledgement?: boolean;
  /** Name of a window. */
  readonly maintenance?: string;
}

export interface Alert {
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly state: "pending" | "firing";
  readonly activeAt: string;
  readonly firedAt: string | null;
  readonly value: number | string;
  readonly group: string;
  readonly file: string;
  readonly query: string;
  readonly watermark: string | null;
  readonly quiet?: Quiet;
}

export interface Silence extends Quiet {
  readonly id: number;
  readonly match: Labels;
  readonly start: string;
  readonly inForce: boolean;
}

/** What a detector found. */
export interface Finding {
  readonly kind: string;
  readonly sentence: string;
  readonly began_ms: number;
  readonly labels: Labels;
  readonly evidence: Record<string, number>;
}

/** A lost parent with what is lost with it. */
export interface Family {
  readonly parent: Finding;
  readonly alerts: readonly Alert[];
  readonly findings: readonly Finding[];
  /** Series that have no finding of their own. */
  readonly series: number;
}

/** Lost parents with the alerts and findings of their labels; what belongs to none stays. */
export function familiesOf(findings: readonly Finding[], alerts: readonly Alert[]): { families: Family[]; findings: Finding[]; alerts: Alert[] } {
  const lost = findings.filter((finding) => finding.kind === "lost_parent");
  const covers = (parent: Finding, labels: Labels): boolean => {
    const pairs = Object.entries(parent.labels).filter(([name]) => name !== "__name__");
    // The finding as a series has the parent's labels too: an alert on it is the parent's own, and no child.
    return pairs.length > 0 && labels["kind"] !== "lost_parent" && pairs.every(([name, value]) => labels[name] === value);
  };
  const parentOf = (labels: Labels): Finding | undefined => lost.find((parent) => covers(parent, labels));
  const others = findings.filter((finding) => finding.kind !== "lost_parent");
  const families = lost.map((parent) => ({
    parent,
    alerts: alerts.filter((alert) => parentOf(alert.labels) === parent),
    findings: others.filter((finding) => parentOf(finding.labels) === parent),
    series: parent.evidence["silent"] ?? parent.evidence["series"] ?? 0,
  }));
  return { families, findings: others.filter((one) => parentOf(one.labels) === undefined), alerts: alerts.filter((one) => parentOf(one.labels) === undefined) };
}

export interface AlertGroup {
  readonly name: string;
  readonly alerts: readonly Alert[];
  readonly firing: number;
  readonly pending: number;
  /** Of those that fire. */
  readonly quiet: number;
}

/** How urgent an alert is: what fires and is heard of, what fires quietly, what is pending. */
function rank(alert: Alert): number {
  if (alert.state === "pending") return 2;
  return alert.quiet === undefined ? 0 : 1;
}

/** Alerts by name: the groups with the most urgent alert first, then those with more of them. */
export function groupsOf(alerts: readonly Alert[]): AlertGroup[] {
  const byName = new Map<string, Alert[]>();
  for (const alert of alerts) {
    const name = alert.labels["alertname"] ?? "";
    byName.set(name, [...(byName.get(name) ?? []), alert]);
  }
  const groups = [...byName].map(([name, all]) => {
    const sorted = all.toSorted((a, b) => rank(a) - rank(b) || b.activeAt.localeCompare(a.activeAt));
    const firing = all.filter((alert) => alert.state === "firing");
    return { name, alerts: sorted, firing: firing.length, pending: all.length - firing.length, quiet: firing.filter((alert) => alert.quiet !== undefined).length };
  });
  const urgency = (group: AlertGroup): number => Math.min(...group.alerts.map(rank));
  return groups.toSorted((a, b) => urgency(a) - urgency(b) || b.firing - a.firing || a.name.localeCompare(b.name));
}

/** One text for equal labels. */
export function identity(labels: Labels): string {
  const own = Object.entries(labels).filter(([name]) => name !== "__name__" && name !== "alertstate");
  return JSON.stringify(own.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export const HOURS = 24;

/** For each alert the hours in which it fired, the oldest first; `end` is the end of the last one, in seconds. */
export function hoursOf(series: readonly Series[], end: number): Map<string, boolean[]> {
  const out = new Map<string, boolean[]>();
  for (const one of series) {
    const hours = new Array<boolean>(HOURS).fill(false);
    for (const [time, value] of one.values ?? []) {
      const ago = Math.round((end - time) / 3600);
      if (ago >= 0 && ago < HOURS && Number(value) > 0) hours[HOURS - 1 - ago] = true;
    }
    out.set(identity(one.metric), hours);
  }
  return out;
}

/** What all alerts of a group have, and of each what only it has; the name is in neither. */
export function shared(alerts: readonly Alert[]): Labels {
  const first = alerts[0]?.labels ?? {};
  return Object.fromEntries(Object.entries(first).filter(([name, value]) => name !== "alertname" && alerts.every((alert) => alert.labels[name] === value)));
}

export function ownLabels(alert: Alert, common: Labels): string {
  const own = Object.entries(alert.labels).filter(([name]) => name !== "alertname" && !(name in common));
  return own.map(([name, value]) => `${name}=${value}`).join(" ");
}

/** The expression and the threshold of a comparison with a number, for the picture. */
export function compared(query: string): { query: string; threshold: number | null } {
  const found = /^(.*\S)\s*(?:>=|<=|>|<)\s*([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)$/is.exec(query.trim());
  const [, left, number] = found ?? [];
  if (left === undefined || number === undefined) return { query, threshold: null };
  // A quantile's picture is its distribution, with the threshold across it.
  const quantile = /^histogram_quantile\(\s*[0-9.e-]+\s*,\s*(.*)\)$/is.exec(left);
  return { query: quantile?.[1] ?? left, threshold: Number(number) };
}

/** A selector, as the inside of a rate or alone. */
const SELECTOR = String.raw`[a-zA-Z_:][\w:]*(?:\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})?`;
const RATE = new RegExp(String.raw`\b(?:rate|increase)\(\s*(${SELECTOR})\s*\[[^\]]+\]\s*\)`);
const ALONE = new RegExp(`^${SELECTOR}$`);

/** The series that an alert watches: what it rates, or a selector alone. */
export function selectorOf(query: string): string | null {
  const inner = compared(query).query.trim();
  return RATE.exec(inner)?.[1] ?? (ALONE.test(inner) ? inner : null);
}

/** The cells that an alert watches, separated by the names of its labels: the sum of what it rates, whose group it is. */
export function watched(query: string, labels: Labels): string | null {
  const selector = selectorOf(query);
  if (selector === null) return null;
  const names = Object.keys(labels).filter((name) => name !== "alertname").toSorted();
  return names.length === 0 ? selector : `sum by (${names.join(", ")}) (${selector})`;
}

export interface Tested {
  readonly name: string;
  readonly type: "alerting" | "recording";
  readonly summary?: string;
  readonly failures: number;
  readonly lastError?: string;
  readonly transitions?: readonly { time: string; from: string; to: string; labels: Labels }[];
}

/** When alerts fired, as parts of the stretch from 0 to 1. */
export function spans(rule: Tested, start: number, end: number): { from: number; to: number }[] {
  const open = new Map<string, number>();
  const out: { from: number; to: number }[] = [];
  const part = (time: number): number => Math.min(Math.max((time - start) / Math.max(end - start, 1), 0), 1);
  for (const one of rule.transitions ?? []) {
    const [key, time] = [identity(one.labels), Date.parse(one.time) / 1000];
    if (one.to === "firing") open.set(key, time);
    else if (one.from === "firing") {
      out.push({ from: part(open.get(key) ?? start), to: part(time) });
      open.delete(key);
    }
  }
  for (const time of open.values()) out.push({ from: part(time), to: 1 });
  return out;
}
