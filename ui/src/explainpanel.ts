/**
 * What is different about the samples of a box: label values that are more frequent in it than elsewhere in view, as the server
 * ranks them. A click on a row keeps only its series in the picture.
 *
 * Invariants: what is shown belongs to the last box; an answer to an earlier one is thrown away.
 */

import { ApiError, fetchExplanation, fetchRelated, type Explained, type Labels, type Related } from "./api.ts";
import { el } from "./dom.ts";
import { formatBounds, formatClock, formatCount, formatShare } from "./format.ts";
import { formatSelector, isChosen, parseSelector, quote, toggle } from "./selector.ts";
import type { Area } from "./state.ts";

/** `host="b", route="/x"`. Pure. */
export function rowName(labels: Labels): string {
  return Object.entries(labels).map(([name, value]) => `${name}=${quote(value)}`).join(", ");
}

/** The selector with only the series of a row; null for what is no plain selector. Pure. */
export function filtered(query: string, labels: Labels): string | null {
  let selector = parseSelector(query);
  if (selector === null) return null;
  for (const [name, value] of Object.entries(labels)) {
    // A matcher of this label that is there already would be widened: the row's value takes its place.
    selector = { ...selector, matchers: selector.matchers.filter((one) => one.label !== name) };
    if (!isChosen(selector, name, value)) selector = toggle(selector, name, value);
  }
  return formatSelector(selector);
}

export class ExplainPanel {
  private shown = "";
  private abort = new AbortController();
  private readonly title = el("h2", {});
  private readonly note = el("p", { class: "slow-note", "aria-live": "polite" });
  private readonly body = el("div", { class: "explain-body" });
  private readonly related = el("div", { class: "explain-related", "aria-live": "polite" });

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: { filter(query: string): void; close(): void },
  ) {
    const close = el("button", { type: "button", class: "ghost", title: "Close (Escape)", "aria-label": "Close the explanation", click: () => handlers.close() }, "✕");
    parent.append(el("div", { class: "slow-head" }, this.title, this.note, close), el("div", { class: "explain-scroll" }, this.body, this.related));
  }

  /** Explains a box of what is in view from `start` to `end`; none closes the panel. */
  async show(query: string, area: Area | null, view: { start: number; end: number }, unit: string): Promise<void> {
    this.parent.hidden = area === null;
    const wanted = area === null ? "" : JSON.stringify([query, area]);
    // The unit of a link's picture is known only once its columns have come.
    if (area !== null) this.title.textContent = `What is different between ${formatClock(area.start)} and ${formatClock(area.end)}, ${formatBounds(area.lo, area.hi, unit)}`;
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.abort.abort();
    if (area === null) return;
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.note.textContent = "Asking…";
    this.body.replaceChildren();
    this.related.replaceChildren();
    const around = { start: Math.min(view.start, area.start), end: Math.max(view.end, area.end) };
    try {
      const { data } = await fetchExplanation(query, around, area, signal);
      if (signal.aborted) return;
      this.draw(query, data);
      const related = await fetchRelated(query, around, area, signal);
      if (!signal.aborted) this.drawRelated(related.data);
    } catch (cause) {
      if (signal.aborted) return;
      this.shown = "";
      this.note.textContent = cause instanceof ApiError ? cause.message : String(cause);
    }
  }

  private drawRelated(data: Related): void {
    const of = data.job.length === 0 ? "" : ` of ${data.job.join(", ")}`;
    const title = el("h3", {}, `What else${of} changed at that time`);
    if (data.rows.length === 0) {
      const note = data.compared === 0 ? "There are no other histograms." : `None of ${formatCount(data.compared)} other histograms, by more than chance explains.`;
      return this.related.replaceChildren(title, el("p", {}, note));
    }
    const head = el("tr", {}, ...["Histogram", "What changed", "Then", "Else"].map((text) => el("th", { scope: "col" }, text)));
    const rows = data.rows.map((row) =>
      el(
        "tr",
        { "data-related": row.name },
        el("th", { scope: "row" }, el("button", { type: "button", class: "link", title: `Look at ${row.query}`, click: () => this.handlers.filter(row.query) }, row.name)),
        el("td", { title: row.sentence }, row.words),
        el("td", {}, formatCount(row.inside)),
        el("td", {}, formatCount(row.outside)),
      ),
    );
    this.related.replaceChildren(title, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
  }

  private draw(query: string, data: Explained): void {
    const cut = data.complete ? "" : "; some values were left out";
    this.note.textContent = `${formatCount(data.inside)} samples in the box, ${formatCount(data.outside)} elsewhere, ${formatCount(data.series)} series, ${formatCount(data.compared)} values compared${cut}`;
    if (data.rows.length === 0) {
      const why = data.inside === 0 ? "No sample lies in the box." : "No label value is more frequent in the box than elsewhere by more than chance explains.";
      return this.body.replaceChildren(el("p", {}, why));
    }
    const head = el("tr", {}, ...["Label", "In the box", "Elsewhere", "More by"].map((text) => el("th", { scope: "col" }, text)));
    const rows = data.rows.map((row) => {
      const name = rowName(row.labels);
      const to = filtered(query, row.labels);
      const label = to === null ? name : el("button", { type: "button", class: "link", title: `Only these series: ${to}`, click: () => this.handlers.filter(to) }, name);
      const share = (part: number, count: number): HTMLElement => {
        const bar = el("span", { class: "bar-of" });
        bar.style.width = `calc(${part.toFixed(4)} * (100% - 16px))`;
        return el("td", { title: `${formatCount(count)} samples` }, bar, `${formatShare(part)} · ${formatCount(count)}`);
      };
      const [low, high] = row.difference;
      const points = (part: number): string => (Math.max(-1, Math.min(1, part)) * 100).toFixed(1);
      return el("tr", { "data-row": name }, el("th", { scope: "row" }, label), share(row.share_inside, row.inside), share(row.share_outside, row.outside), el("td", {}, `${points(low)} to ${points(high)} points`));
    });
    this.body.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
  }
}
