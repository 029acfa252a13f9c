/** Expressions below the first one: each a picture of its own over the same time, drawn as a board's panels are. */

import { el, icon } from "./dom.ts";
import { PanelView } from "./panel.ts";

/** A live view asks for them again this often. */
const EVERY_MS = 5_000;

export interface MoreHandlers {
  /** Takes an expression to the top, where it can be explained and compared; what stood there takes its place. */
  take(at: number): void;
  remove(at: number): void;
  zoom(start: number, end: number): void;
  span(): { start: number; end: number };
  live(): boolean;
}

export class More {
  private shown: { box: HTMLElement; name: HTMLElement; view: PanelView }[] = [];
  private queries: readonly string[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: MoreHandlers,
  ) {}

  show(queries: readonly string[]): void {
    this.queries = queries;
    this.parent.hidden = queries.length === 0;
    while (this.shown.length > queries.length) {
      const gone = this.shown.pop();
      gone?.view.close();
      gone?.box.remove();
    }
    queries.forEach((query, at) => {
      const one = (this.shown[at] ??= this.make(at));
      one.name.textContent = query;
      one.box.dataset["query"] = query;
    });
    this.load();
  }

  /** Asks for what each shows. */
  load(): void {
    clearTimeout(this.timer);
    if (this.queries.length === 0) return;
    const span = this.handlers.span();
    this.queries.forEach((query, at) => void this.shown[at]?.view.show({ queries: [query], kind: "auto", ...span }));
    if (this.handlers.live()) this.timer = setTimeout(() => (document.hidden ? undefined : this.load()), EVERY_MS);
  }

  repaint(): void {
    for (const { view } of this.shown) view.repaint();
  }

  private make(at: number): { box: HTMLElement; name: HTMLElement; view: PanelView } {
    const name = el("h2", {});
    const up = el("button", { type: "button", class: "ghost", "aria-label": "To the top", title: "To the top, in place of the first expression", click: () => this.handlers.take(at) }, icon("M8 13V3.5M4 7.5l4-4 4 4"));
    const remove = el("button", { type: "button", class: "ghost", "aria-label": "Remove this expression", title: "Remove", click: () => this.handlers.remove(at) }, "✕");
    const content = el("div", { class: "panel-content" });
    const box = el("div", { class: "more-panel" }, el("div", { class: "more-head" }, name, up, remove), content);
    this.parent.append(box);
    return { box, name, view: new PanelView(content, (start, end) => this.handlers.zoom(Math.floor(start), Math.ceil(end))) };
  }
}
