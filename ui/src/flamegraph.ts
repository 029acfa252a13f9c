/** The flame graph on its canvas: callers below, callees on top of them; a click makes a frame as wide as the picture. */

import { barsOf, tintOf, type Bar, type Call, type Calls } from "./folded.ts";
import { ink } from "./theme.ts";

const ROW = 19;

export class FlameGraph {
  private bars: Bar[] = [];
  private calls: Calls | null = null;
  private top: Call | null = null;
  private isFound: (call: Call) => boolean = () => false;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    choose: (call: Call) => void,
    point: (call: Call | null) => void,
  ) {
    canvas.addEventListener("click", (event) => {
      const call = this.at(event.offsetX, event.offsetY);
      if (call !== null) choose(call);
    });
    canvas.addEventListener("pointermove", (event) => point(this.at(event.offsetX, event.offsetY)));
    canvas.addEventListener("pointerleave", () => point(null));
  }

  show(calls: Calls, top: Call, isFound: (call: Call) => boolean): void {
    [this.calls, this.top, this.isFound] = [calls, top, isFound];
    this.draw();
  }

  draw(): void {
    const { calls, top, canvas } = this;
    const context = canvas.getContext("2d");
    if (calls === null || top === null || context === null) return;
    const width = canvas.clientWidth;
    // Half a pixel is nothing that anybody sees or hits.
    this.bars = barsOf(top, 0.5 / Math.max(1, width));
    const rows = this.bars.reduce((most, { call }) => Math.max(most, call.depth), 0) + 1;
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    canvas.style.height = `${rows * ROW}px`;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(rows * ROW * ratio)];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11.5px ${ink("font-numbers")}`;
    context.textBaseline = "middle";
    for (const { call, from, to } of this.bars) {
      const [x, wide, y] = [from * width, (to - from) * width, (rows - 1 - call.depth) * ROW];
      const [r, g, b] = tintOf(call, calls, this.isFound(call)).map((part) => Math.round(part * 255));
      context.fillStyle = `rgb(${r} ${g} ${b})`;
      context.fillRect(x, y, Math.max(0.5, wide - 0.7), ROW - 1);
      if (wide < 26) continue;
      context.fillStyle = "#17120d";
      const room = Math.floor((wide - 8) / 6.2);
      context.fillText(call.name.length <= room ? call.name : `${call.name.slice(0, Math.max(1, room - 1))}…`, x + 4, y + ROW / 2);
    }
    canvas.dataset["view"] = JSON.stringify({ frames: this.bars.length, rows, top: top.name, found: this.bars.filter(({ call }) => this.isFound(call)).length });
  }

  private at(x: number, y: number): Call | null {
    const rows = Math.round(this.canvas.clientHeight / ROW);
    const depth = rows - 1 - Math.floor(y / ROW);
    const part = x / Math.max(1, this.canvas.clientWidth);
    return this.bars.find(({ call, from, to }) => call.depth === depth && part >= from && part < to)?.call ?? null;
  }
}
