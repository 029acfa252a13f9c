/**
 * "Why was it slow": what the kernel measured of a process, below the heat map and on its time axis, and what stands out in the column that
 * was clicked.
 *
 * Invariants: what is drawn belongs to the last range (`turn`); a column is drawn below that of the picture, whatever the width; colours of
 * a lane belong to its series, the greatest first.
 * Failure: a lane that is refused says so in its place; without series of the kernel the panel says how they are sent.
 */

import { ApiError, fetchRange, fetchSeries } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock } from "./format.ts";
import type { Heatmap } from "./heatmap.ts";
import { strokeOf } from "./series.ts";
import { ink } from "./theme.ts";
import { laneData, laneQuery, LANES, laneText, likeliest, movedIn, nameOfMoved, processesOf, PROCESS_SERIES, whoOf, type Lane, type LaneData, type Moved, type Process } from "./why.ts";

/** Series of a lane: more have no colours of their own. */
const SERIES_MAX = 16;
const LANE_PIXELS = 46;
/** A live picture asks again this often, in columns that close. */
const EVERY_COLUMNS = 5;
const MOVED_MAX = 12;

export interface WhyHandlers {
  choose(selector: string): void;
  close(): void;
  /** A column of a lane was clicked: the end of it. */
  pick(t: number): void;
}

interface Shown {
  readonly box: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  readonly legend: HTMLElement;
  data: LaneData | null;
}

export class WhyPanel {
  private turn = 0;
  private ticks = 0;
  private abort = new AbortController();
  private processes: Process[] = [];
  private selector = "";
  private column: number | null = null;
  /** Slot of the first value of the lanes, and the step that they were asked for with. */
  private base = 0;
  private step = 1;
  /** What the lanes were asked for. */
  private wanted = "";
  private readonly lanes = new Map<string, Shown>();
  private readonly note = el("p", { class: "slow-note", role: "status" });
  private readonly select = el("select", { "aria-label": "Process" });
  private readonly moved = el("div", { class: "explain-body moved", "aria-live": "polite" });
  private readonly stack = el("div", { class: "lanes" });

  constructor(
    private readonly parent: HTMLElement,
    private readonly map: Heatmap,
    private readonly handlers: WhyHandlers,
  ) {
    this.select.addEventListener("change", () => handlers.choose(this.select.value));
    const close = el("button", { type: "button", class: "ghost", title: "Close", "aria-label": "Close why it was slow", click: () => handlers.close() }, "✕");
    parent.append(el("div", { class: "slow-head" }, el("h2", {}, "Why was it slow"), this.select, this.note, close), this.moved, this.stack);
    for (const lane of LANES) this.lanes.set(lane.id, this.make(lane));
  }

  private make(lane: Lane): Shown {
    const canvas = el("canvas", { role: "img", "aria-label": lane.title });
    const legend = el("span", { class: "lane-legend" });
    const box = el("figure", { class: "lane", hidden: true, "data-lane": lane.id }, el("figcaption", {}, el("b", {}, lane.title), legend), canvas);
    canvas.addEventListener("click", (event) => {
      const slot = this.map.slotAt(event.clientX - this.map.canvas.getBoundingClientRect().left);
      if (slot !== null) this.handlers.pick(slot * this.map.step);
    });
    this.stack.append(box);
    return { box, canvas, legend, data: null };
  }

  hide(): void {
    this.parent.hidden = true;
    this.abort.abort();
    this.turn++;
    this.wanted = "";
  }

  /** Shows the lanes of a process below the picture; an empty selector leaves the choice to the panel. */
  async show(query: string, selector: string, column: number | null): Promise<void> {
    this.parent.hidden = false;
    this.column = column;
    const { first, last, step, start, end } = this.map;
    const wanted = JSON.stringify([query, selector, first, last, step]);
    if (wanted === this.wanted) return this.draw();
    this.wanted = wanted;
    const turn = ++this.turn;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      const series = await fetchSeries(PROCESS_SERIES, start, end, signal);
      if (turn !== this.turn) return;
      this.processes = processesOf(series);
      this.selector = whoOf(selector) ?? likeliest(this.processes, query)?.selector ?? "";
      this.list();
      if (this.selector === "") return this.nothing();
      this.note.textContent = this.lanesShown() ? this.note.textContent : "Asking…";
      const answers = await Promise.all(LANES.map((lane) => this.ask(lane, first, last, step, signal)));
      if (turn !== this.turn) return;
      [this.base, this.step] = [first, step];
      LANES.forEach((lane, i) => (this.lane(lane).data = answers[i] ?? null));
      this.note.textContent = this.lanesShown() ? "" : `No series of the kernel's has ${this.selector} in this time.`;
      this.draw();
    } catch (cause) {
      if (turn !== this.turn || signal.aborted) return;
      this.wanted = "";
      this.note.textContent = cause instanceof ApiError ? cause.message : String(cause);
    }
  }

  private lane(lane: Lane): Shown {
    return this.lanes.get(lane.id) as Shown;
  }

  private lanesShown(): boolean {
    return LANES.some((lane) => (this.lane(lane).data?.names.length ?? 0) > 0);
  }

  private async ask(lane: Lane, first: number, last: number, step: number, signal: AbortSignal): Promise<LaneData> {
    const { data } = await fetchRange(laneQuery(lane, this.selector, step), first * step, last * step, step, SERIES_MAX, signal);
    return laneData(lane, data.resultType === "matrix" ? data.result : [], first, last, step);
  }

  private list(): void {
    const known = this.processes.some(({ selector }) => selector === this.selector);
    const all = known || this.selector === "" ? this.processes : [{ selector: this.selector, text: this.selector, labels: {} }, ...this.processes];
    this.select.hidden = all.length === 0;
    this.select.replaceChildren(...all.map(({ selector, text }) => el("option", { value: selector, selected: selector === this.selector }, text)));
  }

  private nothing(): void {
    for (const { box } of this.lanes.values()) box.hidden = true;
    this.moved.replaceChildren();
    this.note.textContent = "No process has series of the kernel in this time. `ogive kernel export --to URL --comm NAME`, or [kernel] in the configuration, sends them.";
  }

  /** A column has closed: the lanes move along, and are asked for again in a while. */
  tick(query: string, selector: string): void {
    if (this.parent.hidden) return;
    if (++this.ticks % EVERY_COLUMNS === 0) void this.show(query, selector, this.column);
    else this.draw();
  }

  /** Draws below the picture as it stands now. */
  draw(): void {
    if (this.parent.hidden) return;
    for (const lane of LANES) {
      const shown = this.lane(lane);
      shown.box.hidden = shown.data === null || shown.data.names.length === 0 || this.step !== this.map.step;
      if (!shown.box.hidden) this.drawLane(shown, shown.data as LaneData);
    }
    this.drawMoved();
  }

  private drawLane({ box, canvas, legend }: Shown, data: LaneData): void {
    const { map } = this;
    const { ratio } = map;
    const left = map.canvas.getBoundingClientRect().left - canvas.getBoundingClientRect().left;
    const width = canvas.clientWidth;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(LANE_PIXELS * ratio)];
    const context = canvas.getContext("2d");
    if (context === null) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const slots = map.last - map.first + 1;
    const value = (row: Float64Array, slot: number): number => row[slot - this.base] ?? NaN;
    const total = (slot: number): number => data.rows.reduce((most, row) => (Number.isNaN(value(row, slot)) ? most : data.lane.isStacked ? most + value(row, slot) : Math.max(most, value(row, slot))), 0);
    const max = Math.max(1e-12, ...Array.from({ length: slots }, (_, i) => total(map.first + i)));
    const y = (part: number): number => LANE_PIXELS - 1 - (part / max) * (LANE_PIXELS - 4);
    context.fillStyle = ink("plot");
    context.fillRect(left + map.layout.left, 0, map.layout.plotWidth, LANE_PIXELS);
    this.drawChosen(context, left);
    for (let slot = map.first; slot <= map.last; slot++) {
      const [from, to] = map.slotSpan(slot);
      let below = 0;
      data.rows.forEach((row, i) => {
        const now = value(row, slot);
        if (Number.isNaN(now) || now <= 0) return;
        context.fillStyle = strokeOf(i).colour;
        if (data.lane.isStacked) context.fillRect(left + from, y(below + now), Math.max(1, to - from - 0.25), y(below) - y(below + now));
        else context.fillRect(left + from, y(now) - 1, Math.max(1, to - from), 2);
        below += now;
      });
    }
    context.fillStyle = ink("muted");
    context.font = `11px ${ink("font-numbers")}`;
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillText(laneText(data.lane, max), left + map.layout.left - 8, 2);
    legend.replaceChildren(...data.names.flatMap((name, i) => (data.names.length === 1 && name === "all" ? [] : [el("i", { style: `background:${strokeOf(i).colour}` }), name])));
    box.dataset["view"] = JSON.stringify({ names: data.names, max, first: map.first, last: map.last, left: left + map.layout.left, plotWidth: map.layout.plotWidth });
  }

  private drawChosen(context: CanvasRenderingContext2D, left: number): void {
    const slot = this.slot();
    if (slot === null) return;
    const [from, to] = this.map.slotSpan(slot);
    context.fillStyle = ink("select");
    context.fillRect(left + from - 1, 0, Math.max(3, to - from + 2), LANE_PIXELS);
    context.strokeStyle = ink("accent");
    context.strokeRect(left + from - 0.5, 0.5, Math.max(2, to - from + 1), LANE_PIXELS - 1);
  }

  /** The slot of the chosen column, if it is in view. */
  private slot(): number | null {
    if (this.column === null) return null;
    const slot = Math.round(this.column / this.map.step);
    return slot >= this.map.first && slot <= this.map.last ? slot : null;
  }

  private drawMoved(): void {
    const slot = this.slot();
    if (slot === null) return this.moved.replaceChildren(el("p", { class: "note" }, "Click a slow column: what was unusual in it stands here."));
    const data = LANES.map((lane) => this.lane(lane).data).filter((one): one is LaneData => one !== null);
    const found = movedIn(data, slot - this.base);
    const when = `${formatClock((slot - 1) * this.step)} – ${formatClock(slot * this.step)}`;
    if (found.length === 0) return this.moved.replaceChildren(el("p", { "data-moved": "none" }, `Nothing that the kernel measured of it is unusual in ${when}, beside the other columns in view.`));
    const head = el("tr", {}, ...[`Unusual in ${when}`, "In it", "Usually", "Deviations"].map((text) => el("th", { scope: "col" }, text)));
    this.moved.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...found.slice(0, MOVED_MAX).map(movedRow))));
  }
}

function movedRow(one: Moved): HTMLElement {
  const { lane, now, usual, score } = one;
  const text = `${score > 0 ? "+" : "−"}${Math.abs(score) >= 100 ? "100 or more" : Math.abs(score).toFixed(1)}`;
  return el("tr", { "data-moved": `${lane.id}:${one.name}` }, el("th", { scope: "row" }, `${score > 0 ? "▲" : "▼"} ${nameOfMoved(one)}`), el("td", {}, laneText(lane, now)), el("td", {}, laneText(lane, usual)), el("td", {}, text));
}
