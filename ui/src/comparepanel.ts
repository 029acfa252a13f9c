/**
 * How the distribution in view differs from that of another time or of another expression: the server's verdict with its significance,
 * and each quantile of both.
 *
 * Invariants: what is shown belongs to the last range; an answer for an earlier one is thrown away.
 */

import { ApiError, fetchComparison, type ChangedQuantile, type Comparison } from "./api.ts";
import { comparedText, USUAL, type Compared } from "./compared.ts";
import { el } from "./dom.ts";
import { formatClock, formatCount, formatDate, formatValue, parseDuration } from "./format.ts";
import { parseInstant } from "./state.ts";

/** What is compared: two ranges of one length. */
export interface Wanted {
  readonly query: string;
  readonly group: string | null;
  readonly start: number;
  readonly end: number;
  readonly offset: number;
}

/** The server's words of two ranges, for two expressions over one range. Pure. */
export function overlaidWords(sentence: string): string {
  return sentence.replace(/\bneither range\b/, "neither").replace(/\bthe range before\b|\bbefore\b/g, "the other").replace(/\bthe range after\b|\bafter\b/g, "this");
}

/** What somebody writes as another time: `3h`, or an instant; null for what is neither. Pure. */
export function parseOther(text: string): Compared | null {
  // So many digits alone are an instant, and not a length.
  const seconds = /^\s*\d{9,}/.test(text) ? null : parseDuration(text.trim().replace(/\s+ago$/, ""));
  if (seconds !== null && seconds > 0) return { ago: seconds };
  const from = parseInstant(text);
  return from === null ? null : { from };
}

/** A change with its bounds, `+4.1 % (+3.2 to +5.0)`. Pure. */
export function changeText({ change, bounds }: ChangedQuantile): string {
  if (change === null) return "–";
  // With as many digits as distinguish the bounds.
  const digits = Math.abs(change) < 0.0995 || (bounds !== null && bounds[1] - bounds[0] < 0.02) ? 1 : 0;
  const percent = (share: number): string => `${share < 0 ? "−" : "+"}${Math.abs(share * 100).toFixed(digits)}`;
  return bounds === null ? `${percent(change)} % (too few samples to bound it)` : `${percent(change)} % (${percent(bounds[0])} to ${percent(bounds[1])})`;
}

export class ComparePanel {
  private asked = "";
  private abort = new AbortController();
  private readonly title = el("h2", {});
  private readonly note = el("p", { class: "slow-note", "aria-live": "polite" });
  private readonly body = el("div", { class: "explain-body" });
  private readonly other = el("input", { type: "text", "aria-label": "Another time to compare with", placeholder: "3h, or 2026-11-22 10:00", spellcheck: false });

  private readonly times = el("form", { class: "compare-with", submit: (event: Event) => this.take(event) });
  private readonly overs = el("form", { class: "compare-with", submit: (event: Event) => this.takeOver(event) });
  private readonly choices = el("span", { class: "choices" });
  private readonly expression = el("input", { type: "text", class: "wide", "aria-label": "Another expression to lay over", placeholder: 'http_seconds{route="/items"}', spellcheck: false });
  private offered = "";

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: { compare(compared: Compared | null): void; counterparts(signal: AbortSignal): Promise<string[]> },
  ) {
    const choices = USUAL.map(([ago, text]) => el("button", { type: "button", "data-ago": ago, click: () => handlers.compare({ ago }) }, text));
    this.times.append(...choices, this.other, el("button", { type: "submit" }, "Compare"));
    this.overs.append(this.choices, this.expression, el("button", { type: "submit" }, "Lay over"));
    const close = el("button", { type: "button", class: "ghost", title: "Close", "aria-label": "Close the comparison", click: () => handlers.compare(null) }, "✕");
    parent.append(el("div", { class: "slow-head" }, this.title, this.note, close), this.times, this.overs, this.body);
  }

  private take(event: Event): void {
    event.preventDefault();
    const compared = parseOther(this.other.value);
    this.other.setAttribute("aria-invalid", String(compared === null));
    if (compared === null) this.note.textContent = "Write how long ago, such as 3h, or the time from which on, such as 2026-11-22 10:00.";
    else this.handlers.compare(compared);
  }

  private takeOver(event: Event): void {
    event.preventDefault();
    const over = this.expression.value.trim();
    if (over !== "") this.handlers.compare({ over });
  }

  /** Offers what else there is of the same route. */
  private async offer(over: string, wanted: Wanted): Promise<void> {
    for (const button of this.choices.querySelectorAll<HTMLElement>("[data-over]")) button.setAttribute("aria-pressed", String(button.dataset["over"] === over));
    const key = JSON.stringify([wanted.query, over === "" ? wanted.end : null]);
    if (key === this.offered || (over !== "" && this.choices.childElementCount > 0)) return;
    this.offered = key;
    const { signal } = this.abort;
    const found = await this.handlers.counterparts(signal).catch((): string[] => []);
    if (signal.aborted) return;
    const button = (query: string): HTMLElement => el("button", { type: "button", "data-over": query, "aria-pressed": String(query === over), click: () => this.handlers.compare({ over: query }) }, query);
    this.choices.replaceChildren(...found.map(button));
    if (over === "" && found.length === 0) this.note.textContent = "No other distribution has this route in its label route, http_route, handler, path or endpoint: write an expression.";
  }

  hide(): void {
    this.parent.hidden = true;
    this.asked = this.offered = "";
    this.choices.replaceChildren();
    this.abort.abort();
  }

  async show(compared: Compared, wanted: Wanted, unit: string): Promise<void> {
    this.parent.hidden = false;
    for (const button of this.parent.querySelectorAll<HTMLElement>("[data-ago]")) button.setAttribute("aria-pressed", String("ago" in compared && String(compared.ago) === button.dataset["ago"]));
    const key = JSON.stringify([compared, wanted]);
    if (key === this.asked) return;
    this.asked = key;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const over = "over" in compared ? compared.over : null;
    this.times.hidden = over !== null;
    this.overs.hidden = over === null;
    if (over !== null) void this.offer(over, wanted);
    if (over === "") {
      this.title.textContent = "Lay another distribution over this one";
      this.note.textContent = "";
      return this.body.replaceChildren();
    }
    this.title.textContent = over === null ? `Compared with ${comparedText(compared)}` : `${over} over it`;
    try {
      const { data, warnings } = await fetchComparison(wanted.query, wanted.group, wanted.start, wanted.end, wanted.offset, over, signal);
      if (!signal.aborted) this.draw(data, warnings, unit, over);
    } catch (cause) {
      if (signal.aborted) return;
      this.asked = "";
      this.body.replaceChildren();
      this.note.textContent = cause instanceof ApiError ? cause.message : String(cause);
    }
  }

  private draw(data: Comparison, warnings: readonly string[], unit: string, over: string | null): void {
    const { before, after } = data;
    const sentence = over === null ? data.sentence : overlaidWords(data.sentence);
    const words = data.verdict === "none" ? sentence : `${sentence}: ${data.words}`;
    const floors = data.times === null ? "" : ` · the distance is ${data.times.toFixed(1)} times its noise floor`;
    this.note.textContent = `${formatDate(before.start)} ${formatClock(before.start)} – ${formatClock(before.end)}${floors}`;
    const verdict = el("p", { class: `verdict ${data.verdict}`, "data-verdict": data.verdict }, words);
    const head = el("tr", {}, ...(over === null ? ["Of", "Before", "Now", "Change, 95 %"] : ["Of", "The other, dashed", "This", "From the other to this, 95 %"]).map((text) => el("th", { scope: "col" }, text)));
    const row = (name: string, key: string, was: string, is: string, change: string): HTMLElement =>
      el("tr", { "data-row": key }, el("th", { scope: "row" }, name), el("td", {}, was), el("td", {}, is), el("td", {}, change));
    const counts = row("samples", "count", formatCount(before.count), formatCount(after.count), before.count > 0 ? changeText({ change: after.count / before.count - 1, bounds: null } as ChangedQuantile).replace(/ \(.*/, "") : "–");
    const rows = data.quantiles.map((one) => {
      const name = `p${Number((one.q * 100).toFixed(4))}`;
      const line = row(name, name, formatValue(one.before[0], unit, 4), formatValue(one.after[0], unit, 4), one.differs === false ? `the same · ${changeText(one)}` : changeText(one));
      line.classList.toggle("differs", one.differs === true);
      return line;
    });
    const notes = warnings.map((text) => el("p", { class: "note" }, text));
    this.body.replaceChildren(verdict, el("table", {}, el("thead", {}, head), el("tbody", {}, counts, ...rows)), ...notes);
  }
}
