/** The query box: Enter runs, arrows walk through earlier expressions, a refusal is shown where it happened. */

import { byId, el, icon } from "./dom.ts";
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

  constructor(private readonly run: (query: string) => void) {
    this.history = readHistory();
    this.button.append(icon("M8 4.5v3.7l2.5 1.5", "M2.5 8a5.5 5.5 0 1 0 1.8-4.1L2.5 5.5", "M2.5 2.5v3h3"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit(this.input.value);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
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
    this.problem.replaceChildren(...parts);
  }

  private submit(query: string): void {
    this.open(false);
    if (query.trim() !== "") this.run(query.trim());
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.open(false);
      this.input.blur();
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
