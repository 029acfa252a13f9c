/**
 * What may explain an alert: label values that are more frequent above its threshold since a minute before it began than elsewhere, and
 * the slowest traces since then. Both lead to the picture with the box, or the trace, open.
 *
 * Invariants: only series of the alert's own group are compared; a row is shown only where the server says that chance does not
 * explain it.
 */

import { ApiError, fetchExplanation, fetchTraces, type Explained, type Labels } from "./api.ts";
import { el } from "./dom.ts";
import { filtered, rowName } from "./explainpanel.ts";
import { formatBounds, formatCount, formatShare } from "./format.ts";
import { DEFAULTS, formatState, type Area } from "./state.ts";
import { formatNs, idOf, isTrace, worstOf, type Trace, type Traces } from "./traces.ts";

/** More hardly anybody reads in an alert; the picture has all. */
const ROWS = 5;
const TRACES = 3;

/** What of an alert is explained. */
export interface Alarmed {
  /** The selector of what it watches, without its labels. */
  readonly selector: string;
  /** Its group. */
  readonly labels: Labels;
  readonly view: { readonly start: number; readonly end: number };
  /** Above its threshold, since a minute before it began. */
  readonly area: Area | null;
  readonly unit: string;
}

export async function reasonsOf(alarmed: Alarmed): Promise<HTMLElement[]> {
  const query = filtered(alarmed.selector, alarmed.labels) ?? alarmed.selector;
  const span = { start: alarmed.area?.start ?? alarmed.view.start, end: alarmed.view.end };
  const [explained, traces] = await Promise.allSettled([
    alarmed.area === null ? Promise.resolve(null) : fetchExplanation(query, alarmed.view, alarmed.area),
    fetchTraces(query, span.start, span.end),
  ]);
  const why = (cause: unknown): HTMLElement[] => [el("p", { class: "note" }, cause instanceof ApiError ? cause.message : String(cause))];
  const range = { start: alarmed.view.start, end: Math.ceil(alarmed.view.end) };
  const labels = explained.status === "rejected" ? why(explained.reason) : explained.value === null ? [] : labelsOf(explained.value.data, alarmed, `./${formatState({ ...DEFAULTS, query, range, area: alarmed.area })}`);
  const link = (trace: string): string => `./${formatState({ ...DEFAULTS, query, range, slow: span, trace })}`;
  return [...labels, ...(traces.status === "rejected" ? why(traces.reason) : slowest(traces.value.data, link))];
}

function labelsOf(data: Explained, alarmed: Alarmed, link: string): HTMLElement[] {
  if (data.inside === 0 || alarmed.area === null) return [];
  const where = formatBounds(alarmed.area.lo, alarmed.area.hi, alarmed.unit);
  const rows = data.rows.slice(0, ROWS).map((row) => {
    const [low, high] = row.difference;
    const more = `${(Math.max(0, low) * 100).toFixed(0)} to ${(Math.min(1, high) * 100).toFixed(0)} points`;
    return el("tr", {}, el("th", { scope: "row" }, rowName(row.labels)), el("td", {}, formatShare(row.share_inside)), el("td", {}, formatShare(row.share_outside)), el("td", {}, more));
  });
  const title = el("p", { class: "note" }, `${formatCount(data.inside)} samples since a minute before it began are ${where}: `, el("a", { href: link }, "what is different about them"));
  if (rows.length === 0) return [title, el("p", { class: "note" }, "No label value is more frequent among them by more than chance explains.")];
  const head = el("tr", {}, ...["label", "of them", "of the others", "more by"].map((text) => el("th", { scope: "col" }, text)));
  return [title, el("table", { class: "before-after reasons" }, el("thead", {}, head), el("tbody", {}, ...rows))];
}

function slowest(data: Traces, link: (trace: string) => string): HTMLElement[] {
  const found = data.traces.filter(isTrace).slice(0, TRACES);
  if (found.length === 0) return [];
  const item = (one: Trace): HTMLElement =>
    el("li", {}, el("a", { href: link(idOf(one)) }, formatNs(one.total_ns)), ` ${worstOf(one)} · ${one.path} of ${one.publisher}`);
  return [el("p", { class: "note" }, "Slowest traces"), el("ul", { class: "slowest" }, ...found.map(item))];
}
