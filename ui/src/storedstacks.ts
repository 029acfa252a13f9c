/**
 * Stacks that the server stores: the choice of a series and of one range or two, whose texts are added up. The address has the choice.
 *
 * Invariants: a text counts for the range that its end is in, (start, end], so that ranges beside each other share none; of what is
 * offered, one series is drawn, and not those that have its labels and more; the last choice is drawn, however long the server took.
 * Limit: `RANGE_MAX`. Failure: where there are none, or the server refuses to list them, nothing is offered.
 */

import { fetchSeries, fetchTexts, serverNow, type Labels, type Series } from "./api.ts";
import { byId, el } from "./dom.ts";
import { formatSelector } from "./selector.ts";
import { parseInstant } from "./state.ts";

const NAME = "ogive_kernel_stacks";

/** Series of a week are offered. */
const LISTED = 7 * 86400;

/** 6 hours: 2,160 texts of 64 KiB, 135 MiB at most. */
export const RANGE_MAX = 6 * 3600;

/** Times are in milliseconds: the next one after the beginning is in the range. */
const NEXT = 0.001;

export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Choice {
  readonly series: string;
  readonly now: Span;
  readonly before: Span | null;
}

/** The selector of a series. */
export function selectorOf(labels: Labels): string {
  const others = Object.entries(labels).filter(([label]) => label !== "__name__").sort(([a], [b]) => (a < b ? -1 : 1));
  return formatSelector({ name: NAME, matchers: others.map(([label, value]) => ({ label, op: "=" as const, value })) });
}

/** Reads two instants as a person types them; null when both are empty. */
export function spanOf(from: string, to: string, now: number): Span | null {
  if (from.trim() === "" && to.trim() === "") return null;
  const [start, end] = [from, to].map((text) => {
    const instant = parseInstant(text, now);
    if (instant === null) throw new Error(`${JSON.stringify(text)} is no time, such as now-15m or 2026-03-01 14:05`);
    return instant;
  }) as [number, number];
  if (!(end > start)) throw new Error("a range ends after its beginning");
  if (end - start > RANGE_MAX) throw new Error("a range has at most 6 hours");
  return { start, end };
}

export function formatChoice({ series, now, before }: Choice): string {
  const params = new URLSearchParams({ series, start: String(now.start), end: String(now.end) });
  if (before !== null) {
    params.set("before_start", String(before.start));
    params.set("before_end", String(before.end));
  }
  return `?${params.toString()}`;
}

/** What an address names; null when it names no series or no range. */
export function parseChoice(search: string): Choice | null {
  const params = new URLSearchParams(search);
  const span = (prefix: string): Span | null => {
    const [start, end] = ["start", "end"].map((part) => Number(params.get(prefix + part) ?? NaN)) as [number, number];
    return end > start && end - start <= RANGE_MAX ? { start, end } : null;
  };
  const [series, now] = [params.get("series"), span("")];
  return series === null || now === null ? null : { series, now, before: span("before_") };
}

async function textsOf(series: string, span: Span | null, isOne: boolean): Promise<string[]> {
  if (span === null) return [];
  const { data } = await fetchTexts(series, span.start + NEXT, span.end);
  const wanted = (data.result as Series[]).filter(({ metric }) => !isOne || selectorOf(metric) === series);
  return wanted.flatMap(({ values }) => (values ?? []).map(([, text]) => text));
}

export class StoredStacks {
  private readonly series = byId<HTMLSelectElement>("stored-series");
  private offered: readonly string[] = [];
  private last: Choice | null = null;

  constructor(
    private readonly show: (name: string, texts: { now: string[]; before: string[] }) => void,
    private readonly fail: (name: string, cause: unknown) => void,
  ) {
    byId("stored").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
  }

  /** Offers what there is, and draws what the address names. */
  async begin(): Promise<void> {
    const choice = parseChoice(location.search);
    const now = serverNow();
    const found = await fetchSeries(NAME, now - LISTED, now).catch(() => []);
    this.offered = found.map(selectorOf);
    const all = new Set([...(choice === null ? [] : [choice.series]), ...this.offered]);
    if (all.size === 0) return;
    this.series.replaceChildren(...[...all].map((selector) => el("option", { value: selector }, selector.slice(NAME.length))));
    byId("stored").hidden = false;
    if (choice === null) return;
    for (const [prefix, span] of [["stored", choice.now], ["stored-before", choice.before]] as const) {
      byId<HTMLInputElement>(`${prefix}-from`).value = span === null ? "" : String(span.start);
      byId<HTMLInputElement>(`${prefix}-to`).value = span === null ? "" : String(span.end);
    }
    await this.draw(choice);
  }

  private async submit(): Promise<void> {
    const series = this.series.value;
    try {
      const text = (id: string): string => byId<HTMLInputElement>(`stored-${id}`).value;
      const now = spanOf(text("from"), text("to"), serverNow());
      if (now === null) throw new Error("a range has a beginning and an end");
      const choice = { series, now, before: spanOf(text("before-from"), text("before-to"), serverNow()) };
      history.replaceState(null, "", `${location.pathname}${formatChoice(choice)}`);
      await this.draw(choice);
    } catch (cause) {
      this.fail(series, cause);
    }
  }

  private async draw(choice: Choice): Promise<void> {
    const { series, now, before } = choice;
    this.last = choice;
    try {
      const isOne = this.offered.includes(series);
      const [texts, earlier] = await Promise.all([now, before].map((span) => textsOf(series, span, isOne))) as [string[], string[]];
      if (this.last !== choice) return;
      if (texts.length === 0) throw new Error("no stacks are stored in this range");
      if (before !== null && earlier.length === 0) throw new Error("no stacks are stored in the range to compare with");
      this.show(series, { now: texts, before: earlier });
    } catch (cause) {
      if (this.last === choice) this.fail(series, cause);
    }
  }
}
