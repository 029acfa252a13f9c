// Takes a cell of each series at the end of every interval and brings them to a server: numbered, kept until acknowledged.

import { encodeBatch, Kind, type Sample, type SeriesOf, type Source, Temporality } from "./batch.js";
import { type Histogram } from "./histogram.js";
import { Recorder } from "./recorder.js";

/** Options of an exporter. */
export interface ExporterOptions {
  /** On every series: the service, the instance. */
  labels?: Record<string, string>;
  /** Says who sends, to a server with a web configuration. */
  token?: string;
  /** Whose data it is; the server's default when absent. */
  tenant?: string;
  /** Width of a cell in milliseconds: 1,000 when absent, at least 100. */
  intervalMs?: number;
  /** Bounds what waits for a server that is away: 16 MiB when absent. The oldest batches then make room, counted. */
  keepBytes?: number;
  /** Hears of each kind of failure once until the server takes a batch again. */
  onError?: (error: Error) => void;
}

/** What an exporter did, in samples: taken is always acknowledged + waiting + all dropped + all rejected. */
export interface Status {
  /** From the recorders. */
  taken: number;
  /** Stored by the server. */
  acknowledged: number;
  /** In batches that are kept. */
  waiting: number;
  /** Bytes of the batches that are kept. */
  waitingBytes: number;
  /** Given up, by the reason. */
  dropped: Record<string, number>;
  /** Refused by the server, by its reason. */
  rejected: Record<string, number>;
}

interface Waiting {
  readonly frame: Uint8Array;
  readonly samples: number;
}

/** Series of one batch, at most: what a server takes. */
const SERIES_MAX = 100_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
const ANSWER_MS = 30_000;

/** Sends what a program measures to an Ogive server, each sample exactly once. */
export class Exporter {
  readonly #url: string;
  readonly #options: Required<Omit<ExporterOptions, "token" | "tenant" | "onError">> & ExporterOptions;
  readonly #source: Source;
  readonly #series = new Map<string, { series: SeriesOf; take: () => number | Histogram | null }>();
  readonly #counts: Status = { taken: 0, acknowledged: 0, waiting: 0, waitingBytes: 0, dropped: {}, rejected: {} };
  #waiting: Waiting[] = [];
  #inFlight = false;
  #next = 1n;
  #failures = 0;
  #reported = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> | null = null;
  #closed = false;
  readonly #abort = new AbortController();

  /** Begins to export to a server such as http://127.0.0.1:6448. Throws TypeError for another address. */
  constructor(server: string, options: ExporterOptions = {}) {
    const url = new URL(server);
    if (!["http:", "https:"].includes(url.protocol)) throw new TypeError(`${server} is no http:// or https:// address`);
    this.#url = new URL("v1/batch", server.endsWith("/") ? server : `${server}/`).href;
    const intervalMs = Math.max(options.intervalMs ?? 1000, 100);
    this.#options = { ...options, labels: options.labels ?? {}, intervalMs, keepBytes: options.keepBytes ?? 16 << 20 };
    const [low, high] = crypto.getRandomValues(new BigUint64Array(2));
    this.#source = { low, high };
    this.#schedule();
  }

  /** Adds a histogram of durations, in seconds, and returns what records it. Name it …_seconds. */
  recorder(name: string, labels: Record<string, string> = {}): Recorder {
    const recorder = new Recorder();
    this.cells(name, "s", () => recorder.take(), labels);
    return recorder;
  }

  /** Adds a histogram that `take` gives and empties each interval. */
  cells(name: string, unit: string, take: () => Histogram, labels: Record<string, string> = {}): void {
    const some = (): Histogram | null => {
      const cell = take();
      return cell.count > 0n ? cell : null;
    };
    this.#add(name, labels, unit, Kind.Histogram, Temporality.Delta, some);
  }

  /** Adds a number that `read` gives at the end of each interval. */
  gauge(name: string, read: () => number, labels: Record<string, string> = {}): void {
    this.#add(name, labels, "", Kind.Float, Temporality.Gauge, read);
  }

  /** Adds a number that only grows, as `read` gives it. Name it …_total. */
  counter(name: string, read: () => number, labels: Record<string, string> = {}): void {
    this.#add(name, labels, "", Kind.Float, Temporality.Cumulative, read);
  }

  #add(name: string, labels: Record<string, string>, unit: string, kind: Kind, temporality: Temporality, take: () => number | Histogram | null): void {
    const all: Record<string, string> = { ...this.#options.labels, ...labels, __name__: name };
    const flat = Object.keys(all).sort().flatMap((label) => [label, String(all[label])]);
    const identity = JSON.stringify(flat);
    if (this.#series.has(identity)) throw new RangeError(`the series exists already: ${identity}`);
    this.#series.set(identity, { series: { labels: flat, unit, kind, temporality }, take });
  }

  /** What was taken, acknowledged and dropped, and what waits. */
  status(): Status {
    const { dropped, rejected } = this.#counts;
    const waiting = this.#waiting.reduce((sum, { samples }) => sum + samples, 0);
    return { ...this.#counts, waiting, waitingBytes: this.#bytes(), dropped: { ...dropped }, rejected: { ...rejected } };
  }

  /**
   * Takes the cell that has begun and hands what waits to the browser, which sends it when the page is gone, by sendBeacon, or by a
   * fetch that outlives the page where a token, a tenant or another origin's address is needed. Browsers take 64 KiB. What they take stays here until the
   * server has acknowledged it: should the page come back it is sent again, under its number, and counts once.
   */
  beacon(): void {
    if (this.#closed) return;
    this.#takeAll(this.#nextEnd());
    const headers = this.#headers();
    const isOwn = new URL(this.#url).origin === location.origin;
    for (const { frame } of this.#waiting) {
      const body = new Blob([frame as BlobPart], { type: headers["Content-Type"] });
      if (isOwn && Object.keys(headers).length === 1) {
        if (!navigator.sendBeacon(this.#url, body)) return;
      } else {
        fetch(this.#url, { method: "POST", headers, body, keepalive: true }).catch(() => {});
      }
    }
  }

  /**
   * Takes the cell that has begun and sends what waits, for `timeoutMs` at most. Returns how many samples the server could
   * not have by then; they are counted as dropped.
   */
  async shutdown(timeoutMs = 5000): Promise<number> {
    if (this.#closed) return 0;
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#takeAll(this.#nextEnd());
    const limit = setTimeout(() => this.#abort.abort(), timeoutMs);
    this.#send();
    await this.#sending;
    clearTimeout(limit);
    const left = this.#waiting.reduce((sum, { samples }) => sum + samples, 0);
    while (this.#waiting.length > 0) this.#drop(0, "shutdown");
    return left;
  }

  #nextEnd(): number {
    const { intervalMs } = this.#options;
    return (Math.floor(Date.now() / intervalMs) + 1) * intervalMs;
  }

  #schedule(): void {
    const end = this.#nextEnd();
    this.#timer = setTimeout(() => {
      this.#takeAll(end);
      this.#send();
      this.#schedule();
    }, end - Date.now());
    // In Node, measuring alone keeps no process alive.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  #takeAll(endMs: number): void {
    const samples: Sample[] = [];
    for (const { series, take } of this.#series.values()) {
      const value = take();
      if (value !== null) samples.push({ series, value });
    }
    for (let at = 0; at < samples.length; at += SERIES_MAX) {
      const part = samples.slice(at, at + SERIES_MAX);
      const frame = encodeBatch(this.#source, this.#next, endMs, this.#options.intervalMs, part);
      this.#next += 1n;
      this.#counts.taken += part.length;
      this.#waiting.push({ frame, samples: part.length });
    }
    const first = this.#inFlight ? 1 : 0;
    while (this.#bytes() > this.#options.keepBytes && this.#waiting.length > first) this.#drop(first, "full");
  }

  #bytes(): number {
    return this.#waiting.reduce((sum, { frame }) => sum + frame.length, 0);
  }

  #drop(at: number, reason: string): void {
    const [{ samples }] = this.#waiting.splice(at, 1);
    this.#counts.dropped[reason] = (this.#counts.dropped[reason] ?? 0) + samples;
  }

  #send(): void {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  /** Brings the oldest batch to the server, again and again under its number, then the next. */
  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#abort.signal.aborted) {
      this.#inFlight = true;
      let after = 0;
      try {
        after = await this.#attempt(this.#waiting[0]);
        if (after < 0) this.#reported = "";
      } catch (error) {
        this.#report(error as Error);
      }
      if (after < 0) {
        this.#inFlight = false;
        this.#failures = 0;
        continue;
      }
      const step = Math.min(FIRST_WAIT_MS * 2 ** this.#failures, LONGEST_WAIT_MS);
      this.#failures += 1;
      await this.#pause(Math.max(after, step / 2 + (Math.random() * step) / 2));
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      if (!this.#closed) (timer as { unref?: () => void }).unref?.();
      const end = (): void => {
        clearTimeout(timer);
        resolve();
      };
      this.#abort.signal.addEventListener("abort", end, { once: true });
    });
  }

  /** Sends once. Negative when the batch is done with, else the least wait before the next attempt. */
  async #attempt({ frame, samples }: Waiting): Promise<number> {
    const signal = AbortSignal.any([this.#abort.signal, AbortSignal.timeout(ANSWER_MS)]);
    const response = await fetch(this.#url, { method: "POST", headers: this.#headers(), body: frame as BodyInit, signal });
    const text = await response.text();
    const answer = objectIn(text);
    if (response.status === 200) {
      const rejected = Array.isArray(answer?.rejected) ? (answer.rejected as Array<{ reason: string }>) : [];
      const spoken = Number(answer?.accepted) + Number(answer?.duplicate) + rejected.length;
      if (spoken !== samples) throw new Error("the answer does not speak of every sample: is this an Ogive server?");
      for (const { reason } of rejected) this.#counts.rejected[reason] = (this.#counts.rejected[reason] ?? 0) + 1;
      this.#counts.acknowledged += samples - rejected.length;
      this.#waiting.shift();
      return -1;
    }
    // Without the object somebody else answers at that address, and the batch is sent again.
    if (response.status === 413 || ([400, 415, 422].includes(response.status) && typeof answer?.error === "string")) {
      this.#drop(0, "refused");
      this.#inFlight = false;
      this.#failures = 0;
      this.#report(new Error(`a batch was refused with ${response.status}: ${String(answer?.error)}`));
      return 0;
    }
    this.#report(new Error(`the server answers ${response.status}: ${String(answer?.error ?? "")}`));
    const seconds = Number(response.headers.get("Retry-After"));
    return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 0), 3600) * 1000 : 0;
  }

  #headers(): Record<string, string> {
    const headers: Record<string, string> = { "Content-Type": "application/x-ogive-batch-flatbuffer" };
    if (this.#options.token !== undefined) headers.Authorization = `Bearer ${this.#options.token}`;
    if (this.#options.tenant !== undefined) headers["X-Scope-OrgID"] = this.#options.tenant;
    return headers;
  }

  #report(error: Error): void {
    if (error.message !== this.#reported) this.#options.onError?.(error);
    this.#reported = error.message;
  }
}

function objectIn(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
