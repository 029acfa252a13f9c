/** The searchable list of what the server holds; the chosen one opens into its labels and their values. */

import { fetchLabels, fetchLabelValues, fetchMetadata, type Metadata } from "./api.ts";
import type { Offer } from "./complete.ts";
import { el, icon } from "./dom.ts";
import { formatSelector, isChosen, parseSelector, toggle } from "./selector.ts";

export interface Entry {
  readonly name: string;
  readonly meta: Metadata | undefined;
}

/** Values of one label that are shown before "and n more". */
const VALUES_MAX = 30;
/** Entries that are drawn; the search narrows the rest down. */
const ENTRIES_MAX = 500;

const GROUPS: readonly [string, string][] = [
  ["histogram", "Histograms"],
  ["counter", "Counters"],
  ["gauge", "Gauges"],
  ["text", "Texts"],
  ["", "Others"],
];

const GLYPHS: Record<string, string[]> = {
  histogram: ["M2.5 13.5v-3M5.5 13.5V7M8.5 13.5V2.5M11.5 13.5V6M14 13.5v-2"],
  counter: ["M2 13.5c3 0 3.5-3 6-3s3-4.5 6-8"],
  gauge: ["M1.5 9c2-6 3.5-6 5 0s3 4.5 4.5 0S13 5 14.5 6"],
  text: ["M3 4h10M3 8h10M3 12h6"],
  "": ["M3 12.5 8 3.5l5 9z"],
};

/** Words of the search must all occur, in any order, in the name or the help. Pure. */
export function matches(entry: Entry, search: string): boolean {
  const text = `${entry.name} ${entry.meta?.help ?? ""}`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Buckets of a classic histogram: together they are a distribution, whatever is known of each. Pure. */
export function isBuckets(name: string): boolean {
  return name.endsWith("_bucket");
}

/** The expression that a click on an entry writes: a counter alone only ever climbs, so its rate is asked for. Pure. */
export function expressionFor(entry: Entry): string {
  if (isBuckets(entry.name)) return entry.name;
  return entry.meta?.type === "counter" ? `rate(${entry.name}[1m])` : entry.name;
}

/** A name that may be broken after its underscores and colons. */
function breakable(name: string): Node[] {
  return name.split(/(?<=[_:.])/).flatMap((part) => [document.createTextNode(part), document.createElement("wbr")]);
}

export class Picker {
  private entries: Entry[] = [];
  private labels = new Map<string, string[]>();
  private labelsOf = "";
  private query = "";
  private failure = "";
  private readonly search = el("input", { type: "search", placeholder: "Search series", "aria-label": "Search series" });
  private readonly list = el("div", { class: "list" });

  constructor(
    parent: HTMLElement,
    private readonly choose: (query: string) => void,
  ) {
    const glass = icon("M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9z", "M10.5 10.5 14 14");
    parent.append(el("div", { class: "find" }, glass, this.search), this.list);
    this.search.addEventListener("input", () => this.draw());
    this.search.addEventListener("keydown", (event) => {
      const first = this.entries.find((entry) => matches(entry, this.search.value));
      if (event.key === "Enter" && first !== undefined) this.choose(expressionFor(first));
      if (event.key === "ArrowDown") this.list.querySelector<HTMLElement>("button")?.focus();
    });
    this.list.addEventListener("keydown", (event) => this.walk(event));
  }

  meta(name: string): Metadata | undefined {
    return this.entries.find((entry) => entry.name === name)?.meta;
  }

  /** Names with their help, for completion. */
  names(): Offer[] {
    return this.entries.map(({ name, meta }) => ({ name, help: meta?.help ?? "", call: false }));
  }

  has(name: string): boolean {
    return this.entries.some((entry) => entry.name === name);
  }

  /** Asks for names and what is known of them. A name without metadata is listed all the same. */
  async reload(): Promise<void> {
    try {
      const [metadata, names] = await Promise.all([fetchMetadata(), fetchLabelValues("__name__")]);
      const all = [...new Set([...names, ...Object.keys(metadata)])].sort();
      this.entries = all.map((name) => ({ name, meta: metadata[name]?.[0] }));
      this.failure = "";
    } catch (cause) {
      this.failure = cause instanceof Error ? cause.message : String(cause);
    }
    this.draw();
  }

  show(query: string): void {
    this.query = query;
    this.draw();
    const name = this.chosenName();
    if (name !== "" && name !== this.labelsOf) void this.loadLabels(name);
  }

  private chosenName(): string {
    const selector = parseSelector(this.query);
    if (selector !== null) return selector.name;
    const rate = /^rate\(([a-zA-Z_:][\w:]*)\[1m\]\)$/.exec(this.query);
    return rate?.[1] ?? "";
  }

  private async loadLabels(name: string): Promise<void> {
    this.labelsOf = name;
    this.labels = new Map();
    try {
      const labels = (await fetchLabels(name)).filter((label) => label !== "__name__");
      const values = await Promise.all(labels.map((label) => fetchLabelValues(label, name)));
      if (this.labelsOf !== name) return;
      this.labels = new Map(labels.map((label, i) => [label, values[i] as string[]]));
      this.draw();
    } catch {
      // The list works without; the next choice asks again.
      this.labelsOf = "";
    }
  }

  private draw(): void {
    const found = this.entries.filter((entry) => matches(entry, this.search.value));
    const parts: Node[] = [];
    const known = new Set(GROUPS.map(([type]) => type));
    for (const [type, title] of GROUPS) {
      const group = found.filter((entry) => (known.has(entry.meta?.type ?? "") ? (entry.meta?.type ?? "") : "") === type);
      if (group.length === 0) continue;
      parts.push(el("div", { class: "group" }, title));
      for (const entry of group.slice(0, ENTRIES_MAX)) parts.push(...this.item(entry));
      if (group.length > ENTRIES_MAX) parts.push(el("div", { class: "note" }, `and ${group.length - ENTRIES_MAX} more: search to narrow them down`));
    }
    if (this.failure !== "") parts.unshift(el("div", { class: "note" }, this.failure));
    else if (parts.length === 0) parts.push(el("div", { class: "note" }, this.entries.length === 0 ? "No series yet." : "No series has these words in its name or help."));
    const focused = [...this.list.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement);
    const { scrollTop } = this.list;
    this.list.replaceChildren(...parts);
    this.list.scrollTop = scrollTop;
    if (focused >= 0) this.list.querySelectorAll("button")[focused]?.focus();
  }

  private item(entry: Entry): Node[] {
    const current = entry.name === this.chosenName();
    const glyph = icon(...(GLYPHS[entry.meta?.type ?? ""] ?? (GLYPHS[""] as string[])));
    const button = el(
      "button",
      { class: "item", type: "button", title: entry.meta?.help ?? "", "aria-current": String(current), click: () => this.choose(expressionFor(entry)) },
      glyph,
      el("span", {}, ...breakable(entry.name)),
    );
    const selector = parseSelector(this.query);
    if (!current || selector === null || this.labels.size === 0) return [button];
    const box = el("div", { class: "labels" });
    for (const [label, values] of this.labels) {
      const chips = values.slice(0, VALUES_MAX).map((value) =>
        el("button", { class: "chip", type: "button", "aria-pressed": String(isChosen(selector, label, value)), click: () => this.choose(formatSelector(toggle(selector, label, value))) }, value),
      );
      const more = values.length > VALUES_MAX ? [el("span", { class: "note" }, `and ${values.length - VALUES_MAX} more`)] : [];
      box.append(el("h3", {}, label), el("div", { class: "values" }, ...chips, ...more));
    }
    return [button, box];
  }

  private walk(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const buttons = [...this.list.querySelectorAll<HTMLElement>("button")];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const next = buttons[at + (event.key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    (next ?? this.search).focus();
  }
}
