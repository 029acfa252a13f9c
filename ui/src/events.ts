/** Release marks and other events over every picture: a dashed line at its time, and its words where the pointer is on its flag. */

import { fetchEvents, type StoredEvent } from "./api.ts";
import { formatClock, formatDate } from "./format.ts";

/** Events nearer to each other than this share a line: their words stand below each other. */
const NEAR_PIXELS = 5;

/** A live picture asks again this often, in columns that close. */
const EVERY_COLUMNS = 5;

/** Where a picture draws: its plot in CSS pixels of the stage, and the place of a time; none while there is no picture. */
export interface Plot {
  left: number;
  top: number;
  width: number;
  height: number;
  x(t: number): number;
}

/** Events of one line. */
export interface Cluster {
  x: number;
  events: StoredEvent[];
}

/** Those in the plot, by their place, near ones together. Pure. */
export function clusters(events: readonly StoredEvent[], plot: Plot): Cluster[] {
  const out: Cluster[] = [];
  for (const event of [...events].sort((a, b) => a.time_ms - b.time_ms)) {
    const x = plot.x(event.time_ms / 1000);
    if (!(x >= plot.left && x <= plot.left + plot.width)) continue;
    const last = out[out.length - 1];
    if (last !== undefined && x - last.x < NEAR_PIXELS) last.events.push(event);
    else out.push({ x, events: [event] });
  }
  return out;
}

/** An event in words: its time, its kind, its first line, and its labels. Pure. */
export function words(event: StoredEvent): string {
  const t = event.time_ms / 1000;
  const labels = Object.entries(event.labels).map(([name, value]) => `${name}=${value}`);
  const text = event.text.split("\n").find((line) => line.trim() !== "") ?? "";
  return `${formatDate(t)} ${formatClock(t)}  ${event.kind}: ${text}${labels.length === 0 ? "" : ` (${labels.join(", ")})`}`;
}

export class EventMarks {
  private events: StoredEvent[] = [];
  private turn = 0;
  private ticks = 0;

  constructor(
    private readonly host: HTMLElement,
    private readonly plot: () => Plot | null,
  ) {}

  async load(start: number, end: number, signal: AbortSignal): Promise<void> {
    const turn = ++this.turn;
    try {
      const { data } = await fetchEvents(start, end, signal);
      if (turn !== this.turn) return;
      this.events = data.events;
      this.draw();
    } catch {
      // The picture is right without marks; the server's absence is said elsewhere.
    }
  }

  /** A column has closed. */
  tick(start: number, end: number, signal: AbortSignal): void {
    if (++this.ticks % EVERY_COLUMNS === 0) void this.load(start, end, signal);
  }

  draw(): void {
    const plot = this.plot();
    const found = plot === null ? [] : clusters(this.events, plot);
    this.host.replaceChildren(
      ...found.map(({ x, events }) => {
        const mark = document.createElement("div");
        mark.className = "event";
        mark.style.left = `${x}px`;
        mark.style.top = `${plot?.top ?? 0}px`;
        mark.style.height = `${plot?.height ?? 0}px`;
        const flag = document.createElement("span");
        flag.title = events.map(words).join("\n");
        flag.setAttribute("role", "img");
        flag.setAttribute("aria-label", flag.title);
        mark.append(flag);
        return mark;
      }),
    );
  }
}
