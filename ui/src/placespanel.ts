/**
 * The panel below a heat map in which the quantile lines of each place are laid over one another: the places are the values of a label,
 * usually of the broker that measured.
 *
 * Invariants: the quantiles are those of the page; each cell counts once, in the column of the same time as in the heat map, or in a wider one
 * where places measure more rarely than columns are wide. What is drawn belongs to the last `show`.
 * Failure: why there are no lines is a sentence beside the title.
 */

import { fetchGroups, fetchSeries, type GroupPart } from "./api.ts";
import { el } from "./dom.ts";
import { formatDuration } from "./format.ts";
import { Lines } from "./lines.ts";
import { labelsThatDiffer, linesOf, placesMax, placesOf, placesQuery, stepOfGap, usualGap } from "./places.ts";
import type { Stroke } from "./series.ts";
import type { QuantileName } from "./state.ts";

/** A live panel asks again this often. */
const EVERY_MS = 5_000;
/** With fewer columns their places are marked: a line alone would hide those without neighbours. */
const POINTS_MAX = 60;

export interface PlacesView {
  readonly query: string;
  readonly label: string;
  readonly quantiles: readonly QuantileName[];
  /** The unit of the picture. */
  readonly unit: string;
}

export interface PlacesHandlers {
  choose(label: string): void;
  close(): void;
  zoom(start: number, end: number): void;
  span(): { start: number; end: number; step: number };
  live(): boolean;
}

export class PlacesPanel {
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private view: PlacesView | null = null;
  /** What is drawn or asked for, and over which range: it is not asked for again. Empty for none. */
  private wanted = "";
  private paint: (() => Promise<void>) | null = null;
  /** The expression whose labels were asked for, and those that it has. */
  private labelsOf = "";
  private labels: readonly string[] = [];
  private readonly lines: Lines;
  private readonly select = el("select", { "aria-label": "Label of the places" });
  private readonly note = el("p", { class: "slow-note", role: "status" });

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: PlacesHandlers,
  ) {
    const host = el("div", { class: "lines" });
    this.lines = new Lines(host, (start, end) => handlers.zoom(Math.floor(start), Math.ceil(end)));
    this.select.addEventListener("change", () => handlers.choose(this.select.value));
    const close = el("button", { type: "button", class: "ghost", title: "Close", "aria-label": "Close the lines by place", click: () => handlers.close() }, "✕");
    parent.append(el("div", { class: "slow-head" }, el("h2", {}, "By place"), this.select, this.note, close), el("div", { class: "places-body" }, host));
  }

  hide(): void {
    if (this.view === null) return;
    this.view = null;
    this.wanted = "";
    this.stop();
    this.parent.hidden = true;
    this.paint = null;
    this.lines.clear();
  }

  async show(view: PlacesView): Promise<void> {
    this.view = view;
    this.parent.hidden = false;
    const wanted = JSON.stringify([view, this.handlers.span()]);
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    this.stop();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.choices(view.label);
    const query = placesQuery(view.query, view.label);
    if (query === null) return this.none('Only a plain selector, such as name{label="value"}, can be laid out by place.');
    if (view.quantiles.length === 0) return this.none("Choose a quantile above.");
    void this.askLabels(view, signal);
    try {
      await this.load(view, query, signal);
    } catch (cause) {
      if (signal.aborted) return;
      this.wanted = "";
      this.none(cause instanceof Error ? cause.message : String(cause));
    }
    if (!signal.aborted && this.handlers.live()) this.timer = setTimeout(() => void this.again(), EVERY_MS);
  }

  /** Draws with the colours of now. */
  repaint(): void {
    void this.paint?.();
  }

  resize(): void {
    this.lines.resize();
  }

  private stop(): void {
    this.abort.abort();
    clearTimeout(this.timer);
  }

  private async again(): Promise<void> {
    if (this.view === null) return;
    if (document.hidden) this.timer = setTimeout(() => void this.again(), EVERY_MS);
    else {
      this.wanted = "";
      await this.show(this.view);
    }
  }

  private async load(view: PlacesView, query: string, signal: AbortSignal): Promise<void> {
    const { start, end, step } = this.handlers.span();
    const most = placesMax(view.quantiles.length);
    const ask = async (width: number): Promise<GroupPart> => {
      const [from, to] = [Math.floor(start / width) * width, Math.ceil(end / width) * width];
      return (await fetchGroups(query, from + width, to, width, "labels", 0, most, signal)).data;
    };
    let part = await ask(step);
    const width = stepOfGap(step, usualGap(part.groups.map(({ list }) => list.map(({ t }) => t))));
    if (width > step && !signal.aborted) part = await ask(width);
    if (signal.aborted) return;
    const places = placesOf(part.groups, view.label);
    const { series, strokes } = linesOf(places, view.quantiles);
    if (series.length === 0) return this.none("No samples in this range.");
    const points = places.every(({ columns }) => columns.length <= POINTS_MAX);
    const unit = part.unit === "" ? view.unit : part.unit;
    this.paint = () => this.lines.show(series, unit, start, end, width, { stroke: (at) => strokes[at] as Stroke, points });
    await this.paint();
    if (signal.aborted) return;
    const more = part.groups_total > places.length ? ` of ${part.groups_total}, by name` : "";
    const wide = width > step ? `; a point each ${formatDuration(width)}, as often as they measure` : "";
    this.note.textContent = `${places.length === 1 ? "1 place" : `${places.length} places`}${more}: the colour is the place, the stroke the quantile${wide}`;
    this.publish({ label: view.label, places: places.map(({ name }) => name), lines: series.map(({ metric, values }) => [metric["__name__"], values?.length ?? 0]), step: width });
  }

  /** Other labels to go by; once for an expression. */
  private async askLabels({ query, label }: PlacesView, signal: AbortSignal): Promise<void> {
    if (query === this.labelsOf) return;
    const { start, end, step } = this.handlers.span();
    try {
      const found = labelsThatDiffer(await fetchSeries(query, start - step, end, signal));
      if (signal.aborted) return;
      [this.labelsOf, this.labels] = [query, found];
      this.choices(label);
    } catch {
      // The label that is shown is there.
    }
  }

  private choices(label: string): void {
    const known = this.view?.query === this.labelsOf ? this.labels : [];
    const all = known.includes(label) ? known : [label, ...known];
    const before = [...this.select.options].map(({ value }) => value);
    // A list that somebody has opened stays while it is the same.
    if (JSON.stringify(before) !== JSON.stringify(all)) this.select.replaceChildren(...all.map((name) => el("option", { value: name }, name)));
    this.select.value = label;
  }

  private none(why: string): void {
    this.lines.clear();
    this.paint = null;
    this.note.textContent = why;
    this.publish({ why });
  }

  /** What is drawn, for tests and for anybody who scripts the page. */
  private publish(what: object): void {
    this.parent.dataset["places"] = JSON.stringify(what);
  }
}
