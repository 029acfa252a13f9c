/**
 * The page: reads the address, asks the server, and gives each part what it shows.
 *
 * Invariants: `state` is what the address says; every change goes through `change`, which writes the address; an answer
 * that comes after a later question is thrown away (`turn`).
 * Failure: a refusal of the expression stands above the old picture; a lost server is said on the picture and tried
 * again; after a reconnection everything is asked for anew, so that no gap stays.
 */

import { ApiError, fetchHeatmap, fetchInstant, fetchRange, fetchSeries, fetchTexts, liveAddress, serverNow, type Answer, type Heatmap as HeatmapData, type QueryData } from "./api.ts";
import { BinTable, merge, snapToEdge } from "./bins.ts";
import { offsetOf } from "./compared.ts";
import type { ComparePanel } from "./comparepanel.ts";
import { counterparts, routeOf, routeSelectors } from "./counterparts.ts";
import { differencePalette } from "./colour.ts";
import { Controls, groupName, type GroupList, type Marking } from "./controls.ts";
import { byId, el, icon } from "./dom.ts";
import { drawEmpty, sayLast } from "./empty.ts";
import { drawFacts } from "./facts.ts";
import { Heatmap, type Options } from "./heatmap.ts";
import { limitNotice, LINES_MAX, rateOf } from "./series.ts";
import { Lines } from "./lines.ts";
import { Live, type Link } from "./live.ts";
import { formatLogState } from "./loglines.ts";
import { EventMarks, type Plot } from "./events.ts";
import { Exemplars, traceOf } from "./exemplars.ts";
import { Marks } from "./marks.ts";
import { Multiples } from "./multiples.ts";
import { EditorBox } from "./editorbox.ts";
import type { ExplainPanel } from "./explainpanel.ts";
import { showKeys } from "./keyhelp.ts";
import { nearest } from "./near.ts";
import { drawNotices } from "./notices.ts";
import { isNumbers } from "./numbers.ts";
import type { LinesPanel } from "./linespanel.ts";
import type { More } from "./more.ts";
import type { PlacesPanel } from "./placespanel.ts";
import { isBuckets, Picker } from "./picker.ts";
import { Pointer } from "./pointer.ts";
import { QueryBox } from "./querybox.ts";
import { RangeBox } from "./rangebox.ts";
import { parseSelector } from "./selector.ts";
import { DEFAULTS, formatState, isLive, MORE_MAX, parseState, sameData, VIEWS, type Area, type Range, type Span, type State } from "./state.ts";
import { StatusBar } from "./statusbar.ts";
import { drawJson, drawTable, hasText, isInstantOnly } from "./texts.ts";
import { applyTheme, currentTheme } from "./theme.ts";
import { useTheme } from "./themebutton.ts";
import type { Hint, TracePanel } from "./tracepanel.ts";
import { resultUnit, unitOfName } from "./units.ts";
import { Waiting } from "./waiting.ts";
import type { WhyPanel } from "./whypanel.ts";

type Shown = "map" | "multiples" | "lines" | "table" | "empty";

/** Data that come late are seen after this many columns of the stream: the whole view is asked for anew. */
const RELOAD_COLUMNS = 60;

/** Events that may overtake the answer, and columns that are then asked for once more: the slowest load seen is far below 8 s. */
const SETTLED_COLUMNS = 2;
const TAIL_COLUMNS = 8;

/** New series appear in the list by themselves; the list of a large server is some hundred kilobytes. */
const SERIES_EVERY_MS = 15_000;

/** Lines have no stream: a live range is asked for again this often at most. */
const LINES_EVERY_MS = 2_000;
/** Every 5 s: the other expression over a live picture is a request, and not a stream. */
const OVER_EVERY_MS = 5_000;

/** Nor have groups that are drawn side by side. */
const GROUPS_EVERY_MS = 10_000;

/** Columns that overlap are no sum: a live view of them is asked for again after so many seconds. */
const OVERLAPPING_COLUMNS = 2;

/** How far back the last sample of a series is looked for, as `ogive query` does. */
const LAST_SPANS = ["1d", "400d"];

/** What a step back returns to. */
type View = Pick<State, "range" | "values">;

class Page {
  private state = parseState(location.search);
  private shown: Shown = "empty";
  private unit = "";
  private seriesCount = 0;
  private turn = 0;
  private abort = new AbortController();
  private live: Live | null = null;
  private liveQuery = "";
  private sinceLoad = 0;
  private tail = false;
  private linesTimer: ReturnType<typeof setTimeout> | undefined;
  private overTimer: ReturnType<typeof setTimeout> | undefined;
  /** Whether the columns of the picture are each cell once. */
  private additive = true;
  /** The numbers in view are the rate of the counter that is asked for. */
  private rated = false;
  private why = "";
  private groups: GroupList | null = null;
  private floats: QueryData | null = null;
  /** Views to go back to, and those that were left by going back. */
  private viewsBefore: View[] = [];
  private viewsAfter: View[] = [];
  private more: More | null = null;
  private linesPanel: LinesPanel | null = null;
  private traces: TracePanel | null = null;
  private whyPanel: WhyPanel | null = null;
  private places: PlacesPanel | null = null;
  /** The live range that a click on a cell has stopped: it goes on when the slow traces are closed. */
  private stopped: Range | null = null;
  private hint: Hint | undefined;
  private readonly table = new BinTable();
  private readonly map: Heatmap;
  private readonly pointer: Pointer;
  private readonly lines: Lines;
  private readonly multiples: Multiples;
  private readonly picker: Picker;
  private readonly box: QueryBox;
  private readonly editor: EditorBox;
  private explanation: ExplainPanel | null = null;
  private comparison: ComparePanel | null = null;
  /** What the other time on the picture belongs to. */
  private ghostOf = "";
  /** What the box of the next drag is for. */
  private marking: Marking = null;
  private readonly ranges: RangeBox;
  private readonly controls: Controls;
  private readonly status: StatusBar;
  private readonly marks: Marks;
  private readonly events: EventMarks;
  private readonly exemplars: Exemplars;
  private readonly waiting = new Waiting(byId("content"), byId("map").parentElement as HTMLElement);

  constructor() {
    applyTheme();
    this.map = new Heatmap(byId<HTMLCanvasElement>("cells"), this.table, this.options());
    this.pointer = new Pointer(this.map, byId<HTMLCanvasElement>("overlay"), byId("tip"), byId("voice"), {
      zoom: (start, end) => this.zoom({ start, end }),
      explain: (area) => (this.marking === "zoom" ? this.zoomBox(area) : this.explain(area)),
      area: () => this.state.area,
      marking: () => this.marking !== null,
      lines: (start, end) => this.openLines({ start, end: Math.max(start + 1, end) }),
      pick: (slot, value) => (this.state.why === null ? this.openTraces(slot, value) : this.pickColumn(slot * this.map.step)),
      picked: () => this.state.slow,
      escape: () => this.closeTraces() || this.closeExplanation() || this.closeLines(),
      threshold: (value) => this.setThreshold(value),
      unit: () => this.unit,
      quantiles: () => this.state.quantiles,
      back: () => this.back(),
      forward: () => this.forward(),
      toggleLive: () => this.toggleLive(),
    });
    this.lines = new Lines(byId("lines"), (start, end) => this.zoom({ start: Math.floor(start), end: Math.ceil(end) }));
    this.multiples = new Multiples(byId("multiples"), this.options(), { open: (group) => this.change({ group }), failed: (cause) => this.fail(cause, this.state.query) });
    this.picker = new Picker(byId("series"), (query) => {
      this.openSeries(false);
      this.change({ query });
    });
    this.box = new QueryBox((query) => this.change({ query }, true), () => this.picker.names());
    this.editor = new EditorBox((query) => this.change({ query }, true));
    this.ranges = new RangeBox((range) => this.zoom(range), () => this.span(), () => this.repaint());
    this.controls = new Controls(byId("controls"), byId("legend"), (part) => this.change(part), {
      is: () => this.marking,
      set: (on) => {
        this.marking = this.marking === on ? null : on;
        this.controls.show(this.state, this.groups);
      },
    });
    this.status = new StatusBar(byId("status"));
    this.marks = new Marks(this.map.marks, () => this.map.draw());
    this.events = new EventMarks(byId("events"), () => this.plot());
    this.exemplars = new Exemplars(byId("exemplars"), this.map, ({ t, labels }) => this.openLines({ start: Math.floor(t) - 30, end: Math.ceil(t) + 30 }, traceOf(labels)));
    this.lines.drawn = () => this.events.draw();
    this.map.drawn = () => {
      this.events.draw();
      this.exemplars.draw();
    };
    this.listen();
    void this.picker.reload().then(() => {
      this.showTitle();
      // What was asked before anybody knew that it is a counter.
      if (this.shown === "lines" && this.asRate() !== this.rated) void this.load();
    });
    setInterval(() => document.hidden || void this.picker.reload(), SERIES_EVERY_MS);
    this.showState();
    void this.load();
  }

  /** Where the picture draws that is shown. */
  private plot(): Plot | null {
    if (this.shown === "map") {
      const { left, top, plotWidth, plotHeight } = this.map.layout;
      return { left, top, width: plotWidth, height: plotHeight, x: (t) => this.map.x(t) };
    }
    const area = this.shown === "lines" ? this.lines.area() : null;
    if (area === null) return null;
    const host = byId("events").getBoundingClientRect();
    const [left, top] = [area.box.left - host.left, area.box.top - host.top];
    return { left, top, width: area.box.width, height: area.box.height, x: (t) => left + area.x(t) };
  }

  private listen(): void {
    byId("back").append(icon("M9.5 3.5 5 8l4.5 4.5"));
    byId("forward").append(icon("M6.5 3.5 11 8l-4.5 4.5"));
    byId("forward").addEventListener("click", () => this.forward());
    byId("add-query").addEventListener("click", () => this.addBelow());
    byId("series-button").addEventListener("click", () => this.openSeries(!byId("series").classList.contains("open")));
    byId("back").addEventListener("click", () => this.back());
    byId("live").addEventListener("click", () => this.toggleLive());
    useTheme(() => this.repaint());
    window.addEventListener("popstate", () => {
      const next = parseState(location.search);
      const same = sameData(this.state, next);
      this.state = next;
      this.showState();
      if (!same) void this.load();
    });
    new ResizeObserver(() => this.resize()).observe(byId("map").parentElement as HTMLElement);
    document.addEventListener("keydown", (event) => {
      const { target } = event;
      const writes = target instanceof HTMLInputElement || target instanceof HTMLSelectElement || (target instanceof HTMLElement && target.isContentEditable);
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      const does: Record<string, () => void> = { "/": () => this.box.focus(), e: () => void this.editor.open(true), "?": showKeys };
      const act = does[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    });
    document.addEventListener("visibilitychange", () => {
      // A browser opens six connections to a server for all its pages together: a stream that nobody looks at would
      // keep one. A hidden page misses nothing that it cannot ask for when it is looked at again.
      if (!isLive(this.state.range)) return;
      if (document.hidden) this.unfollow();
      else void this.load();
    });
  }

  private options(): Options {
    const { palette, scaling, density, quantiles, threshold, values, difference } = this.state;
    return { theme: currentTheme(), palette, scaling, density, quantiles, threshold, values, difference, unit: this.unit };
  }

  /** Takes a part of the state, writes the address, and asks again when the data would differ. */
  private change(part: Partial<State>, force = false): void {
    const before = this.state;
    // A group belongs to its expression.
    const group = part.query !== undefined && part.query !== before.query ? { group: null, area: null } : {};
    if ("group" in group) this.groups = null;
    this.state = { ...before, ...group, ...part };
    const address = location.pathname + formatState(this.state);
    if (before.query === this.state.query && sameData(before, this.state)) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.showState();
    if (force || !sameData(before, this.state)) void this.load();
  }

  private zoom(range: Range): void {
    this.stopped = null;
    this.leave();
    this.change({ range });
  }

  /** A part of the time and of the values. */
  private zoomBox({ start, end, lo, hi }: Area): void {
    this.marking = null;
    this.stopped = null;
    this.leave();
    this.change({ range: { start, end: Math.max(start + 5, end) }, values: lo > 0 ? [lo, hi] : null });
  }

  /** Remembers the view that is about to change. */
  private leave(): void {
    this.viewsBefore.push({ range: this.state.range, values: this.state.values });
    this.viewsAfter = [];
  }

  private back(): void {
    const view = this.viewsBefore.pop();
    if (view === undefined) return;
    this.viewsAfter.push({ range: this.state.range, values: this.state.values });
    this.change(view);
  }

  private forward(): void {
    const view = this.viewsAfter.pop();
    if (view === undefined) return;
    this.viewsBefore.push({ range: this.state.range, values: this.state.values });
    this.change(view);
  }

  /** The list of series, which a phone shows over the picture. */
  private openSeries(open: boolean): void {
    byId("series").classList.toggle("open", open);
    byId("series-button").setAttribute("aria-expanded", String(open));
    if (open) byId("series").querySelector("input")?.focus();
  }

  /** Draws the expression below as well, so that another one can be written. */
  private addBelow(): void {
    const { query, more } = this.state;
    if (query.trim() !== "" && !more.includes(query) && more.length < MORE_MAX) this.change({ more: [...more, query] });
    this.box.focus();
  }

  private async showMore(): Promise<void> {
    const { more } = this.state;
    if (more.length === 0 && this.more === null) return;
    if (this.more === null) {
      const { More } = await import("./more.ts");
      this.more ??= new More(byId("more"), {
        take: (at) => this.change({ query: this.state.more[at] as string, more: this.state.more.map((one, i) => (i === at ? this.state.query : one)) }),
        remove: (at) => this.change({ more: this.state.more.filter((_, i) => i !== at) }),
        zoom: (start, end) => this.zoom({ start, end }),
        span: () => this.span(),
        live: () => isLive(this.state.range),
      });
    }
    this.more.show(this.state.more);
  }

  private toggleLive(): void {
    if (isLive(this.state.range)) {
      const { start, end } = this.span();
      this.leave();
      this.change({ range: { start, end } });
    } else {
      const before = [...this.viewsBefore].reverse().map((view) => view.range).find(isLive);
      this.change({ range: before ?? { last: 300 } });
    }
  }

  /** The picture is held, so that the cell stays where it was clicked and a link shows the same. */
  private openTraces(slot: number, value: number): void {
    const { step } = this.map;
    const column = this.map.columns.get(slot);
    const last = column === undefined ? slot : this.map.slotOf(column);
    const slow = { start: (last - (column?.slots ?? 1)) * step, end: last * step };
    const { start, end } = this.span();
    const held = isLive(this.state.range);
    if (held) this.stopped = this.state.range;
    this.hint = { seconds: value, focus: true };
    this.change({ slow, trace: null, ...(held ? { range: { start, end } } : {}) });
    this.hint = undefined;
  }

  /** A trace that a text describes: its cell ends there and is a second wide. */
  private openTrace(t: number, trace: string): void {
    this.hint = { seconds: null, focus: true };
    this.change({ slow: { start: t - 1, end: t }, trace });
    this.hint = undefined;
  }

  /** True when there was something to close. */
  private closeTraces(): boolean {
    if (this.state.slow === null) return false;
    const range = this.stopped ?? this.state.range;
    this.stopped = null;
    this.change({ slow: null, trace: null, range });
    byId("overlay").focus();
    return true;
  }

  /** The picture is held, so that the box stays on what was marked and a link shows the same. */
  private explain(area: Area): void {
    this.marking = null;
    const { start, end } = this.span();
    if (isLive(this.state.range)) this.leave();
    this.change({ area, range: isLive(this.state.range) ? { start, end } : this.state.range });
  }

  /** The picture is held, so that the lines stay those of what was marked and a link shows the same. */
  private openLines(lines: Span, find = ""): void {
    const { start, end } = this.span();
    if (isLive(this.state.range)) this.leave();
    this.change({ lines, find, range: isLive(this.state.range) ? { start, end } : this.state.range });
  }

  private closeLines(): boolean {
    if (this.state.lines === null) return false;
    this.change({ lines: null, find: "" });
    return true;
  }

  private async showLines(): Promise<void> {
    if (this.state.lines === null && this.linesPanel === null) return;
    if (this.linesPanel === null) {
      const { LinesPanel } = await import("./linespanel.ts");
      this.linesPanel ??= new LinesPanel(byId("log-lines"), { close: () => void this.closeLines(), search: (find) => this.change({ find }) });
    }
    const { query, lines, find } = this.state;
    await this.linesPanel.show(query, lines, find);
  }

  private async showTraces(hint: Hint | undefined): Promise<void> {
    if (this.state.slow === null && this.traces === null) return;
    if (this.traces === null) {
      const { TracePanel } = await import("./tracepanel.ts");
      this.traces ??= new TracePanel(byId("traces"), {
        choose: (trace) => this.change({ trace }),
        close: () => void this.closeTraces(),
        ask: (query) => {
          this.hint = { seconds: null, focus: true };
          this.change({ query });
          this.hint = undefined;
        },
        marked: () => this.map.marks.size > 0,
      });
    }
    const { query, slow, trace } = this.state;
    this.traces.show(query, slow, trace, hint);
  }

  /** Says what was unusual in a column; the picture is held, so that it stays where it was clicked. */
  private pickColumn(column: number): void {
    const { start, end } = this.span();
    if (isLive(this.state.range)) this.leave();
    this.change({ column, range: isLive(this.state.range) ? { start, end } : this.state.range });
  }

  /** What the kernel measured, below a heat map. */
  private async showWhy(): Promise<void> {
    if (this.state.why === null || this.shown !== "map") return this.whyPanel?.hide();
    if (this.whyPanel === null) {
      const { WhyPanel } = await import("./whypanel.ts");
      this.whyPanel ??= new WhyPanel(byId("why"), this.map, {
        choose: (why) => this.change({ why }),
        close: () => this.change({ why: null, column: null }),
        pick: (t) => this.pickColumn(t),
      });
    }
    const { query, why, column } = this.state;
    if (why !== null) await this.whyPanel.show(query, why, column);
  }

  /** The quantile lines of each place, below a heat map. */
  private async showPlaces(): Promise<void> {
    if (this.state.by === null || this.shown !== "map") return this.places?.hide();
    if (this.places === null) {
      const { PlacesPanel } = await import("./placespanel.ts");
      this.places ??= new PlacesPanel(byId("places"), {
        choose: (by) => this.change({ by }),
        close: () => this.change({ by: null }),
        zoom: (start, end) => this.zoom({ start, end }),
        span: () => this.span(),
        live: () => isLive(this.state.range),
      });
    }
    const { by, query, quantiles } = this.state;
    if (by !== null && this.shown === "map") await this.places.show({ query, label: by, quantiles, unit: this.unit });
  }

  private async showExplanation(): Promise<void> {
    if (this.state.area === null && this.explanation === null) return;
    if (this.explanation === null) {
      const { ExplainPanel } = await import("./explainpanel.ts");
      this.explanation ??= new ExplainPanel(byId("explain"), { filter: (query) => this.change({ query, area: null }), close: () => this.change({ area: null }) });
    }
    const { query, area } = this.state;
    await this.explanation.show(query, area, this.span(), this.unit);
  }

  private closeExplanation(): boolean {
    if (this.state.area === null) return false;
    this.change({ area: null });
    return true;
  }

  private setThreshold(value: number | null): void {
    const merged = this.map.merged;
    // Bins cannot be split, so the line goes to the edge of the bin that it would cut: there the share is exact.
    this.change({ threshold: value === null || merged === null ? value : snapToEdge(this.table, merged, value) });
  }

  /** Start and end of what is asked for, on the grid of its step. */
  private span(): { start: number; end: number; step: number } {
    const { range } = this.state;
    const seconds = isLive(range) ? range.last : range.end - range.start;
    const step = this.map.stepFor(seconds);
    const now = Math.floor(serverNow());
    const end = Math.ceil((isLive(range) ? now : range.end) / step) * step;
    const start = isLive(range) ? end - Math.ceil(range.last / step) * step : Math.floor(range.start / step) * step;
    return { start, end, step };
  }

  private async load(): Promise<void> {
    const turn = ++this.turn;
    this.abort.abort();
    this.abort = new AbortController();
    clearTimeout(this.linesTimer);
    this.sinceLoad = 0;
    const { query } = this.state;
    const { start, end, step } = this.span();
    const { group, range, raw, view } = this.state;
    const wanted = JSON.stringify([query, group, range, raw, view]);
    this.waiting.begin(wanted);
    this.follow();
    try {
      const answer = await this.ask(query, start, end, step);
      if (turn !== this.turn) return;
      this.waiting.end(wanted);
      this.box.fail(null, query);
      this.editor.refuse(null, query);
      byId("map").classList.remove("old");
      this.box.keep(query);
      this.lost(false);
      if ("columns" in answer.data) this.showHeatmap(answer as Answer<HeatmapData>);
      else this.showFloats(answer as Answer<QueryData>, start, end, step);
    } catch (cause) {
      if (turn !== this.turn) return;
      this.waiting.end();
      this.fail(cause, query);
    }
  }

  /** Histograms when the expression has any in this range, otherwise numbers or texts. */
  private async ask(query: string, start: number, end: number, step: number): Promise<Answer<HeatmapData | QueryData>> {
    const { signal } = this.abort;
    this.rated = false;
    if (isInstantOnly(query)) return fetchInstant(query, end, signal);
    const name = parseSelector(query)?.name ?? "";
    const type = isBuckets(name) ? "histogram" : await this.picker.typeOf(query === DEFAULTS.query ? "" : name, signal);
    if (type === "text") return fetchTexts(query, start, end, signal);
    this.rated = type === "counter" && !this.state.raw;
    const typeOf = (one: string): string | undefined => (isBuckets(one) ? "histogram" : one === name ? type : this.picker.meta(one)?.type);
    if (isNumbers(query, typeOf)) return fetchRange(this.rated ? rateOf(query, step) : query, start, end, step, LINES_MAX, signal);
    let refusal: unknown = null;
    try {
      // The column at `start` covers what lies before it.
      const heat = await fetchHeatmap(query, this.state.group, start + step, end, step, true, signal);
      if (heat.data.columns.length > 0 || heat.data.series > 0 || heat.data.groups.length > 0) return heat;
    } catch (cause) {
      if (!(cause instanceof ApiError) || cause.status === 0 || cause.status >= 500) throw cause;
      refusal = cause;
    }
    try {
      const numbers = await fetchRange(query, start, end, step, LINES_MAX, signal);
      const empty = numbers.data.resultType === "matrix" && numbers.data.result.length === 0;
      // A series that the list does not know yet may hold texts.
      return empty && parseSelector(query) !== null ? await fetchTexts(query, start, end, signal) : numbers;
    } catch (cause) {
      throw refusal ?? cause;
    }
  }

  /** A counter alone only ever climbs: unless its values are wanted, its rate is drawn. */
  private asRate(): boolean {
    const name = parseSelector(this.state.query)?.name ?? "";
    return !this.state.raw && !isBuckets(name) && this.picker.meta(name)?.type === "counter";
  }

  private fail(cause: unknown, query: string): void {
    if (cause instanceof DOMException && cause.name === "AbortError") return;
    if (cause instanceof ApiError && cause.status !== 0 && cause.status < 500) {
      this.unfollow();
      this.status.setLink("paused");
      byId("map").classList.add("old");
      this.box.fail(cause.message, query);
      this.editor.refuse(cause.message, query);
      if (this.shown === "empty") this.show("empty", () => drawEmpty(byId("empty"), { kind: "refused" }));
      return;
    }
    this.lost(true, cause instanceof Error ? cause.message : String(cause));
    const turn = this.turn;
    setTimeout(() => turn === this.turn && void this.load(), 2_000);
  }

  private showHeatmap({ data, warnings, infos }: Answer<HeatmapData>): void {
    // The step may be wider than asked for: that of the cells.
    const { step, end } = data;
    const start = data.start - step;
    const names = this.state.query.match(/[a-zA-Z_:][\w:]*/g) ?? [];
    this.unit = data.unit !== "" ? data.unit : (names.map(unitOfName).find((unit) => unit !== "") ?? "");
    this.seriesCount = data.series;
    this.additive = data.additive;
    this.why = data.no_distribution ?? "";
    this.map.width = data.width;
    // Without a choice, groups are drawn side by side; what is no sum of histograms has one picture at a time.
    const together = this.state.group === null && data.groups.length > 1 && data.no_distribution === null;
    this.groups = data.groups.length === 0 ? null : { all: data.groups, total: data.groups_total, drawn: data.group, together };
    this.floats = null;
    drawNotices(byId("notices"), together ? warnings.filter((warning) => !/^\d+ groups: /.test(warning)) : warnings, infos);
    this.showTitle();
    if (together) return this.showGroups(start, end, step);
    // Another time belongs to its expression and step; while they stay it stands until it is asked for anew.
    const ghostOf = JSON.stringify([this.state.query, this.state.group, this.state.compare, step]);
    if (ghostOf !== this.ghostOf) this.map.ghost = null;
    this.ghostOf = ghostOf;
    this.show("map");
    this.controls.show(this.state, this.groups);
    this.map.setUnit(this.options());
    const merged = data.distribution === null ? null : merge(this.table, [this.table.column(data.distribution)]);
    this.map.load(data.columns.map((column) => this.table.column(column)), step, start, end, data.additive ? null : { merged });
    if (data.columns.length === 0 && this.groups === null) this.showNothing();
    void this.compare(start, end, step);
    void this.showExplanation();
    void this.marks.load(this.state.query, start, end, step, this.abort.signal);
    void this.events.load(start, end, this.abort.signal);
    void this.exemplars.load(this.state.query, start, end, this.unit, this.abort.signal);
    void this.showWhy();
    void this.showPlaces();
    this.refresh();
    // The stream of groups wants to know which.
    this.follow();
  }

  /** Draws the other time below the picture, and asks for the verdict. */
  private async compare(start: number, end: number, step: number): Promise<void> {
    const { compare: compared, query } = this.state;
    if (compared === null) {
      this.comparison?.hide();
      return this.map.setGhost(null);
    }
    const { turn } = this;
    if (this.comparison === null) {
      const { ComparePanel } = await import("./comparepanel.ts");
      this.comparison ??= new ComparePanel(byId("compare"), {
        compare: (compare) => this.change({ compare, ...(compare === null ? { difference: false } : {}) }),
        counterparts: (signal) => this.counterparts(signal),
      });
      if (turn !== this.turn) return;
    }
    const group = this.group();
    const offset = offsetOf(compared, start, step);
    const over = "over" in compared ? compared.over : null;
    void this.comparison.show(compared, { query, group, start, end, offset }, this.unit);
    if (over === "") return this.map.setGhost(null);
    try {
      // A live picture moves on until it is loaded anew: what it comes to is known already, where it is over.
      const ahead = isLive(this.state.range) && this.additive ? Math.min(RELOAD_COLUMNS, Math.floor((serverNow() - end + offset) / step)) : 0;
      const { data } = await fetchHeatmap(over ?? query, over === null ? group : null, start - offset + step, end - offset + Math.max(0, ahead) * step, step, false, this.abort.signal);
      if (turn !== this.turn) return;
      const columns = data.columns.map((column) => this.table.column({ ...column, t: column.t + offset, ...(column.from === undefined ? {} : { from: column.from + offset }) }));
      const merged = data.additive || data.distribution === null ? null : merge(this.table, [this.table.column(data.distribution)]);
      this.map.setGhost({ columns: new Map(columns.map((column) => [this.map.slotOf(column), column])), merged });
      this.refresh();
      if (over !== null && isLive(this.state.range)) this.followOver(turn, step);
    } catch {
      // The panel says why, and the picture is right without.
    }
  }

  /** What lies over a live picture moves on with it: it is asked for again as long as the picture stays. */
  private followOver(turn: number, step: number): void {
    clearTimeout(this.overTimer);
    this.overTimer = setTimeout(() => {
      if (turn !== this.turn) return;
      const { start, end } = this.span();
      if (document.hidden) this.followOver(turn, step);
      else void this.compare(start, end, step);
    }, Math.max(OVER_EVERY_MS, step * 1000));
  }

  /** The other distributions of the route in view. */
  private async counterparts(signal: AbortSignal): Promise<string[]> {
    const { query } = this.state;
    const route = routeOf(query) ?? routeOf(`group${this.group() ?? ""}`);
    if (route === null) return [];
    const { start, end, step } = this.span();
    const lists = await Promise.all(routeSelectors(route).map((match) => fetchSeries(match, start - step, end, signal)));
    // A name without metadata is offered unless its ending says that it is a number.
    const isDistribution = (name: string): boolean => (this.picker.meta(name)?.type ?? (/_(total|count|sum|slow)$/.test(name) ? "counter" : "histogram")) === "histogram";
    return counterparts(query, route, lists.flat(), isDistribution);
  }

  private showGroups(start: number, end: number, step: number): void {
    this.show("multiples");
    byId("controls").hidden = false;
    this.controls.show(this.state, this.groups);
    this.multiples.show(this.state.query, start, end, step, this.options());
    this.unfollow();
    this.status.setLink(isLive(this.state.range) ? "asking" : "paused");
    if (isLive(this.state.range)) this.linesTimer = setTimeout(() => document.hidden || void this.load(), Math.max(GROUPS_EVERY_MS, step * 1000));
  }

  /** The group that is asked for: the chosen one, or the one that the server drew. */
  private group(): string | null {
    const drawn = this.groups?.drawn ?? null;
    return this.state.group ?? (drawn === null ? null : groupName(drawn));
  }

  private showFloats({ data, warnings, infos }: Answer<QueryData>, start: number, end: number, step: number): void {
    // It became known as a counter while it was asked for.
    if (this.asRate() && !this.rated) return void this.load();
    this.floats = data;
    const list = data.resultType === "matrix" || data.resultType === "vector" ? data.result : [];
    const notices = limitNotice(warnings, infos);
    drawNotices(byId("notices"), notices.warnings, notices.infos);
    const { query } = this.state;
    this.unit = resultUnit(this.rated ? rateOf(query, step) : query, (name) => this.picker.meta(name)?.unit || unitOfName(name));
    this.showTitle();
    if (list.length === 0 && data.resultType !== "string") this.showNothing();
    else if (hasText(data) || isInstantOnly(this.state.query)) this.show("table", () => drawTable(byId("table"), data, (t, trace) => this.openTrace(t, trace)));
    else if (this.state.view === "table") this.show("table", () => drawTable(byId("table"), data, (t, trace) => this.openTrace(t, trace)));
    else if (this.state.view === "json") this.show("table", () => drawJson(byId("table"), data));
    else {
      this.show("lines");
      void this.lines.show(list, this.unit, start, end, step);
      void this.events.load(start, end, this.abort.signal);
    }
    this.drawNumberChoices(list.length > 0 && !hasText(data) && !isInstantOnly(query));
    byId("facts").replaceChildren();
    if (isLive(this.state.range)) this.linesTimer = setTimeout(() => void this.load(), Math.max(LINES_EVERY_MS, step * 1000));
  }

  /** Lines, rows or JSON; and of a counter its rate or what was counted. */
  private drawNumberChoices(shown: boolean): void {
    const name = parseSelector(this.state.query)?.name ?? "";
    const { raw, view } = this.state;
    const choose = (key: string, text: string, on: boolean, part: Partial<State>): Node => el("button", { type: "button", "aria-pressed": String(on), "data-control": key, click: () => this.change(part) }, text);
    const group = (title: string, ...buttons: Node[]): Node => el("div", { class: "group-of" }, title, el("div", { class: "segments", role: "group", "aria-label": title }, ...buttons));
    const counter = this.picker.meta(name)?.type === "counter" ? [group("Counter", choose("rate", "per second", !raw, { raw: false }), choose("raw", "as counted", raw, { raw: true }))] : [];
    const views = VIEWS.map((one) => choose(`view-${one}`, one, view === one, { view: one }));
    byId("line-controls").replaceChildren(...counter, group("Shown as", ...views));
    byId("line-controls").hidden = !shown;
  }

  private showNothing(): void {
    const selector = parseSelector(this.state.query);
    const known = selector === null || this.picker.has(selector.name);
    this.show("empty", () =>
      drawEmpty(byId("empty"), {
        kind: known ? "none" : "unknown",
        name: selector?.name ?? this.state.query,
        meant: selector === null ? null : nearest(selector.name, this.picker.names().map(({ name }) => name)),
        take: (query) => this.change({ query }),
        widen: () => this.zoom({ last: 86400 }),
        first: () => this.change({ query: parseState("").query }),
      }),
    );
    if (known && selector !== null) void this.showLast(this.state.query);
  }

  /** Says when a selector had its last sample: soon for those of today, and then for those of a year. */
  private async showLast(selector: string): Promise<void> {
    const { turn } = this;
    const { start, end } = this.span();
    for (const span of LAST_SPANS) {
      const answer = await fetchInstant(`max(ts_of_last_over_time(${selector}[${span}]))`, Math.ceil(serverNow()), this.abort.signal).catch(() => null);
      if (turn !== this.turn || answer === null) return;
      const t = answer.data.resultType === "vector" ? Number(answer.data.result[0]?.value?.[1] ?? NaN) : NaN;
      if (!Number.isFinite(t)) continue;
      const length = end - start;
      return sayLast(byId("empty"), t, serverNow(), () => this.zoom({ start: Math.floor(t - length * 0.9), end: Math.ceil(t + length * 0.1) }));
    }
  }

  /** Shows one of the pictures and hides the others. */
  private show(what: Shown, draw: () => void = () => undefined): void {
    for (const id of ["map", "multiples", "lines", "table", "empty"]) byId(id).hidden = id !== what;
    byId("controls").hidden = byId("legend").hidden = what !== "map";
    if (what !== "map") byId("facts").replaceChildren();
    if (what !== "map") this.comparison?.hide();
    if (what !== "lines") this.lines.clear();
    if (what !== "map") {
      this.whyPanel?.hide();
      this.places?.hide();
      this.exemplars.clear();
    }
    byId("line-controls").hidden = true;
    if (what !== "multiples") this.multiples.clear();
    if (what !== "lines" && what !== "map") byId("events").replaceChildren();
    const appears = this.shown !== what;
    this.shown = what;
    if (appears && what === "map") this.map.resize();
    draw();
  }

  private showState(): void {
    const { state } = this;
    this.box.show(state.query);
    this.editor.show(state.query);
    this.picker.show(state.query);
    this.ranges.show(state.range);
    byId<HTMLAnchorElement>("logs-link").href = `logs.html${formatLogState({ search: "", match: "", range: state.range })}`;
    this.controls.show(state, this.groups);
    this.showTitle();
    byId("live").setAttribute("aria-pressed", String(isLive(state.range)));
    (byId("live").querySelector("span") as HTMLElement).textContent = isLive(state.range) ? "Live" : "Paused";
    byId<HTMLButtonElement>("back").disabled = this.viewsBefore.length === 0;
    byId<HTMLButtonElement>("forward").disabled = this.viewsAfter.length === 0;
    void this.showMore();
    void this.showLines();
    // Until the data of another range have come, the lanes are those of the picture that is there.
    if (this.shown === "map") void this.showWhy();
    void this.showPlaces();
    void this.showTraces(this.hint);
    void this.showExplanation();
    this.map.setOptions(this.options());
    this.multiples.setOptions(this.options());
    this.refresh();
  }

  private showTitle(): void {
    const selector = parseSelector(this.state.query);
    const meta = selector === null ? undefined : this.picker.meta(selector.name);
    byId("title").textContent = byId("title").title = this.state.query;
    byId("help").textContent = meta?.help ?? "";
    document.title = `${this.state.query} · Ogive`;
  }

  /** What depends on the picture: legend, facts, cursor. */
  private refresh(): void {
    this.pointer.refresh();
    if (this.shown !== "map" || (this.map.merged === null && this.additive)) return;
    if (this.map.differs) this.controls.showDifferences(differencePalette(currentTheme()), this.map.differenceMax);
    else this.controls.showLegend(this.map.colours, this.map.max, this.state);
    // A view shorter than a cell shows that cell.
    const seconds = Math.max(this.map.end - this.map.start, this.map.width);
    const view = { table: this.table, merged: this.map.merged, why: this.why, unit: this.unit, seconds, series: this.seriesCount, threshold: this.state.threshold };
    drawFacts(byId("facts"), view, () => this.change({ threshold: null }));
  }

  private repaint(): void {
    this.map.setOptions(this.options());
    this.multiples.setOptions(this.options());
    this.more?.repaint();
    this.whyPanel?.draw();
    this.places?.repaint();
    this.refresh();
    if (this.floats !== null) void this.load();
  }

  private resize(): void {
    if (this.shown === "lines") this.lines.resize();
    if (this.shown === "multiples") this.multiples.resize();
    if (this.shown !== "map") return;
    this.map.resize();
    this.whyPanel?.draw();
    this.places?.resize();
    this.refresh();
  }

  private unfollow(): void {
    this.live?.close();
    this.live = null;
    this.liveQuery = "";
  }

  /** Opens, keeps or closes the stream as the state wants it. */
  private follow(): void {
    const wanted = isLive(this.state.range) && !document.hidden ? liveAddress(this.state.query, this.group()) : "";
    if (wanted === "") this.status.setLink("paused");
    if (wanted === this.liveQuery && (this.live !== null || wanted === "")) return;
    this.unfollow();
    this.liveQuery = wanted;
    if (wanted === "") return this.lost(false);
    this.status.setLink("connecting");
    this.live = new Live(wanted, {
      column: (column) => {
        this.status.setLast(column.t);
        this.tick(this.table.column(column));
      },
      correction: (column) => this.correct(this.table.column(column)),
      link: (link, again) => this.linked(link, again),
      // The range answer says what is wrong with an expression; a stream that cannot be is no news.
      refused: () => this.status.setLink("asking"),
    });
  }

  private linked(link: Link, again: boolean): void {
    this.status.setLink(link);
    byId("live").classList.toggle("lost", link === "lost");
    if (link === "lost") this.lost(true, "The server does not answer.");
    else if (link === "open") {
      this.lost(false);
      if (again) void this.load();
    }
  }

  private lost(lost: boolean, why = ""): void {
    byId("lost").hidden = !lost;
    const sentence = /[.!?…]$/.test(why) ? why : `${why}.`;
    if (lost) byId("lost").textContent = `${sentence} ${this.waiting.hasPicture ? "What you see is old. " : ""}Trying again…`;
  }

  /** A second has closed. One-second columns are drawn as they come; wider ones are asked for, so that they are exact. */
  private tick(column: ReturnType<BinTable["column"]>): void {
    if (document.hidden) return;
    if (++this.sinceLoad >= RELOAD_COLUMNS || (this.shown === "empty" && column.count > 0)) return void this.load();
    if (this.shown !== "map") return;
    if (!this.additive) {
      if (this.sinceLoad >= Math.max(OVERLAPPING_COLUMNS, this.map.step)) void this.load();
      return;
    }
    this.marks.tick(column.t, this.map.step, this.abort.signal);
    this.events.tick(this.map.start, this.map.end, this.abort.signal);
    this.exemplars.tick(this.state.query, this.abort.signal);
    if (this.map.step === 1) {
      this.map.add(column, true);
      if (this.state.why !== null) this.whyPanel?.tick(this.state.query, this.state.why);
      this.refresh();
      // Seconds that closed between the answer and the first event of the stream are in neither.
      if (this.sinceLoad <= SETTLED_COLUMNS) void this.fetchTail(column.t, TAIL_COLUMNS);
    } else void this.fetchTail(column.t, 2);
  }

  /** A second became another one: drawn where seconds are drawn, asked for where columns are wider. */
  private correct(column: ReturnType<BinTable["column"]>): void {
    if (document.hidden || (column.count === 0 && (this.shown !== "map" || this.map.step !== 1))) return;
    if (this.shown === "empty") return void this.load();
    if (this.shown !== "map") return;
    if (this.map.step !== 1) return void this.fetchTail(column.t, 1);
    if (column.t <= this.map.start || column.t > this.map.end) return;
    this.map.add(column, false);
    this.refresh();
  }

  private async fetchTail(t: number, columns: number): Promise<void> {
    if (this.tail) return;
    this.tail = true;
    const { turn } = this;
    const { step } = this.map;
    const end = Math.ceil(t / step) * step;
    try {
      // Columns before are asked for as well: their last seconds may have come after they were asked for last.
      const { data } = await fetchHeatmap(this.state.query, this.group(), end - step * (columns - 1), end, step, false, this.abort.signal);
      if (turn !== this.turn) return;
      for (const column of data.columns) this.map.add(this.table.column(column), true);
      this.refresh();
    } catch {
      // The stream says when the server is gone; a single missed column comes with the next.
    } finally {
      this.tail = false;
    }
  }
}

new Page();
