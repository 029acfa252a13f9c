/**
 * The stream of closed seconds, kept open.
 *
 * Failure: a lost connection is reported at once and tried again after 1, 2, 4, at most 8 s; a stream that is open but
 * silent for `SILENCE_MS` counts as lost, since a column comes each second even when it is empty. A refusal of the
 * expression itself ends the stream: trying again would give the same answer.
 */

import type { WireColumn } from "./bins.ts";

export type Link = "connecting" | "open" | "lost";

export interface LiveHandlers {
  column(column: WireColumn): void;
  /** A second that was sent before has changed: samples came late. */
  correction(column: WireColumn): void;
  /** `again` is true when an earlier attempt was lost, whether or not it had opened: what was missed must be fetched. */
  link(link: Link, again: boolean): void;
  refused(message: string): void;
}

/** Ten missed columns: longer than a pause of a loaded machine, shorter than a person's patience. */
const SILENCE_MS = 10_000;
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 8_000;

export class Live {
  private source: EventSource | null = null;
  private retry = RETRY_MS_MIN;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private lostBefore = false;

  constructor(
    private readonly address: string,
    private readonly handlers: LiveHandlers,
  ) {
    this.connect();
  }

  close(): void {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.source?.close();
    this.source = null;
  }

  private connect(): void {
    this.handlers.link("connecting", this.lostBefore);
    const source = new EventSource(this.address);
    this.source = source;
    this.listen();
    source.onopen = () => {
      this.handlers.link("open", this.lostBefore);
      this.lostBefore = false;
      this.listen();
    };
    source.addEventListener("column", (event) => {
      this.retry = RETRY_MS_MIN;
      this.listen();
      this.handlers.column(JSON.parse((event as MessageEvent<string>).data) as WireColumn);
    });
    source.addEventListener("correction", (event) => {
      this.listen();
      this.handlers.correction(JSON.parse((event as MessageEvent<string>).data) as WireColumn);
    });
    // The server's own `event: error` has data; the browser's error event has none.
    source.addEventListener("error", (event) => {
      if (event instanceof MessageEvent) this.refuse(event.data as string);
      else this.lose();
    });
  }

  private listen(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(), SILENCE_MS);
  }

  private refuse(data: string): void {
    this.close();
    let message = data;
    try {
      message = (JSON.parse(data) as { error?: string }).error ?? data;
    } catch {
      // Plain text is a message as well.
    }
    this.handlers.refused(message);
  }

  private lose(): void {
    this.close();
    this.lostBefore = true;
    this.handlers.link("lost", true);
    this.timer = setTimeout(() => this.connect(), this.retry);
    this.retry = Math.min(RETRY_MS_MAX, this.retry * 2);
  }
}
