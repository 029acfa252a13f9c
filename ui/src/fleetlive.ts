/**
 * The panel of the fleet's page in which somebody watches what comes to one broker.
 *
 * Invariants: the broker sends for as long as the panel is open and no longer; another broker or selector ends the stream before.
 * Failure: why there is no stream, or none any more, is the server's own sentence; "Watch" asks again.
 */

import { openWatch } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatCount, formatValue } from "./format.ts";
import { EventReader, leftOutText, Watched, type WatchColumn, type WatchedRow } from "./watched.ts";

/** Everything that has a name. */
const SELECTOR = '{__name__=~".+"}';

const HEADS = ["Series", "Count", "p50", "p99", "Max or value"];

function shown(value: number | null | undefined, unit: string): string {
  return value === null || value === undefined ? "–" : formatValue(value, unit);
}

export class FleetLive {
  private abort = new AbortController();
  private broker = "";
  private rows = new Watched();
  private readonly title = el("h2", {});
  private readonly input = el("input", { type: "text", "aria-label": "Selector of the series", spellcheck: false, autocapitalize: "off", value: SELECTOR });
  private readonly note = el("p", { class: "note", role: "status" });
  private readonly body = el("tbody", {});

  constructor(private readonly box: HTMLElement) {
    const submit = (event: Event): void => {
      event.preventDefault();
      void this.run();
    };
    const form = el("form", { class: "tools", submit }, this.input, el("button", { type: "submit" }, "Watch"), el("button", { type: "button", class: "ghost", click: () => this.close() }, "Stop"));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...HEADS.map((text) => el("th", { scope: "col" }, text)))), this.body);
    box.append(this.title, form, this.note, el("div", { class: "fleet-live", tabindex: 0, role: "region", "aria-label": "The newest second of each series" }, table));
  }

  open(broker: string): void {
    this.broker = broker;
    this.title.textContent = `${broker}, as it comes`;
    this.box.hidden = false;
    void this.run();
  }

  close(): void {
    this.abort.abort();
    this.box.hidden = true;
  }

  private async run(): Promise<void> {
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    const { signal } = abort;
    this.rows = new Watched();
    this.body.replaceChildren();
    this.note.textContent = "Asking the broker…";
    try {
      await this.read(await openWatch(this.broker, this.input.value.trim(), signal), signal);
      if (!signal.aborted) this.note.textContent = "The stream has ended.";
    } catch (cause) {
      if (!signal.aborted) this.note.textContent = cause instanceof Error ? cause.message : String(cause);
    } finally {
      // A stream that could not be read any further would go on at the broker.
      abort.abort();
    }
  }

  private async read(stream: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void> {
    const reader = stream.getReader();
    const decoder = new TextDecoder();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      for (const { name, data } of events.push(decoder.decode(value, { stream: true }))) {
        if (name === "error") throw new Error((JSON.parse(data) as { error: string }).error);
        if (name === "column") this.take(JSON.parse(data) as WatchColumn);
      }
    }
  }

  private take(column: WatchColumn): void {
    this.rows.take(column);
    const rows = this.rows.all();
    const measured = `${formatClock(column.t)}: ${formatCount(column.count ?? 0)} measurements in a second`;
    this.note.textContent = [rows.length === 0 ? `${formatClock(column.t)}: nothing came yet.` : `${measured}.`, leftOutText(column)].join(" ").trim();
    this.body.replaceChildren(...rows.map((row) => this.line(row, column.t)));
  }

  private line(row: WatchedRow, now: number): HTMLElement {
    const texts = [row.count === null ? "–" : formatCount(row.count), shown(row.quantiles.get(0.5), row.unit), shown(row.quantiles.get(0.99), row.unit), shown(row.value ?? row.max, row.unit)];
    // What did not come in this second is from before.
    return el("tr", { class: row.seen < now ? "before" : "", title: `the second that ended at ${formatClock(row.t)}` }, el("th", { scope: "row" }, row.name), ...texts.map((text) => el("td", {}, text)));
  }
}
