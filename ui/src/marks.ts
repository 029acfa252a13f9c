/** Which columns of the heat map have slow traces: a small mark above each, so that one knows where to click. */

import { fetchTraceColumns } from "./api.ts";
import { ink } from "./theme.ts";

/** Marks nearer to each other than this would be a line: one stands for all. */
const SPACING_PIXELS = 6;

/** Live columns are looked at again this often: a trace comes with its cell, and one late second does not matter. */
const EVERY_COLUMNS = 3;
const TAIL_COLUMNS = 10;

/** Slots that are drawn, where many would run into each other. Pure. */
export function spaced(slots: readonly number[], pixelsPerSlot: number): number[] {
  const out: number[] = [];
  for (const slot of [...slots].sort((a, b) => a - b)) {
    const last = out[out.length - 1];
    if (last === undefined || (slot - last) * pixelsPerSlot >= SPACING_PIXELS) out.push(slot);
  }
  return out;
}

/** A mark points down at its column, above the plot, where it hides nothing. */
export function drawMark(context: CanvasRenderingContext2D, x: number, top: number): void {
  context.fillStyle = ink("accent");
  context.beginPath();
  context.moveTo(x - 3, top - 6.5);
  context.lineTo(x + 3, top - 6.5);
  context.lineTo(x, top - 2);
  context.fill();
}

/** Asks for the counts, and keeps them beside the columns that the map shows. */
export class Marks {
  private turn = 0;
  private query = "";
  private step = 0;
  private ticks = 0;

  constructor(
    private readonly marks: Map<number, number>,
    private readonly changed: () => void,
  ) {}

  /** Another picture: its marks are asked for. */
  async load(query: string, start: number, end: number, step: number, signal: AbortSignal): Promise<void> {
    const turn = ++this.turn;
    // A slot of another step is another time.
    if (query !== this.query || step !== this.step) this.marks.clear();
    [this.query, this.step] = [query, step];
    for (const slot of [...this.marks.keys()]) if (slot * step <= start) this.marks.delete(slot);
    await this.ask(turn, start + step, end, step, signal);
  }

  /** A column has closed. */
  tick(t: number, step: number, signal: AbortSignal): void {
    if (++this.ticks % EVERY_COLUMNS !== 0) return;
    const end = Math.ceil(t / step) * step;
    void this.ask(this.turn, end - step * (TAIL_COLUMNS - 1), end, step, signal);
  }

  private async ask(turn: number, start: number, end: number, step: number, signal: AbortSignal): Promise<void> {
    try {
      const { data } = await fetchTraceColumns(this.query, start, end, step, signal);
      if (turn !== this.turn) return;
      const slot = (t: number): number => Math.round(t / step);
      for (const known of [...this.marks.keys()]) if (known >= slot(start) && known <= slot(end)) this.marks.delete(known);
      for (const [t, count] of data.columns) this.marks.set(slot(t), count);
      this.changed();
    } catch {
      // The picture is right without marks; the server's absence is said elsewhere.
    }
  }
}
