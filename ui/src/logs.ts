/**
 * The page of stored lines: a search, how many lines there are over time, and the lines.
 *
 * Invariants: `state` is what the address says; what is shown belongs to the last question (`turn`).
 * Failure: what is wrong with a search is said above the lines of before; a range that moves with the clock is asked for again, unless
 * somebody reads: a line is open, or older ones were asked for.
 */

import "./style.css";
import { fetchLogColumns, fetchLogs, serverNow } from "./api.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatCount, formatValue } from "./format.ts";
import { barText, barsOf, formatLogState, gridOf, parseLogState, stepOf, withField, type LogBar, type LogColumns, type LogLines, type LogState } from "./loglines.ts";
import { lineRow } from "./logrow.ts";
import { drawNotices } from "./notices.ts";
import { RangeBox } from "./rangebox.ts";
import { isLive } from "./state.ts";
import { useTheme } from "./themebutton.ts";

const PAGE = "200";
const BARS_MAX = 90;
const AGAIN_MS = 5_000;

class LogPage {
  private state = parseLogState(location.search);
  private turn = 0;
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private next: string | null = null;
  /** Older lines were asked for: the list is not replaced. */
  private reads = false;
  private shown: { start: number; end: number } = { start: 0, end: 0 };
  private bars: LogBar[] = [];
  private readonly rows = {
    field: (name: string, value: string): void => this.change({ search: withField(this.state.search, name, value) }),
    series: (match: string): void => this.change({ match }),
  };
  private readonly ranges = new RangeBox((range) => this.change({ range }), () => this.span());

  constructor() {
    useTheme();
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.change({ search: byId<HTMLInputElement>("search").value.trim(), match: byId<HTMLInputElement>("match").value.trim() });
    });
    byId("older").addEventListener("click", () => void this.older());
    window.addEventListener("popstate", () => {
      this.state = parseLogState(location.search);
      this.load();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.again());
    this.listenToBars();
    this.load();
  }

  private change(part: Partial<LogState>): void {
    this.state = { ...this.state, ...part };
    history.pushState(null, "", location.pathname + formatLogState(this.state));
    this.load();
  }

  private span(): { start: number; end: number } {
    const { range } = this.state;
    if (!isLive(range)) return range;
    const end = Math.ceil(serverNow()) + 1;
    return { start: end - range.last, end };
  }

  private load(): void {
    const { state } = this;
    byId<HTMLInputElement>("search").value = state.search;
    byId<HTMLInputElement>("match").value = state.match;
    this.ranges.show(state.range);
    document.title = state.search === "" ? "Ogive logs" : `${state.search} · Ogive logs`;
    this.reads = false;
    void this.ask();
  }

  private params(): Record<string, string> {
    const { search, match } = this.state;
    return { query: search, ...(match === "" ? {} : { match }) };
  }

  private async ask(): Promise<void> {
    const turn = ++this.turn;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    clearTimeout(this.timer);
    const span = this.span();
    const step = stepOf(span.end - span.start, BARS_MAX);
    const grid = gridOf(span, step);
    const lines = fetchLogs({ ...this.params(), start: String(span.start), end: String(span.end), limit: PAGE }, signal);
    const columns = fetchLogColumns({ ...this.params(), start: String(grid.start + step), end: String(grid.end), step: String(step) }, signal);
    try {
      const [found, counted] = await Promise.all([lines, columns]);
      if (turn !== this.turn) return;
      this.shown = span;
      byId("search-error").hidden = true;
      drawNotices(byId("notices"), [...found.warnings, ...counted.warnings], []);
      this.drawBars(counted.data, grid, step);
      byId("lines").replaceChildren(...found.data.lines.map((line) => lineRow(line, this.rows)));
      this.say(found.data, counted.data);
    } catch (cause) {
      if (turn !== this.turn || (cause instanceof DOMException && cause.name === "AbortError")) return;
      byId("search-error").hidden = false;
      byId("search-error").textContent = cause instanceof Error ? cause.message : String(cause);
    }
    this.again();
  }

  /** Asks again in a while when the range moves and nobody reads. */
  private again(): void {
    clearTimeout(this.timer);
    if (!isLive(this.state.range)) return;
    this.timer = setTimeout(() => {
      const isRead = this.reads || document.querySelector(".log-line[open]") !== null || document.hidden;
      if (isRead) this.again();
      else void this.ask();
    }, AGAIN_MS);
  }

  private say(lines: LogLines, columns: LogColumns | null): void {
    this.next = lines.next;
    byId("older").hidden = lines.next === null;
    const shown = byId("lines").childElementCount;
    const total = columns?.columns.reduce((sum, [, counts]) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
    if (columns !== null) byId("found").dataset["total"] = `${formatCount(total ?? 0)}${columns.partial ? " or more" : ""}`;
    const all = byId("found").dataset["total"] ?? "";
    const looked = lines.partial ? `; ${formatValue(lines.scanned_bytes, "By")} were looked at, older lines are found by the button below` : "";
    const none = lines.series === 0 ? "No series of lines has any here. Log records of OTLP and texts of batches are lines." : "No line of this time matches.";
    byId("found").textContent = shown === 0 && lines.next === null ? none : `${formatCount(shown)} of ${all} lines${looked}`;
  }

  private async older(): Promise<void> {
    if (this.next === null) return;
    this.reads = true;
    const { turn, shown } = this;
    const button = byId<HTMLButtonElement>("older");
    button.disabled = true;
    try {
      const { data } = await fetchLogs({ ...this.params(), start: String(shown.start), end: String(shown.end), limit: PAGE, cursor: this.next }, this.abort.signal);
      if (turn !== this.turn) return;
      byId("lines").append(...data.lines.map((line) => lineRow(line, this.rows)));
      this.say(data, null);
    } catch (cause) {
      if (turn !== this.turn) return;
      byId("search-error").hidden = false;
      byId("search-error").textContent = cause instanceof Error ? cause.message : String(cause);
    } finally {
      button.disabled = false;
    }
  }

  private drawBars(columns: LogColumns, grid: { start: number; end: number }, step: number): void {
    this.bars = barsOf(columns, grid.start, grid.end, step);
    const bars = this.bars.map((bar) => {
      const parts = bar.parts.map(({ severity, height }) => el("i", { class: severity, style: `height:${height * 100}%` }));
      return el("span", { class: bar.unknown ? "log-bar not-counted" : "log-bar", title: barText(bar, formatClock), "data-count": bar.total }, ...parts.reverse());
    });
    byId("bars").replaceChildren(...bars, el("em", { class: "choice", hidden: true }));
  }

  /** A click chooses a bar's time, a drag that of several. */
  private listenToBars(): void {
    const box = byId("bars");
    let from: number | null = null;
    const at = (event: PointerEvent): number => {
      const { left, width } = box.getBoundingClientRect();
      return Math.min(this.bars.length - 1, Math.max(0, Math.floor(((event.clientX - left) / Math.max(1, width)) * this.bars.length)));
    };
    const choice = (event: PointerEvent): [number, number] => [Math.min(from ?? 0, at(event)), Math.max(from ?? 0, at(event))];
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.bars.length === 0) return;
      box.setPointerCapture(event.pointerId);
      from = at(event);
    });
    box.addEventListener("pointermove", (event) => {
      const mark = box.querySelector<HTMLElement>(".choice");
      if (from === null || mark === null) return;
      const [first, last] = choice(event);
      mark.hidden = false;
      mark.style.left = `${(first / this.bars.length) * 100}%`;
      mark.style.width = `${((last - first + 1) / this.bars.length) * 100}%`;
    });
    box.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [first, last] = choice(event).map((index) => this.bars[index]);
      from = null;
      if (first !== undefined && last !== undefined) this.change({ range: { start: first.start, end: last.end } });
    });
    box.addEventListener("pointercancel", () => (from = null));
  }
}

new LogPage();
