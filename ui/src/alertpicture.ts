/**
 * The picture of one alert: the cells that it watches with its threshold and its begin, the distribution before and after, and what
 * may explain it.
 *
 * Invariants: cells of other groups are not in it; before and after share no cell; each quantile has the bounds of its bins and of
 * the number of samples.
 * Failure: what has no cells (a number, an expression that is no rate) is said in one sentence.
 */

import { compared, selectorOf, watched, type Alert } from "./alertlist.ts";
import { ApiError, fetchHeatmap, serverNow, type Heatmap } from "./api.ts";
import { DomainBuilder, niceCeil, stepFor, ValueAxis } from "./axis.ts";
import { BinTable, merge, type Column, type Merged } from "./bins.ts";
import { greatest, shadesOf } from "./cells.ts";
import { reasonsOf } from "./alertreasons.ts";
import { palette, paletteWords } from "./colour.ts";
import { intervalOf } from "./confidence.ts";
import { groupName } from "./controls.ts";
import { el } from "./dom.ts";
import { formatClock, formatCount, formatDate, formatValue } from "./format.ts";
import { quantileOf, type Bins } from "./quantile.ts";
import { drawCells, drawScale, usualOf } from "./smallmap.ts";
import { currentTheme, ink } from "./theme.ts";

/** A quarter of an hour before the begin, and at most three hours behind it. */
const BEFORE_S = 900;
const AFTER_S = 10_800;
/** A rate over a minute is slow after the samples are. */
const LEAD_S = 60;
const SIZE = { width: 720, height: 150 };
const QUANTILES = [0.5, 0.9, 0.99, 0.999];
/** Cells come each second, and a picture costs two queries. */
const FRESH_MS = 10_000;

export class AlertPicture {
  readonly element = el("div", { class: "alert-picture" });
  private fetchedAt = 0;
  /** Of the last answer: they stand until the next one. */
  private reasons: HTMLElement[] = [];

  /** Asks for the cells, unless that was done lately. */
  show(alert: Alert): void {
    if (Date.now() - this.fetchedAt < FRESH_MS) return;
    this.fetchedAt = Date.now();
    void this.load(alert).catch((cause: unknown) => {
      this.fetchedAt = 0;
      this.say(cause instanceof ApiError ? cause.message : String(cause));
    });
  }

  private say(text: string): void {
    this.element.replaceChildren(el("p", { class: "note" }, text));
  }

  private async load(alert: Alert): Promise<void> {
    const query = watched(alert.query, alert.labels);
    if (query === null) return this.say("No picture: the rule compares no rate of a histogram.");
    const begin = Date.parse(alert.activeAt) / 1000;
    const [from, to] = [begin - BEFORE_S, Math.min(serverNow(), begin + AFTER_S)];
    const step = stepFor(to - from, SIZE.width);
    const [start, end] = [Math.floor(from / step) * step, Math.ceil(to / step) * step];
    const all = (await fetchHeatmap(query, null, start, end, step, true)).data;
    const own = all.groups.find(({ labels }) => Object.entries(labels).every(([name, value]) => alert.labels[name] === value));
    const data = own === undefined ? all : (await fetchHeatmap(query, groupName(own.labels), start, end, step, true)).data;
    const table = new BinTable();
    const columns = data.columns.map((wire) => table.column(wire)).filter((column) => column.count > 0);
    if (columns.length === 0) return this.say("No picture: what the rule watches has no distribution here.");
    const { threshold } = compared(alert.query);
    this.draw(data, table, columns, begin, threshold);
    const above = Math.min(Math.max(...table.hi.slice(0, table.size)), Number.MAX_VALUE);
    const area = threshold !== null && above > threshold && end > begin ? { start: Math.floor(begin - LEAD_S), end, lo: threshold, hi: above } : null;
    this.reasons = await reasonsOf({ selector: selectorOf(alert.query) ?? query, labels: own?.labels ?? {}, view: { start, end }, area, unit: data.unit });
    this.draw(data, table, columns, begin, threshold);
  }

  private draw(data: Heatmap, table: BinTable, columns: readonly Column[], begin: number, threshold: number | null): void {
    const canvas = el("canvas", { width: SIZE.width * devicePixelRatio, height: SIZE.height * devicePixelRatio, role: "img", "aria-label": "What it watches, with its threshold and its begin" });
    const context = canvas.getContext("2d");
    const domain = new DomainBuilder();
    for (let id = 0; id < table.size; id++) domain.add(table.lo[id] as number, table.hi[id] as number);
    if (threshold !== null && threshold > 0) domain.add(threshold, threshold);
    const built = domain.build();
    if (context === null || built === null) return this.say("No picture: what the rule watches has no distribution here.");
    const axis = new ValueAxis(built, canvas.height, devicePixelRatio);
    const usual = usualOf(table, columns);
    const words = paletteWords(palette("ember", currentTheme()));
    const max = niceCeil(Math.max(1e-9, greatest(table, columns, axis, true, usual)));
    const look = { axis, shades: shadesOf(words, "sqrt"), empty: words[0] as number, density: true, usual, max };
    const slots = [Math.round(data.start / data.step) + 1, Math.round(data.end / data.step)] as const;
    drawCells(context, new Map(columns.map((column) => [Math.round(column.t / data.step), column])), table, look, slots);
    drawScale(context, axis, data.unit);
    const x = Math.round(((begin - data.start) / (data.end - data.start)) * canvas.width);
    context.fillStyle = ink("accent");
    context.fillRect(x, 0, devicePixelRatio, canvas.height);
    const y = threshold === null ? null : Math.round(axis.y(threshold));
    context.fillStyle = ink("threshold");
    if (y !== null) context.fillRect(0, y, canvas.width, devicePixelRatio);
    const before = merge(table, columns.filter((column) => column.t <= begin));
    const after = merge(table, columns.filter((column) => column.t - data.step >= begin));
    this.element.dataset["view"] = JSON.stringify({ x, y, width: canvas.width, height: canvas.height, columns: columns.length, before: before.total, after: after.total, max });
    const caption = `${formatDate(begin)} ${formatClock(begin)}: it began${threshold === null ? "" : `; threshold ${formatValue(threshold, data.unit, 3)}`}`;
    this.element.replaceChildren(canvas, el("p", { class: "note" }, caption), comparison(table, before, after, data.unit), ...this.reasons);
  }
}

/** Quantiles before and after, with their bounds. */
function comparison(table: BinTable, before: Merged, after: Merged, unit: string): HTMLElement {
  const sides = [before, after].map((merged) => binsOf(table, merged));
  const rows = QUANTILES.map((q) => el("tr", {}, el("th", { scope: "row" }, `p${+(q * 100).toFixed(1)}`), ...sides.map((bins) => el("td", {}, quantileText(bins, q, unit)))));
  const head = el("tr", {}, el("th", {}), el("th", { scope: "col" }, `before, ${formatCount(before.total)} samples`), el("th", { scope: "col" }, `after, ${formatCount(after.total)} samples`));
  return el("table", { class: "before-after" }, el("thead", {}, head), el("tbody", {}, ...rows));
}

function binsOf(table: BinTable, merged: Merged): Bins {
  const { ids, counts, min, max } = merged;
  return { lo: ids.map((id) => table.lo[id] as number), hi: ids.map((id) => table.hi[id] as number), counts, min, max, float: false };
}

/** A quantile and where the true one lies in 95 of 100 cases. */
export function quantileText(bins: Bins, q: number, unit: string): string {
  const [found, interval] = [quantileOf(bins, q), intervalOf(bins, q)];
  if (found === null || interval === null) return "–";
  const bound = (value: number | null): string => (value === null ? "unbounded" : formatValue(value, unit, 3));
  return `${formatValue(found.value, unit, 3)} (${bound(interval.lo)} to ${bound(interval.hi)})`;
}
