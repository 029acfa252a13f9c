/**
 * One picture of expressions in a box of any size: a heat map, lines, a number, a table, or words.
 *
 * Invariants: what is shown belongs to the last `show`; an answer to an earlier one is thrown away. `data-panel` of the element says what is
 * drawn, for tests and for anybody who scripts the page.
 * Failure: a refusal stands in the box, below what was drawn before.
 */

import { ApiError, ALL_GROUPS, fetchHeatmap, fetchInstant, fetchRange, type Heatmap as HeatmapData, type Series } from "./api.ts";
import { stepFor } from "./axis.ts";
import { BinTable, merge } from "./bins.ts";
import type { PanelKind } from "./board.ts";
import { el } from "./dom.ts";
import { formatCount, formatValue } from "./format.ts";
import { Heatmap, type Options } from "./heatmap.ts";
import { Lines } from "./lines.ts";
import { LINES_MAX, seriesName } from "./series.ts";
import { DEFAULTS } from "./state.ts";
import { currentTheme } from "./theme.ts";
import { resultUnit, unitOfName } from "./units.ts";

/** Rows of a table. */
const ROWS_MAX = 200;
/** Numbers in one box. */
const NUMBERS_MAX = 6;

export interface Wanted {
  readonly queries: readonly string[];
  readonly kind: PanelKind;
  readonly text?: string;
  readonly start: number;
  readonly end: number;
}

type Drawn = "heatmap" | "lines" | "number" | "table" | "text" | "empty";

export class PanelView {
  private abort = new AbortController();
  private map: { map: Heatmap; table: BinTable } | null = null;
  private lines: Lines | null = null;
  private unit = "";
  private wanted: Wanted | null = null;
  private readonly body = el("div", { class: "panel-body" });
  private readonly why = el("p", { class: "panel-why", hidden: true });
  private drawn: Drawn = "empty";
  private readonly watch = new ResizeObserver(() => this.resize());

  constructor(
    readonly parent: HTMLElement,
    private readonly zoom: (start: number, end: number) => void = () => undefined,
  ) {
    parent.append(this.body, this.why);
    this.watch.observe(this.body);
  }

  /** Ends what goes on; the box can be thrown away. */
  close(): void {
    this.abort.abort();
    this.watch.disconnect();
    this.lines?.clear();
  }

  /** Draws with the colours of now. */
  repaint(): void {
    this.lines?.clear();
    if (this.wanted !== null) void this.show(this.wanted);
  }

  async show(wanted: Wanted): Promise<void> {
    this.wanted = wanted;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    if (wanted.kind === "text") return this.words(wanted.text ?? "");
    const step = stepFor(wanted.end - wanted.start, Math.max(120, this.body.clientWidth));
    const end = Math.ceil(wanted.end / step) * step;
    const start = Math.floor(wanted.start / step) * step;
    try {
      await this.ask(wanted, start, end, step, signal);
      if (!signal.aborted) this.why.hidden = true;
    } catch (cause) {
      if (signal.aborted) return;
      this.why.hidden = false;
      this.why.textContent = cause instanceof ApiError ? cause.message : String(cause);
      this.publish({ error: this.why.textContent });
    }
  }

  private async ask({ queries, kind }: Wanted, start: number, end: number, step: number, signal: AbortSignal): Promise<void> {
    const [first] = queries;
    if (first === undefined) return this.empty("no expression");
    if (kind === "number" || kind === "table") {
      const all = await Promise.all(queries.map((query) => fetchInstant(query, end, signal)));
      if (signal.aborted) return;
      const rows = all.flatMap(({ data }, at) => (data.resultType === "vector" || data.resultType === "matrix" ? data.result : data.resultType === "scalar" ? [{ metric: {}, value: data.result }] : []).map((one) => ({ one, query: queries[at] as string })));
      return kind === "number" ? this.numbers(rows) : this.rows(rows);
    }
    if (kind === "heatmap" || (kind === "auto" && queries.length === 1)) {
      try {
        const { data } = await fetchHeatmap(first, ALL_GROUPS, start + step, end, step, true, signal);
        if (signal.aborted) return;
        if (data.columns.length > 0 || data.series > 0) return this.heat(data, first);
        if (kind === "heatmap") return this.empty("no samples in this range");
      } catch (cause) {
        // What is no histogram is drawn as lines, unless somebody said otherwise.
        if (kind === "heatmap" || signal.aborted || !(cause instanceof ApiError) || cause.status === 0 || cause.status >= 500) throw cause;
      }
    }
    const all = await Promise.all(queries.map((query) => fetchRange(query, start, end, step, LINES_MAX, signal)));
    if (signal.aborted) return;
    const series = all.flatMap(({ data }, at) => (data.resultType === "matrix" ? data.result : []).map((one) => ({ ...one, metric: queries.length > 1 && Object.keys(one.metric).length === 0 ? { __name__: queries[at] as string } : one.metric })));
    if (series.length === 0) return this.empty("no samples in this range");
    await this.draw(series, first, start, end, step);
  }

  private options(): Options {
    const { palette, scaling, density, quantiles } = DEFAULTS;
    return { theme: currentTheme(), palette, scaling, density, quantiles, threshold: null, unit: this.unit };
  }

  private heat(data: HeatmapData, query: string): void {
    const names = query.match(/[a-zA-Z_:][\w:]*/g) ?? [];
    this.unit = data.unit !== "" ? data.unit : (names.map(unitOfName).find((unit) => unit !== "") ?? "");
    if (this.map === null || this.drawn !== "heatmap") {
      const canvas = el("canvas", { role: "img", "aria-label": `Heat map of ${query}` });
      this.become("heatmap", el("div", { class: "map" }, canvas));
      const table = new BinTable();
      this.map = { table, map: new Heatmap(canvas, table, this.options()) };
    }
    const { map, table } = this.map;
    map.setOptions(this.options());
    map.width = data.width;
    const merged = data.distribution === null ? null : merge(table, [table.column(data.distribution)]);
    map.load(data.columns.map((column) => table.column(column)), data.step, data.start - data.step, data.end, data.additive ? null : { merged });
    this.publish({ total: map.merged?.total ?? null, columns: data.columns.length });
  }

  private async draw(series: readonly Series[], query: string, start: number, end: number, step: number): Promise<void> {
    this.unit = resultUnit(query, unitOfName);
    if (this.lines === null || this.drawn !== "lines") {
      const host = el("div", { class: "lines" });
      this.become("lines", host);
      this.lines = new Lines(host, this.zoom);
    }
    await this.lines.show(series.slice(0, LINES_MAX), this.unit, start, end, step);
    this.publish({ series: series.length });
  }

  private numbers(rows: readonly { one: Series; query: string }[]): void {
    if (rows.length === 0) return this.empty("no value now");
    const boxes = rows.slice(0, NUMBERS_MAX).map(({ one, query }) => {
      const value = Number((one.value?.[1] ?? one.values?.at(-1)?.[1] ?? "NaN").replace("Inf", "Infinity"));
      const unit = resultUnit(query, unitOfName);
      const name = seriesName(one.metric);
      return el("div", { class: "number" }, el("b", {}, formatValue(value, unit, 4)), el("span", {}, name === "value" ? "" : name));
    });
    const rest = rows.length > NUMBERS_MAX ? [el("p", { class: "note" }, `and ${rows.length - NUMBERS_MAX} more`)] : [];
    this.become("number", el("div", { class: "numbers" }, ...boxes, ...rest));
    this.publish({ series: rows.length, values: rows.slice(0, NUMBERS_MAX).map(({ one }) => one.value?.[1] ?? null) });
  }

  private rows(rows: readonly { one: Series; query: string }[]): void {
    if (rows.length === 0) return this.empty("no value now");
    const sorted = [...rows].sort((a, b) => Number(b.one.value?.[1] ?? NaN) - Number(a.one.value?.[1] ?? NaN));
    const lines = sorted.slice(0, ROWS_MAX).map(({ one, query }) => el("tr", {}, el("th", { scope: "row" }, seriesName(one.metric)), el("td", {}, formatValue(Number(one.value?.[1] ?? NaN), resultUnit(query, unitOfName), 4))));
    const rest = rows.length > ROWS_MAX ? [el("p", { class: "note" }, `the first ${ROWS_MAX} of ${formatCount(rows.length)}`)] : [];
    this.become("table", el("div", { class: "panel-table", tabindex: "0", role: "region", "aria-label": "Values" }, el("table", {}, el("tbody", {}, ...lines)), ...rest));
    this.publish({ series: rows.length });
  }

  private words(text: string): void {
    this.become("text", el("div", { class: "panel-text" }, ...text.split(/\n{2,}/).map((part) => el("p", {}, part))));
    this.publish({});
  }

  private empty(why: string): void {
    this.become("empty", el("p", { class: "panel-none" }, why));
    this.publish({ why });
  }

  private become(drawn: Drawn, node: HTMLElement): void {
    this.lines?.clear();
    this.lines = null;
    this.map = null;
    this.drawn = drawn;
    this.body.replaceChildren(node);
  }

  private publish(more: object): void {
    this.parent.dataset["panel"] = JSON.stringify({ drawn: this.drawn, ...more });
  }

  private resize(): void {
    this.lines?.resize();
    this.map?.map.resize();
  }
}
