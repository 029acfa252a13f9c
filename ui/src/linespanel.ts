/**
 * Stored lines of the chosen part of the picture, below it: searched, with their severity and their fields.
 *
 * Invariants: what is shown belongs to the last `show`; an answer to an earlier one is dropped. The address is written by the owner, so
 * that a link shows the same lines. Lines of the job, host or process that the picture names come first; where those have none, all lines
 * are shown and the note says so.
 */

import { fetchLogColumns, fetchLogs } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatCount } from "./format.ts";
import { barText, barsOf, formatLogState, gridOf, stepOf, withField, type LogColumns, type LogLines } from "./loglines.ts";
import { lineRow, type RowHandlers } from "./logrow.ts";
import { parseSelector, quote } from "./selector.ts";
import type { Span } from "./state.ts";

const PAGE = "100";
const BARS_MAX = 60;

/** Labels that say where something runs: lines and measurements of one process usually share them. */
const PLACES = ["job", "instance", "host", "service", "service_name", "namespace", "pod", "container"];

/** A selector of lines that come from where the picture's series come from; empty when the expression names no such place. Pure. */
export function placeOf(query: string): string {
  const matchers = parseSelector(query)?.matchers.filter(({ label, op }) => op === "=" && PLACES.includes(label)) ?? [];
  return matchers.length === 0 ? "" : `{${matchers.map(({ label, value }) => `${label}=${quote(value)}`).join(", ")}}`;
}

type Grid = Span & { readonly step: number };

export interface LinesHandlers {
  close(): void;
  search(text: string): void;
}

export class LinesPanel {
  private shown = "";
  private abort = new AbortController();
  private next: string | null = null;
  private asked: Record<string, string> = {};
  private search = "";
  private readonly title = el("h2", {});
  private readonly note = el("p", { class: "slow-note", role: "status" });
  private readonly input = el("input", { type: "text", "aria-label": "Search the lines", placeholder: 'Words, "phrases", /regex/, field=value', spellcheck: false, autocapitalize: "off" });
  private readonly page = el("a", { class: "tab", title: "The same lines on the page of lines" }, "All of them");
  private readonly bars = el("div", { class: "log-bars", "aria-hidden": "true" });
  private readonly list = el("div", { class: "log-lines", tabindex: 0, role: "region", "aria-label": "Lines, the newest first" });
  private readonly older = el("button", { type: "button", hidden: true, click: () => void this.more() }, "Older lines");
  private readonly rows: RowHandlers;

  constructor(
    private readonly parent: HTMLElement,
    handlers: LinesHandlers,
  ) {
    this.rows = {
      field: (name, value) => handlers.search(withField(this.search, name, value)),
      series: (match) => location.assign(`logs.html${formatLogState({ search: this.search, match, range: { start: Number(this.asked["start"]), end: Number(this.asked["end"]) } })}`),
    };
    const form = el("form", { class: "lines-search", submit: (event: Event) => (event.preventDefault(), handlers.search(this.input.value.trim())) }, this.input, el("button", { type: "submit" }, "Search"));
    const close = el("button", { type: "button", class: "ghost", title: "Close (Escape)", "aria-label": "Close the lines", click: () => handlers.close() }, "✕");
    parent.append(el("div", { class: "slow-head" }, this.title, this.note, form, this.page, close), this.bars, el("div", { class: "lines-scroll" }, this.list, this.older));
  }

  async show(query: string, span: Span | null, search: string): Promise<void> {
    this.parent.hidden = span === null;
    const wanted = span === null ? "" : JSON.stringify([query, span, search]);
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.abort.abort();
    if (span === null) return;
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.search = this.input.value = search;
    // Whole bars, so that what they count are the lines of the list.
    const step = stepOf(span.end - span.start, BARS_MAX);
    const grid = { ...gridOf(span, step), step };
    this.title.textContent = `Lines, ${formatClock(grid.start)} – ${formatClock(grid.end)}`;
    this.note.textContent = "Asking…";
    try {
      const place = placeOf(query);
      const near = await this.ask(grid, search, place, signal);
      const found = place !== "" && near.lines.series === 0 ? await this.ask(grid, search, "", signal) : near;
      if (!signal.aborted) this.draw(found, place, grid);
    } catch (cause) {
      if (signal.aborted) return;
      this.shown = "";
      this.note.textContent = cause instanceof Error ? cause.message : String(cause);
    }
  }

  private async ask(grid: Grid, search: string, match: string, signal: AbortSignal): Promise<{ lines: LogLines; columns: LogColumns; match: string }> {
    const of = { query: search, ...(match === "" ? {} : { match }) };
    const params = { ...of, start: String(grid.start), end: String(grid.end), limit: PAGE };
    const [lines, columns] = await Promise.all([fetchLogs(params, signal), fetchLogColumns({ ...of, start: String(grid.start + grid.step), end: String(grid.end), step: String(grid.step) }, signal)]);
    this.asked = params;
    return { lines: lines.data, columns: columns.data, match };
  }

  private draw({ lines, columns, match }: { lines: LogLines; columns: LogColumns; match: string }, place: string, grid: Grid): void {
    const bars = barsOf(columns, grid.start, grid.end, grid.step).map((bar) =>
      el("span", { class: bar.unknown ? "log-bar not-counted" : "log-bar", title: barText(bar, formatClock), "data-count": bar.total }, ...bar.parts.map(({ severity, height }) => el("i", { class: severity, style: `height:${height * 100}%` })).reverse()),
    );
    this.bars.replaceChildren(...bars);
    this.list.replaceChildren(...lines.lines.map((line) => lineRow(line, this.rows)));
    this.page.setAttribute("href", `logs.html${formatLogState({ search: this.search, match, range: { start: grid.start, end: grid.end } })}`);
    const total = columns.columns.reduce((sum, [, counts]) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
    const of = match !== "" ? ` of ${match}` : place !== "" ? `; ${place} has none of this time, so these are of all series` : "";
    const why = lines.series === 0 ? "No lines are stored of this time" : "No line of this time matches";
    this.note.textContent = lines.lines.length === 0 && lines.next === null ? `${why}${of}.` : `${formatCount(lines.lines.length)} of ${formatCount(total)}${columns.partial ? " or more" : ""} lines${of}`;
    this.continueAt(lines.next);
  }

  private continueAt(next: string | null): void {
    this.next = next;
    this.older.hidden = next === null;
  }

  private async more(): Promise<void> {
    if (this.next === null) return;
    const { signal } = this.abort;
    this.older.setAttribute("disabled", "");
    try {
      const { data } = await fetchLogs({ ...this.asked, cursor: this.next }, signal);
      if (signal.aborted) return;
      this.list.append(...data.lines.map((line) => lineRow(line, this.rows)));
      this.continueAt(data.next);
    } catch (cause) {
      if (!signal.aborted) this.note.textContent = cause instanceof Error ? cause.message : String(cause);
    } finally {
      this.older.removeAttribute("disabled");
    }
  }
}
