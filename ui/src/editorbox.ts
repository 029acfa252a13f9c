/** The place of the editor under the query box, with what can be put around an expression by a click. */

import { fetchLabels } from "./api.ts";
import { byId, el } from "./dom.ts";
import type { Editor } from "./editor.ts";
import { errorPosition } from "./querybox.ts";
import { withBy, withP99, withRate } from "./wrappers.ts";

/** Labels of the names in an expression that are offered. */
const LABELS_MAX = 40;

export class EditorBox {
  private editor: Editor | null = null;
  private query = "";
  private readonly panel = byId("editor");
  private readonly place = el("div", { class: "cm" });
  private readonly by = el("select", { "aria-label": "Sum by a label" });
  private readonly button = byId<HTMLButtonElement>("editor-button");

  constructor(private readonly run: (query: string) => void) {
    const wrap = (key: string, title: string, change: (query: string) => string | null): Node =>
      el("button", { type: "button", "data-wrap": key, title, click: () => this.wrap(change) }, key);
    this.by.addEventListener("change", () => {
      const label = this.by.value;
      if (label !== "") this.wrap((query) => withBy(query, label));
    });
    this.panel.append(
      this.place,
      el(
        "div",
        { class: "wraps" },
        wrap("rate", "Growth a second of a counter", withRate),
        wrap("p99", "The 99th percentile of what all series measured", withP99),
        this.by,
        el("span", { class: "grow" }),
        el("kbd", {}, "Ctrl+Enter"),
        el("button", { type: "button", class: "run", click: () => this.run(this.editor?.text.trim() ?? "") }, "Run"),
      ),
    );
    this.button.addEventListener("click", () => void this.open(this.panel.hidden === true));
  }

  /** Opens the editor, whose code comes now if it is the first time. */
  async open(open: boolean): Promise<void> {
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (!open) return this.button.focus();
    if (this.editor === null) {
      const { Editor } = await import("./editor.ts");
      this.editor ??= new Editor(this.place, this.query, (query) => this.run(query.trim()), () => void this.open(false));
    }
    this.editor.show(this.query);
    this.editor.focus();
    void this.offerLabels();
  }

  show(query: string): void {
    this.query = query;
    this.editor?.show(query);
    if (!this.panel.hidden) void this.offerLabels();
  }

  refuse(message: string | null, query: string): void {
    this.editor?.refuse(message, message === null ? null : errorPosition(message, query));
  }

  private wrap(change: (query: string) => string | null): void {
    const changed = change(this.editor?.text ?? this.query);
    if (changed !== null) this.run(changed);
  }

  private async offerLabels(): Promise<void> {
    const { query } = this;
    const name = /([a-zA-Z_:][\w:]*)\s*(?:[[{)]|$)/.exec(query.replace(/\b(?:sum|rate|increase|histogram_quantile|avg|max|min|by|without)\b/g, ""))?.[1];
    const labels = name === undefined ? [] : await fetchLabels(name).catch(() => []);
    if (query !== this.query) return;
    const offered = labels.filter((label) => label !== "__name__").slice(0, LABELS_MAX);
    this.by.replaceChildren(el("option", { value: "" }, "by label…"), ...offered.map((label) => el("option", { value: label }, label)));
  }
}
