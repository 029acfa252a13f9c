/**
 * The query box: Enter runs, arrows walk through earlier expressions, a refusal is shown where it happened.
 *
 * Invariants: Enter always runs what is written; a completion is taken by Tab or a click, or by Enter after an arrow
 * has chosen it.
 */

import { FUNCTIONS, offers, take, type Offer } from "./complete.ts";
import { byId, el, icon } from "./dom.ts";
import { nearest } from "./near.ts";
import { recall, remember } from "./theme.ts";

const KEY = "ogive.history";
/** Enough for a day's work; the oldest leave. */
const HISTORY_MAX = 50;

/** Place of a refusal, from the `line:column` that it begins with or contains; `null` when it has none. Pure. */
export function errorPosition(message: string, query: string): { from: number; to: number } | null {
  const found = /(?:^|[\s(])(\d+):(\d+)\b/.exec(message);
  if (found === null) return null;
  const lines = query.split("\n");
  const line = Number(found[1]) - 1;
  const column = Number(found[2]) - 1;
  if (line < 0 || line >= lines.length || column < 0 || column > (lines[line] as string).length) return null;
  const from = lines.slice(0, line).reduce((sum, text) => sum + text.length + 1, 0) + column;
  const word = /^[\w:]+|^./.exec(query.slice(from));
  return { from, to: from + (word?.[0].length ?? 0) };
}

/** Newest first, without doubles, at most `HISTORY_MAX`. Pure. */
export function withEntry(history: readonly string[], query: string): string[] {
  return [query, ...history.filter((one) => one !== query)].slice(0, HISTORY_MAX);
}

export class QueryBox {
  private readonly input = byId<HTMLInputElement>("query");
  private readonly form = byId<HTMLFormElement>("query-form");
  private readonly problem = byId("query-error");
  private readonly menu = byId("history");
  private readonly button = byId<HTMLButtonElement>("history-button");
  private history: string[];
  private at = -1;

  private offered: Offer[] = [];
  private chosen = -1;

  constructor(
    private readonly run: (query: string) => void,
    private readonly names: () => readonly Offer[],
  ) {
    this.history = readHistory();
    this.button.append(icon("M8 4.5v3.7l2.5 1.5", "M2.5 8a5.5 5.5 0 1 0 1.8-4.1L2.5 5.5", "M2.5 2.5v3h3"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(this.input.value);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("input", () => this.offer());
    this.button.addEventListener("click", () => this.open(this.menu.hidden === true));
    document.addEventListener("pointerdown", (event) => {
      if (!this.form.contains(event.target as Node)) this.open(false);
    });
  }

  show(query: string): void {
    if (document.activeElement !== this.input || this.input.value.trim() === "") this.input.value = query;
    else if (this.input.value !== query) this.input.value = query;
    this.at = -1;
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  /** Notes an expression that the server took. */
  keep(query: string): void {
    this.history = withEntry(this.history, query);
    remember(KEY, JSON.stringify(this.history));
  }

  fail(message: string | null, query: string): void {
    this.form.classList.toggle("wrong", message !== null);
    this.input.setAttribute("aria-invalid", String(message !== null));
    this.problem.hidden = message === null;
    if (message === null) return;
    const place = errorPosition(message, query);
    const parts: Node[] = [el("strong", {}, message)];
    if (place !== null) {
      const marked = query.slice(place.from, place.to);
      parts.push(el("pre", {}, query.slice(0, place.from), el("mark", {}, marked === "" ? " ⟵ here" : marked), query.slice(place.to)));
    }
    const wrong = place === null ? "" : query.slice(place.from, place.to);
    const meant = nearest(wrong, [...FUNCTIONS.map(([name]) => name), ...this.names().map(({ name }) => name)]);
    if (place !== null && meant !== null) {
      const mended = query.slice(0, place.from) + meant + query.slice(place.to);
      parts.push(el("button", { type: "button", class: "link", click: () => this.run(mended) }, `Did you mean ${meant}?`));
    }
    this.problem.replaceChildren(...parts);
  }

  private submit(query: string): void {
    this.open(false);
    if (query.trim() !== "") this.run(query.trim());
  }

  /** Lists what could come at the caret. */
  private offer(): void {
    this.offered = offers(this.input.value, this.input.selectionStart ?? 0, this.names());
    this.chosen = -1;
    this.drawOffers();
  }

  private drawOffers(): void {
    const entries = this.offered.map((offer, i) =>
      // `pointerdown`, since a click would first take the focus away from the box.
      el(
        "button",
        { type: "button", role: "option", tabindex: -1, "aria-selected": String(i === this.chosen), pointerdown: (event: Event) => this.take(event, offer) },
        offer.name,
        el("small", {}, offer.help),
      ),
    );
    this.menu.replaceChildren(...entries);
    this.menu.hidden = entries.length === 0;
  }

  private take(event: Event, offer: Offer): void {
    event.preventDefault();
    const { text, caret } = take(this.input.value, this.input.selectionStart ?? this.input.value.length, offer);
    this.input.value = text;
    this.input.setSelectionRange(caret, caret);
    this.offered = [];
    this.drawOffers();
  }

  /** True when the key was for the list of completions. */
  private offerKey(event: KeyboardEvent): boolean {
    if (this.offered.length === 0 || this.menu.hidden === true) return false;
    const way = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (way !== 0) {
      event.preventDefault();
      this.chosen = Math.max(-1, Math.min(this.offered.length - 1, this.chosen + way));
      this.drawOffers();
      return true;
    }
    const wanted = event.key === "Tab" ? Math.max(0, this.chosen) : event.key === "Enter" ? this.chosen : -1;
    const offer = this.offered[wanted];
    if (offer === undefined) return false;
    this.take(event, offer);
    return true;
  }

  private key(event: KeyboardEvent): void {
    if (this.offerKey(event)) return;
    if (event.key === "Escape") {
      if (this.menu.hidden === true) this.input.blur();
      this.open(false);
      return;
    }
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    const next = this.at + (event.key === "ArrowUp" ? 1 : -1);
    if (next < -1 || next >= this.history.length) return;
    event.preventDefault();
    this.at = next;
    this.input.value = next === -1 ? "" : (this.history[next] as string);
  }

  private open(open: boolean): void {
    this.offered = [];
    if (open) {
      const entries = this.history.map((query) => el("button", { type: "button", role: "option", click: () => this.submit(query) }, query));
      this.menu.replaceChildren(...(entries.length > 0 ? entries : [el("div", { class: "note" }, "Expressions that you run are kept here, in this browser only.")]));
    }
    this.menu.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
  }
}

function readHistory(): string[] {
  try {
    const kept: unknown = JSON.parse(recall(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one): one is string => typeof one === "string").slice(0, HISTORY_MAX) : [];
  } catch {
    return [];
  }
}
