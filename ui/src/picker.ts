/** The searchable list of what the server holds; the chosen one opens into its labels and their values. */

import { fetchInstant, fetchLabels, fetchLabelValues, fetchMetadata, fetchRange, serverNow, type Metadata } from "./api.ts";
import type { Offer } from "./complete.ts";
import { el, icon } from "./dom.ts";
import { coursesOf, GROUPINGS, inView, jobsOf, ROW_HEIGHT, rowsOf, topsOf, type Entry, type Grouping, type Row } from "./serieslist.ts";
import { formatSelector, isChosen, parseSelector, quote, selectorOf, toggle } from "./selector.ts";
import { ink, recall, remember } from "./theme.ts";

/** Values of one label that are shown before "and n more". */
const VALUES_MAX = 30;

const GROUPING_KEY = "ogive.series.by";

/** Courses are asked for when the list has stood still for so long, for so many names at once, and are old after a minute. */
const STILL_MS = 500;
const COURSES_MAX = 40;
const COURSE_SECONDS = 900;
const COURSE_OLD_MS = 60_000;
const SPARK = { width: 46, height: 16 };

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

/** A pattern that matches these names and no others, as a string of PromQL: names may have any character. Pure. */
export function patternOf(names: readonly string[]): string {
  return quote(names.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|"));
}

/** A last word that is longer is no unit and no kind. */
const END_MAX = 12;

/** A name in two parts, of which the first may be cut and the second is always seen: names differ in their last word. Pure. */
export function nameParts(name: string): string[] {
  const at = name.lastIndexOf("_");
  return at > 0 && name.length - at <= END_MAX ? [name.slice(0, at), name.slice(at)] : [name];
}

export class Picker {
  private entries: Entry[] = [];
  private labels = new Map<string, string[]>();
  private labelsOf = "";
  private query = "";
  private failure = "";
  private readonly search = el("input", { type: "search", placeholder: "Search series", "aria-label": "Search series" });
  private readonly space = el("div", { class: "space" });
  private readonly list = el("div", { class: "list" }, this.space);
  private readonly by = el("div", { class: "segments by", role: "group", "aria-label": "Series by" });
  private grouping: Grouping = GROUPINGS.find((one) => one === recall(GROUPING_KEY)) ?? "prefix";
  private rows: Row[] = [];
  private tops: Float64Array = new Float64Array(1);
  private readonly drawn = new Map<number, HTMLElement>();
  private labelBox: HTMLElement | null = null;
  private readonly courses = new Map<string, { at: number; values: number[] }>();
  private revealed = "";
  private loaded = false;
  private still: ReturnType<typeof setTimeout> | undefined;

  constructor(
    parent: HTMLElement,
    private readonly choose: (query: string) => void,
  ) {
    const glass = icon("M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9z", "M10.5 10.5 14 14");
    parent.append(el("div", { class: "find" }, glass, this.search), this.by, this.list);
    this.list.addEventListener("scroll", () => this.arrange());
    new ResizeObserver(() => this.arrange()).observe(this.list);
    this.search.addEventListener("input", () => this.draw());
    this.search.addEventListener("keydown", (event) => {
      const first = this.entries.find((entry) => matches(entry, this.search.value));
      if (event.key === "Enter" && first !== undefined) this.choose(selectorOf(first.name));
      if (event.key === "ArrowDown") this.focus(this.rows.findIndex((row) => row.kind === "item"));
    });
    this.list.addEventListener("keydown", (event) => this.walk(event));
  }

  meta(name: string): Metadata | undefined {
    return this.entries.find((entry) => entry.name === name)?.meta;
  }

  /** The type of a name; before the list has come it is asked for alone. */
  async typeOf(name: string, signal: AbortSignal): Promise<string | undefined> {
    if (this.entries.length > 0 || name === "") return this.meta(name)?.type;
    return (await fetchMetadata(name, signal).catch(() => null))?.[name]?.[0]?.type;
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
      const [metadata, names, jobs] = await Promise.all([fetchMetadata(), fetchLabelValues("__name__"), this.jobs()]);
      const all = [...new Set([...names, ...Object.keys(metadata)])].sort();
      this.entries = all.map((name) => ({ name, meta: metadata[name]?.[0], jobs: jobs.get(name) ?? [] }));
      this.failure = "";
      this.loaded = true;
    } catch (cause) {
      this.failure = cause instanceof Error ? cause.message : String(cause);
    }
    this.draw();
  }

  /** Who sends what now; asked for only while it is shown, because it counts every series. */
  private async jobs(): Promise<Map<string, string[]>> {
    if (this.grouping !== "job") return new Map();
    const { data } = await fetchInstant('count by (__name__, job) ({__name__=~".+",job!=""})', Math.floor(serverNow()));
    return jobsOf(data.resultType === "vector" ? data.result : []);
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
      const labels = (await fetchLabels(selectorOf(name))).filter((label) => label !== "__name__");
      const values = await Promise.all(labels.map((label) => fetchLabelValues(label, selectorOf(name))));
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
    this.by.replaceChildren(...GROUPINGS.map((one) => el("button", { type: "button", "data-by": one, "aria-pressed": String(this.grouping === one), click: () => this.groupBy(one) }, `by ${one}`)));
    this.labelBox = this.labelsOfChosen();
    this.rows = rowsOf(found, this.grouping, this.labelBox === null ? null : this.chosenName());
    const focused = [...this.drawn].find(([, node]) => node === document.activeElement);
    const name = focused?.[1].dataset["name"];
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
    this.space.replaceChildren();
    if (this.labelBox !== null) this.space.append(this.labelBox);
    this.tops = topsOf(this.rows, (this.labelBox?.offsetHeight ?? 0) + 10);
    this.labelBox?.remove();
    this.space.style.height = `${this.tops[this.rows.length] as number}px`;
    const note = this.failure !== "" ? this.failure : this.rows.length > 0 ? "" : !this.loaded ? "Asking for the series…" : this.entries.length === 0 ? "No series yet." : "No series has these words in its name or help.";
    if (note !== "") this.space.append(el("div", { class: "note" }, note));
    this.reveal();
    this.arrange();
    if (name !== undefined) this.focus(this.rows.findIndex((row) => row.kind === "item" && row.entry.name === name));
  }

  private groupBy(grouping: Grouping): void {
    this.grouping = grouping;
    remember(GROUPING_KEY, grouping);
    this.list.scrollTop = 0;
    this.draw();
    if (grouping === "job") void this.reload();
    this.by.querySelector<HTMLElement>(`[data-by=${grouping}]`)?.focus();
  }

  /** Makes the rows that are in view, and lets the others go. */
  private arrange(): void {
    if (this.rows.length === 0) return;
    const [first, last] = inView(this.tops, this.list.scrollTop, this.list.clientHeight);
    for (const [at, node] of this.drawn) {
      // What has the focus keeps it.
      if ((at >= first && at <= last) || node === document.activeElement) continue;
      node.remove();
      this.drawn.delete(at);
    }
    let before: HTMLElement | null = null;
    for (let at = first; at <= last; at++) {
      let node = this.drawn.get(at);
      if (node === undefined) {
        node = this.node(this.rows[at] as Row);
        node.style.top = `${this.tops[at] as number}px`;
        this.drawn.set(at, node);
        // In their order, which is that of Tab.
        if (before === null) this.space.prepend(node);
        else before.after(node);
      }
      before = node;
    }
    // One stop of Tab, as arrows walk through the list: what is chosen, or the first in view.
    const items = [...this.drawn.values()].filter((node) => node.dataset["name"] !== undefined);
    if (items.every((node) => node.tabIndex < 0) && items[0] !== undefined) items[0].tabIndex = 0;
    clearTimeout(this.still);
    this.still = setTimeout(() => void this.loadCourses(), STILL_MS);
  }

  private node(row: Row): HTMLElement {
    if (row.kind === "labels") return this.labelBox ?? el("div", {});
    if (row.kind === "item") return this.item(row.entry);
    return el("div", { class: "group" }, row.title, el("span", {}, String(row.count)));
  }

  /** Goes to a row, wherever it is. */
  private focus(at: number): void {
    if (at < 0 || at >= this.rows.length) return;
    const [top, bottom] = [this.tops[at] as number, this.tops[at + 1] as number];
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    if (bottom > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = bottom - this.list.clientHeight;
    this.arrange();
    this.drawn.get(at)?.focus();
  }

  /** Asks for the courses of what is in view: two requests for all, and none while nobody looks. */
  private async loadCourses(): Promise<void> {
    if (document.hidden || this.list.clientHeight === 0) return;
    const now = Date.now();
    const wanted = [...this.drawn.values()].flatMap((node) => (node.dataset["name"] === undefined ? [] : [node.dataset["name"]])).filter((name) => now - (this.courses.get(name)?.at ?? 0) > COURSE_OLD_MS);
    const type = (name: string): string => this.meta(name)?.type ?? "";
    const names = wanted.filter((name) => type(name) !== "text" && !isBuckets(name)).slice(0, COURSES_MAX);
    for (const name of names) this.courses.set(name, { at: now, values: this.courses.get(name)?.values ?? [] });
    const end = Math.floor(serverNow() / 60) * 60;
    const ask = async (some: readonly string[], around: (inner: string) => string): Promise<void> => {
      if (some.length === 0) return;
      const sum = `sum by (series) (label_replace({__name__=~${patternOf(some)}}, "series", "$1", "__name__", "(.+)"))`;
      // What the server refuses has no course: the list is right without.
      const answer = await fetchRange(around(sum), end - COURSE_SECONDS, end, 60, COURSES_MAX).catch(() => null);
      if (answer === null || answer.data.resultType !== "matrix") return;
      for (const [name, values] of coursesOf(answer.data.result, (name) => type(name) === "counter")) this.courses.set(name, { at: now, values });
    };
    const isHistogram = (name: string): boolean => type(name) === "histogram";
    await Promise.all([ask(names.filter(isHistogram), (sum) => `histogram_count(${sum})`), ask(names.filter((name) => !isHistogram(name)), (sum) => sum)]);
    for (const node of this.drawn.values()) this.drawCourse(node);
  }

  private drawCourse(node: HTMLElement): void {
    const canvas = node.querySelector("canvas");
    const values = this.courses.get(node.dataset["name"] ?? "")?.values ?? [];
    const context = canvas?.getContext("2d");
    if (canvas === null || context === null || context === undefined) return;
    context.clearRect(0, 0, canvas.width, canvas.height);
    canvas.dataset["points"] = String(values.length);
    if (values.length < 2) return;
    const [low, high] = [Math.min(...values), Math.max(...values)];
    context.beginPath();
    values.forEach((value, at) => context.lineTo((at / (values.length - 1)) * (canvas.width - 2) + 1, canvas.height - 2 - (high > low ? (value - low) / (high - low) : 0.5) * (canvas.height - 4)));
    context.strokeStyle = ink("muted");
    context.lineWidth = devicePixelRatio;
    context.stroke();
  }

  private item(entry: Entry): HTMLElement {
    const current = entry.name === this.chosenName();
    const glyph = icon(...(GLYPHS[entry.meta?.type ?? ""] ?? (GLYPHS[""] as string[])));
    const help = entry.meta?.help ?? "";
    const canvas = el("canvas", { width: SPARK.width * devicePixelRatio, height: SPARK.height * devicePixelRatio, "aria-hidden": "true" });
    const button = el(
      "button",
      { class: "item", type: "button", title: help === "" ? entry.name : `${entry.name}: ${help}`, "aria-label": entry.name, "aria-current": String(current), tabindex: current ? 0 : -1, "data-name": entry.name, click: () => this.choose(selectorOf(entry.name)) },
      glyph,
      ...nameParts(entry.name).map((part, at) => el("span", { class: at === 0 ? "begin" : "end" }, part)),
      canvas,
    );
    this.drawCourse(button);
    return button;
  }

  /** Scrolls to what is chosen, once for each choice: who scrolls away stays there. */
  private reveal(): void {
    const name = this.chosenName();
    const at = this.rows.findIndex((row) => row.kind === "item" && row.entry.name === name);
    if (name === this.revealed || at < 0 || this.list.clientHeight === 0) return;
    this.revealed = name;
    const { scrollTop, clientHeight } = this.list;
    const top = this.tops[at] as number;
    if (top < scrollTop || top + ROW_HEIGHT.item > scrollTop + clientHeight) this.list.scrollTop = top - clientHeight / 3;
  }

  /** The labels and values of what is chosen; null for what has none. */
  private labelsOfChosen(): HTMLElement | null {
    const selector = parseSelector(this.query);
    if (selector === null || this.labels.size === 0 || this.labelsOf !== selector.name) return null;
    const box = el("div", { class: "labels" });
    for (const [label, values] of this.labels) {
      const chips = values.slice(0, VALUES_MAX).map((value) =>
        el("button", { class: "chip", type: "button", "aria-pressed": String(isChosen(selector, label, value)), click: () => this.choose(formatSelector(toggle(selector, label, value))) }, value),
      );
      const more = values.length > VALUES_MAX ? [el("span", { class: "note" }, `and ${values.length - VALUES_MAX} more`)] : [];
      box.append(el("h3", {}, label), el("div", { class: "values" }, ...chips, ...more));
    }
    return box;
  }

  private walk(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const at = [...this.drawn].find(([, node]) => node === document.activeElement)?.[0];
    if (at === undefined) return;
    event.preventDefault();
    const way = event.key === "ArrowDown" ? 1 : -1;
    let next = at + way;
    while (next >= 0 && next < this.rows.length && this.rows[next]?.kind !== "item") next += way;
    if (next < 0) this.search.focus();
    else this.focus(next);
  }
}
