/**
 * Heat maps of groups side by side, on one scale of values and one of colours.
 *
 * Invariants: panels exist for what is in view and a row around it, however many groups there are; every panel has the same axis and
 * the same colours for the same amounts, and both only grow while parts of the list come; a click draws the group alone.
 * Failure: a part that does not come is asked for again when it comes into view again; a refusal is given to whoever shows this.
 */

import { fetchGroups, type GroupPanel, type GroupPart } from "./api.ts";
import { DomainBuilder, niceCeil, sameDomain, ValueAxis } from "./axis.ts";
import { BinTable, type Column } from "./bins.ts";
import { greatest, shadesOf, type Look } from "./cells.ts";
import { palette, paletteWords } from "./colour.ts";
import { groupName } from "./controls.ts";
import { el } from "./dom.ts";
import { formatClock, formatCompact, formatValue } from "./format.ts";
import type { Options } from "./heatmap.ts";
import { cssName, markOf } from "./quantilelines.ts";
import { drawCells, drawScale, usualOf } from "./smallmap.ts";
import { ink } from "./theme.ts";

export type GroupOrder = "quantile" | "count" | "labels";

const ORDERS: readonly [GroupOrder, string][] = [
  ["quantile", "worst p99 first"],
  ["count", "most samples first"],
  ["labels", "by name"],
];

/** Panels are at least so wide, and so high with their heading; a few share the room up to the greatest height. Columns enough for the width. */
const PANEL = { width: 300, height: 128, heightMax: 300, head: 36, columns: 120, gap: 10 };

/** Groups of one request. */
const PART = 24;

/** One part of the range that panels show, and its step. */
interface View {
  readonly query: string;
  readonly start: number;
  readonly end: number;
  readonly step: number;
}

interface Panel {
  readonly group: GroupPanel;
  readonly columns: Map<number, Column>;
}

/** What panels have in common. */
interface Shared {
  readonly axis: ValueAxis;
  readonly look: Look;
}

/** Rows of panels that are in view, a row more on either side. Pure. */
export function rowsInView(top: number, height: number, rows: number, panel: number = PANEL.height): [number, number] {
  const pitch = panel + PANEL.gap;
  return [Math.max(0, Math.floor(top / pitch) - 1), Math.min(rows - 1, Math.floor((top + height) / pitch) + 1)];
}

/** How high panels are, so that a few of them fill what room there is. Pure. */
export function panelHeight(room: number, rows: number): number {
  return Math.max(PANEL.height, Math.min(PANEL.heightMax, Math.floor(room / Math.max(1, rows)) - PANEL.gap));
}

export class Multiples {
  private view: View | null = null;
  private options: Options;
  private order: GroupOrder = "quantile";
  private total = 0;
  private unit = "";
  private readonly panels = new Map<number, Panel>();
  private readonly asked = new Set<number>();
  private table = new BinTable();
  private bounds: [number, number] | null = null;
  private shared: Shared | null = null;
  private max = 1;
  private abort = new AbortController();
  private readonly chooser = el("select", { "aria-label": "Order of the groups" }, ...ORDERS.map(([value, text]) => el("option", { value }, text)));
  private readonly note = el("span", {});
  private readonly space = el("div", { class: "space" });
  private readonly scroller = el("div", { class: "scroller", tabindex: "0" }, this.space);
  private readonly drawn = new Map<number, HTMLElement>();

  constructor(
    private readonly parent: HTMLElement,
    options: Options,
    private readonly handlers: { open(group: string): void; failed(cause: unknown): void },
  ) {
    this.options = options;
    parent.append(el("div", { class: "bar" }, this.chooser, this.note), this.scroller);
    this.chooser.addEventListener("change", () => {
      this.order = this.chooser.value as GroupOrder;
      this.scroller.scrollTop = 0;
      if (this.view !== null) this.restart(this.view);
    });
    this.scroller.addEventListener("scroll", () => this.arrange());
  }

  /** Shows the groups of an expression; what was drawn stays until the new parts come. */
  show(query: string, start: number, end: number, step: number, options: Options): void {
    const coarse = step * Math.max(1, Math.ceil((end - start) / step / PANEL.columns));
    const view = { query, start: Math.floor(start / coarse) * coarse, end: Math.ceil(end / coarse) * coarse, step: coarse };
    this.options = options;
    if (this.view?.query !== query) {
      this.scroller.scrollTop = 0;
      this.forget();
    }
    this.restart(view);
  }

  clear(): void {
    this.abort.abort();
    this.view = null;
    this.forget();
  }

  setOptions(options: Options): void {
    this.options = options;
    this.share();
    this.repaint();
  }

  resize(): void {
    this.share();
    this.repaint();
  }

  private forget(): void {
    this.panels.clear();
    this.table = new BinTable();
    this.bounds = null;
    this.shared = null;
    this.total = 0;
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
  }

  private restart(view: View): void {
    this.abort.abort();
    this.abort = new AbortController();
    this.asked.clear();
    this.view = view;
    const [first] = this.span();
    void this.fetch(Math.floor(first / PART), true);
  }

  /** Places of the first and the last panel in view. */
  private span(): [number, number] {
    const across = this.across();
    const [first, last] = rowsInView(this.scroller.scrollTop, this.scroller.clientHeight, Math.ceil(this.total / across), this.height());
    return [first * across, Math.min(this.total, (last + 1) * across) - 1];
  }

  private height(): number {
    return panelHeight(this.scroller.clientHeight, Math.ceil(this.total / this.across()));
  }

  private across(): number {
    return Math.max(1, Math.floor((this.scroller.clientWidth + PANEL.gap) / (PANEL.width + PANEL.gap)));
  }

  /** Asks for a part of the list; `fresh` when it is the first of a new view, whose answer throws away what was there. */
  private async fetch(part: number, fresh = false): Promise<void> {
    const { view, abort } = this;
    if (view === null || this.asked.has(part)) return;
    this.asked.add(part);
    try {
      const { data } = await fetchGroups(view.query, view.start + view.step, view.end, view.step, this.order, part * PART, PART, abort.signal);
      if (abort.signal.aborted) return;
      if (fresh && data.width > view.step) {
        // Columns narrower than cells would be mostly empty.
        const step = view.step * Math.ceil(data.width / view.step);
        return this.restart({ ...view, step, start: Math.floor(view.start / step) * step, end: Math.ceil(view.end / step) * step });
      }
      if (fresh) this.forget();
      this.take(data, part * PART);
    } catch (cause) {
      this.asked.delete(part);
      if (!abort.signal.aborted) this.handlers.failed(cause);
    }
  }

  private take(data: GroupPart, offset: number): void {
    this.total = data.groups_total;
    this.unit = data.unit;
    if (data.lo !== null && data.hi !== null) this.bounds = [data.lo, data.hi];
    data.groups.forEach((group, i) => {
      const columns = new Map<number, Column>();
      for (const wire of group.list) columns.set(Math.round(wire.t / data.step), this.table.column(wire));
      this.panels.set(offset + i, { group, columns });
    });
    const before = this.shared;
    const max = this.max;
    this.share();
    if (before !== null && max === this.max && sameDomain(before.axis.domain, this.shared?.axis.domain ?? null)) {
      // What is drawn stays right: only the new panels are made.
      this.shared = { ...before, look: { ...before.look, usual: this.shared?.look.usual ?? before.look.usual } };
      this.arrange();
    } else this.repaint();
  }

  /** Fits the scales to everything that came. */
  private share(): void {
    const domain = new DomainBuilder();
    for (const bound of this.bounds ?? []) domain.add(bound, bound);
    const columns = [...this.panels.values()].flatMap((panel) => [...panel.columns.values()]);
    const usual = usualOf(this.table, columns);
    for (let id = 0; id < this.table.size; id++) domain.add(this.table.lo[id] as number, this.table.hi[id] as number);
    const built = domain.build();
    if (built === null) return void (this.shared = null);
    const { theme, scaling, density } = this.options;
    const colours = palette(this.options.palette, theme);
    const words = paletteWords(colours);
    const axis = new ValueAxis(built, (this.height() - PANEL.head) * devicePixelRatio, devicePixelRatio);
    this.max = niceCeil(Math.max(1e-9, greatest(this.table, columns, axis, density, usual)));
    this.shared = { axis, look: { axis, shades: shadesOf(words, scaling), empty: words[0] as number, density, usual, max: this.max } };
  }

  private repaint(): void {
    const times = this.view === null ? "" : ` · ${formatClock(this.view.start)} – ${formatClock(this.view.end)}`;
    this.note.textContent = `${this.total} groups on one scale${times} · a click draws one alone`;
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
    this.arrange();
  }

  /** Makes the panels that are in view, and lets the others go. */
  private arrange(): void {
    const across = this.across();
    const height = this.height();
    const pitch = height + PANEL.gap;
    const width = (this.scroller.clientWidth - PANEL.gap * (across - 1)) / across;
    this.space.style.height = `${Math.ceil(this.total / across) * pitch}px`;
    const [first, last] = this.span();
    for (const [at, node] of this.drawn) {
      if (at >= first && at <= last) continue;
      node.remove();
      this.drawn.delete(at);
    }
    for (let at = first; at <= last; at++) {
      if (this.drawn.has(at)) continue;
      const panel = this.panels.get(at);
      if (panel === undefined) {
        void this.fetch(Math.floor(at / PART));
        continue;
      }
      const node = this.node(panel, width, height);
      node.style.transform = `translate(${(at % across) * (width + PANEL.gap)}px, ${Math.floor(at / across) * pitch}px)`;
      this.drawn.set(at, node);
      this.space.append(node);
    }
    this.publish();
  }

  private node({ group, columns }: Panel, width: number, height: number): HTMLElement {
    const name = groupName(group.labels);
    const canvas = el("canvas", { width: Math.round(width * devicePixelRatio), height: Math.round((height - PANEL.head) * devicePixelRatio) });
    const p99 = group.quantile === undefined ? "–" : formatValue(group.quantile[0], this.unit, 3);
    const text = `p99 ${p99} · ${formatCompact(Number(group.count))}`;
    const open = (): void => this.handlers.open(name);
    const head = el("span", { class: "head" }, el("b", {}, name), el("span", {}, text));
    const button = el("button", { class: "panel", type: "button", title: `${name}: ${text}`, "data-group": name, click: open }, head, canvas);
    button.style.width = `${width}px`;
    button.style.height = `${height}px`;
    canvas.style.height = `${height - PANEL.head}px`;
    this.draw(canvas, columns);
    return button;
  }

  private draw(canvas: HTMLCanvasElement, columns: ReadonlyMap<number, Column>): void {
    const context = canvas.getContext("2d");
    const { view, shared } = this;
    if (context === null || view === null || shared === null) return;
    const [first, last] = [Math.round(view.start / view.step) + 1, Math.round(view.end / view.step)];
    drawCells(context, columns, this.table, shared.look, [first, last]);
    this.drawLines(context, columns, first, last);
    drawScale(context, shared.axis, this.unit);
  }

  private drawLines(context: CanvasRenderingContext2D, columns: ReadonlyMap<number, Column>, first: number, last: number): void {
    const { axis } = this.shared as Shared;
    const width = context.canvas.width / (last - first + 1);
    for (const name of this.options.quantiles) {
      context.beginPath();
      let drawing = false;
      for (let slot = first; slot <= last; slot++) {
        const column = columns.get(slot);
        const mark = column === undefined ? null : markOf(column, this.table, name);
        if (mark === null) {
          drawing = false;
          continue;
        }
        const [x, y] = [(slot - first) * width, axis.y(mark.value)];
        if (drawing) context.lineTo(x, y);
        else context.moveTo(x, y);
        context.lineTo(x + width, y);
        drawing = true;
      }
      context.strokeStyle = ink(`q-${cssName(name)}`);
      context.lineWidth = devicePixelRatio;
      context.stroke();
    }
  }

  /** What is drawn, for tests and for anybody who scripts the page. */
  private publish(): void {
    const { total, max, order } = this;
    const [first, last] = this.span();
    this.parent.dataset["view"] = JSON.stringify({ total, max, order, first, last, drawn: this.drawn.size, loaded: this.panels.size, domain: this.shared?.axis.domain ?? null, step: this.view?.step ?? null });
  }
}
