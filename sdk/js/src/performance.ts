// What the runtime measures of itself: garbage collection, marks and requests of node:perf_hooks; timings of pages in a browser.

import { type Exporter } from "./exporter.js";
import { type Recorder } from "./recorder.js";

/** What an entry counts into: a name and its labels, or null for nothing. Entries of many names must not make a series each. */
type Naming = (entry: PerformanceEntry) => { name: string; labels: Record<string, string> } | null;

/** Series that entries may make; the others count into label value "other". */
const SERIES_MAX = 200;

class Entries {
  readonly #exporter: Exporter;
  readonly #recorders = new Map<string, Recorder>();
  readonly #observers: PerformanceObserver[] = [];

  constructor(exporter: Exporter) {
    this.#exporter = exporter;
  }

  record(name: string, labels: Record<string, string>, milliseconds: number): void {
    let key = JSON.stringify([name, labels]);
    if (!this.#recorders.has(key) && this.#recorders.size >= SERIES_MAX) {
      labels = Object.fromEntries(Object.keys(labels).map((label) => [label, "other"]));
      key = JSON.stringify([name, labels]);
    }
    let recorder = this.#recorders.get(key);
    if (recorder === undefined) this.#recorders.set(key, (recorder = this.#exporter.recorder(name, labels)));
    recorder.recordMilliseconds(milliseconds);
  }

  /** Counts the durations of a type of entries, those before this call included where the runtime keeps them. */
  observe(type: string, naming: Naming, value = (entry: PerformanceEntry): number => entry.duration): void {
    if (!PerformanceObserver.supportedEntryTypes.includes(type)) return;
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const found = naming(entry);
        if (found !== null) this.record(found.name, found.labels, value(entry));
      }
    });
    observer.observe({ type, buffered: true });
    this.#observers.push(observer);
  }

  stop(): void {
    for (const observer of this.#observers) observer.disconnect();
  }
}

/** What to observe of Node. */
export interface NodeOptions {
  /** Counts performance.measure() of these names into NAME_seconds{measure}: others make no series. */
  measures?: string[];
}

const GC_KINDS: Record<number, string> = { 1: "minor", 4: "major", 8: "incremental", 16: "weak_callbacks" };

/**
 * Counts what node:perf_hooks reports: gc_seconds{kind}, http_client_seconds, http_server_seconds, dns_seconds and net_seconds
 * (of Node's own modules; fetch is not among them), measure_seconds{measure}, and the gauge event_loop_utilization. Returns what
 * ends that.
 */
export function observeNode(exporter: Exporter, { measures = [] }: NodeOptions = {}): () => void {
  const entries = new Entries(exporter);
  const detail = (entry: PerformanceEntry): Record<string, unknown> =>
    ((entry as PerformanceEntry & { detail?: unknown }).detail ?? {}) as Record<string, unknown>;
  entries.observe("gc", (entry) => ({ name: "gc_seconds", labels: { kind: GC_KINDS[Number(detail(entry).kind)] ?? "other" } }));
  entries.observe("http", (entry) => ({ name: entry.name === "HttpClient" ? "http_client_seconds" : "http_server_seconds", labels: {} }));
  entries.observe("dns", () => ({ name: "dns_seconds", labels: {} }));
  entries.observe("net", () => ({ name: "net_seconds", labels: {} }));
  const wanted = new Set(measures);
  entries.observe("measure", (entry) => (wanted.has(entry.name) ? { name: "measure_seconds", labels: { measure: entry.name } } : null));
  const loop = performance as Performance & { eventLoopUtilization?: (before?: object) => { utilization: number } };
  if (loop.eventLoopUtilization !== undefined) {
    let before: object = loop.eventLoopUtilization();
    exporter.gauge("event_loop_utilization", () => {
      const { utilization } = loop.eventLoopUtilization!(before);
      before = loop.eventLoopUtilization!();
      return utilization;
    });
  }
  return () => entries.stop();
}

/** What to observe of a page. */
export interface PageOptions {
  /** The page's route, with the server's name for it, so that both can be laid over each other. */
  route: string;
  /** The route of a fetch or XMLHttpRequest, by its URL; null, or no function, counts it nowhere. */
  requestRoute?: (url: URL) => string | null;
}

/**
 * Counts what a browser's user waited for: page_seconds{route,timing} with the timings ttfb, dom_interactive, dom_complete, load,
 * first_paint, first_contentful_paint, largest_contentful_paint, first_input and interaction, long_task_seconds{route}, and
 * fetch_seconds{route} of requests. When the page is hidden, what was counted is sent by sendBeacon. Returns what ends that.
 */
export function observePage(exporter: Exporter, { route, requestRoute }: PageOptions): () => void {
  const entries = new Entries(exporter);
  const timing = (name: string, milliseconds: number): void => {
    if (milliseconds > 0) entries.record("page_seconds", { route, timing: name }, milliseconds);
  };
  const navigation = (): void => {
    const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
    if (entry === undefined) return;
    timing("ttfb", entry.responseStart);
    timing("dom_interactive", entry.domInteractive);
    timing("dom_complete", entry.domComplete);
    timing("load", entry.loadEventEnd);
  };
  // The end of the load event is known behind it alone.
  const loaded = (): void => void setTimeout(navigation);
  if (document.readyState === "complete") loaded();
  else addEventListener("load", loaded, { once: true });
  const page = (name: string) => ({ name: "page_seconds", labels: { route, timing: name } });
  entries.observe("paint", ({ name }) => page(name.replaceAll("-", "_")), (entry) => entry.startTime);
  entries.observe("first-input", () => page("first_input"), (entry) => (entry as PerformanceEventTiming).processingStart - entry.startTime);
  entries.observe("event", (entry) => ((entry as PerformanceEventTiming & { interactionId?: number }).interactionId ? page("interaction") : null));
  entries.observe("longtask", () => ({ name: "long_task_seconds", labels: { route } }));
  if (requestRoute !== undefined) {
    entries.observe("resource", (entry) => {
      const { initiatorType } = entry as PerformanceResourceTiming;
      const of = ["fetch", "xmlhttprequest"].includes(initiatorType) ? requestRoute(new URL(entry.name)) : null;
      return of === null ? null : { name: "fetch_seconds", labels: { route: of } };
    });
  }
  const stopPaint = largestPaint((milliseconds) => timing("largest_contentful_paint", milliseconds));
  const hidden = (): void => {
    if (document.visibilityState !== "hidden") return;
    stopPaint();
    exporter.beacon();
  };
  document.addEventListener("visibilitychange", hidden);
  return () => {
    document.removeEventListener("visibilitychange", hidden);
    entries.stop();
  };
}

/** The last candidate is the largest, which is known when the page is hidden. Returns what reports it, once. */
function largestPaint(report: (milliseconds: number) => void): () => void {
  let largest: number | null = null;
  if (!PerformanceObserver.supportedEntryTypes.includes("largest-contentful-paint")) return () => {};
  const take = (entries: PerformanceEntryList): void => {
    for (const entry of entries) largest = entry.startTime;
  };
  const observer = new PerformanceObserver((list) => take(list.getEntries()));
  observer.observe({ type: "largest-contentful-paint", buffered: true });
  return () => {
    take(observer.takeRecords());
    observer.disconnect();
    if (largest !== null) report(largest);
    largest = null;
  };
}
