/**
 * Panels on a grid of 12 columns: dragged by their heads, made larger by their corners, moved by the arrow keys, and written in forms.
 *
 * Invariants: a panel's picture lives as long as the panel is on the grid; a drag changes the board once, when it ends.
 */

import { arranged, clamped, COLUMNS, filled, KINDS, rowsOf, type Panel, type PanelKind, type Place } from "./board.ts";
import { el } from "./dom.ts";
import { PanelView } from "./panel.ts";
import type { Range } from "./state.ts";

/** Pixels of a row with its gap; the style sheet has the same. */
const ROW = 72;

export interface GridHandlers {
  changed(panels: Panel[]): void;
  /** Where a panel is looked at alone. */
  address(panel: Panel): string;
  zoom(range: Range): void;
}

interface Shown {
  readonly box: HTMLElement;
  readonly head: HTMLElement;
  readonly title: HTMLAnchorElement;
  readonly tools: HTMLElement;
  readonly view: PanelView;
}

export class BoardGrid {
  private panels: readonly Panel[] = [];
  private edit = false;
  private shown: Shown[] = [];

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: GridHandlers,
  ) {}

  show(panels: readonly Panel[], edit: boolean): void {
    this.panels = panels;
    this.edit = edit;
    this.parent.classList.toggle("editing", edit);
    while (this.shown.length > panels.length) {
      const gone = this.shown.pop();
      gone?.view.close();
      gone?.box.remove();
    }
    panels.forEach((panel, at) => {
      const one = (this.shown[at] ??= this.make(at));
      this.put(one.box, panel);
      one.title.textContent = panel.title || panel.queries.join(", ");
      one.title.href = this.handlers.address(panel);
      one.tools.hidden = !edit;
      one.box.dataset["title"] = panel.title;
    });
    this.parent.dataset["rows"] = String(rowsOf(panels));
  }

  load(span: { start: number; end: number }, values: Readonly<Record<string, string>>): void {
    this.panels.forEach((panel, at) => {
      const queries = panel.queries.map((query) => filled(query, values));
      void this.shown[at]?.view.show({ queries, kind: panel.kind, ...span, ...(panel.text === undefined ? {} : { text: filled(panel.text, values) }) });
    });
  }

  repaint(): void {
    for (const { view } of this.shown) view.repaint();
  }

  /** A new panel, whose form opens. */
  add(): void {
    const panel: Panel = { title: "", queries: ["ogive_hiccup_seconds"], kind: "auto", x: 0, y: rowsOf(this.panels), w: 6, h: 4 };
    this.handlers.changed([...this.panels, panel]);
    this.write(this.panels.length - 1);
  }

  private put(box: HTMLElement, { x, y, w, h }: Place): void {
    box.style.gridColumn = `${x + 1} / span ${w}`;
    box.style.gridRow = `${y + 1} / span ${h}`;
    box.dataset["place"] = [x, y, w, h].join();
  }

  private make(at: number): Shown {
    const title = el("a", { class: "panel-title" });
    const tool = (name: string, text: string, act: () => void): HTMLElement => el("button", { type: "button", class: "ghost", "aria-label": name, title: name, click: act }, text);
    const grip = el("button", { type: "button", class: "ghost grip", "aria-label": "Move: arrow keys; Shift and arrow keys: size", title: "Drag, or arrow keys; Shift: size" }, "⠿");
    const tools = el("span", { class: "panel-tools" }, grip, tool("Change this panel", "✎", () => this.write(at)), tool("Remove this panel", "✕", () => this.handlers.changed(arranged(this.panels.filter((_, i) => i !== at)))));
    const head = el("div", { class: "panel-head" }, title, tools);
    const corner = el("span", { class: "corner", "aria-hidden": "true" });
    const content = el("div", { class: "panel-content" });
    const box = el("section", { class: "board-panel" }, head, content, corner);
    this.parent.append(box);
    head.addEventListener("pointerdown", (event) => this.drag(event, at, false));
    corner.addEventListener("pointerdown", (event) => this.drag(event, at, true));
    grip.addEventListener("keydown", (event) => this.key(event, at));
    return { box, head, title, tools, view: new PanelView(content, (start, end) => this.handlers.zoom({ start: Math.floor(start), end: Math.ceil(end) })) };
  }

  private key(event: KeyboardEvent, at: number): void {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const panel = this.panels[at];
    if (way === undefined || panel === undefined) return;
    event.preventDefault();
    const [dx, dy] = way as [number, number];
    const next = event.shiftKey ? { ...panel, w: panel.w + dx, h: panel.h + dy } : { ...panel, x: panel.x + dx, y: panel.y + dy };
    this.move(at, next);
  }

  private move(at: number, place: Place): void {
    const panels = this.panels.map((panel, i) => (i === at ? { ...panel, ...clamped(place) } : panel));
    // What was moved stays where it was put, and then all fall up as far as they can.
    this.handlers.changed(arranged(arranged(panels, at)));
  }

  /** Moves or sizes a panel with the pointer: it follows in whole cells. */
  private drag(event: PointerEvent, at: number, size: boolean): void {
    const panel = this.panels[at];
    const target = event.target as HTMLElement;
    if (!this.edit || panel === undefined || event.button !== 0 || (target.closest("button") !== null && !target.classList.contains("grip"))) return;
    event.preventDefault();
    const { box } = this.shown[at] as Shown;
    const wide = this.parent.clientWidth / COLUMNS;
    let place: Place = panel;
    const follow = (now: PointerEvent): void => {
      const [dx, dy] = [(now.clientX - event.clientX) / wide, (now.clientY - event.clientY) / ROW];
      place = clamped(size ? { ...panel, w: panel.w + dx, h: panel.h + dy } : { ...panel, x: panel.x + dx, y: panel.y + dy });
      this.put(box, place);
    };
    box.classList.add("moving");
    const end = (): void => {
      document.removeEventListener("pointermove", follow);
      box.classList.remove("moving");
      this.move(at, place);
    };
    document.addEventListener("pointermove", follow);
    document.addEventListener("pointerup", end, { once: true });
  }

  /** The form of a panel. */
  private write(at: number): void {
    const panel = this.panels[at];
    if (panel === undefined) return;
    const title = el("input", { type: "text", value: panel.title, name: "title" });
    const queries = el("textarea", { rows: 4, name: "queries", spellcheck: false }, panel.queries.join("\n"));
    const text = el("textarea", { rows: 3, name: "text" }, panel.text ?? "");
    const kind = el("select", { name: "kind" }, ...KINDS.map((one) => el("option", { value: one, selected: one === panel.kind }, one)));
    const dialog = el("dialog", { class: "keys panel-form", "aria-label": "Panel" });
    const take = (event: Event): void => {
      event.preventDefault();
      const lines = queries.value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
      const { text: _, ...rest } = panel;
      const next: Panel = { ...rest, title: title.value.trim(), queries: lines, kind: kind.value as PanelKind, ...(text.value.trim() === "" ? {} : { text: text.value.trim() }) };
      dialog.close();
      this.handlers.changed(this.panels.map((one, i) => (i === at ? next : one)));
    };
    dialog.append(
      el("form", { submit: take }, el("h2", {}, "Panel"), el("label", {}, "Title", title), el("label", {}, "Kind", kind), el("label", {}, "Expressions, one a line", queries), el("label", {}, "Words, of a panel of text", text), el("div", { class: "does" }, el("button", { type: "submit" }, "Take"), el("button", { type: "button", click: () => dialog.close() }, "Leave"))),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    queries.focus();
  }
}
