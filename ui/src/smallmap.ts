/** A small heat map: cells on one axis, its scale, without anything to point at. */

import type { ValueAxis } from "./axis.ts";
import type { BinTable, Column } from "./bins.ts";
import { layOut, paint, type Look } from "./cells.ts";
import { formatValue } from "./format.ts";
import { ink } from "./theme.ts";

/** Draws the columns of the slots from `first` to `last` over the whole canvas. */
export function drawCells(context: CanvasRenderingContext2D, columns: ReadonlyMap<number, Column>, table: BinTable, look: Look, [first, last]: readonly [number, number]): void {
  const { canvas } = context;
  const rows = Math.max(1, Math.round(look.axis.height));
  const geometry = layOut(table, look.axis, look.density, look.usual);
  const image = new ImageData(last - first + 1, rows);
  const words = new Uint32Array(image.data.buffer);
  const [amounts, one] = [new Float64Array(rows), new Uint32Array(rows)];
  for (let slot = first; slot <= last; slot++) {
    paint(columns.get(slot), geometry, look, amounts, one, 0);
    for (let row = 0; row < rows; row++) words[row * image.width + slot - first] = one[row] as number;
  }
  const small = new OffscreenCanvas(image.width, rows);
  small.getContext("2d")?.putImageData(image, 0, 0);
  context.fillStyle = ink("plot");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** Samples of each bin in a usual column, by id. */
export function usualOf(table: BinTable, columns: readonly Column[]): Float64Array {
  const usual = new Float64Array(table.size);
  for (const { ids, counts } of columns) ids.forEach((id, i) => (usual[id]! += (counts[i] as number) / columns.length));
  return usual;
}

export function drawScale(context: CanvasRenderingContext2D, axis: ValueAxis, unit: string): void {
  context.font = `${9 * devicePixelRatio}px ${ink("font-numbers")}`;
  context.textBaseline = "middle";
  const every = 22 * devicePixelRatio;
  let free = -every;
  for (const tick of [...axis.ticks()].filter((one) => one.major).sort((a, b) => a.at - b.at)) {
    if (tick.at - free < every || tick.at < 6 || tick.at > axis.height - 6) continue;
    free = tick.at;
    context.fillStyle = ink("grid");
    context.fillRect(0, tick.at, context.canvas.width, 1);
    context.fillStyle = ink("muted");
    context.fillText(formatValue(tick.value, unit, 3), 4 * devicePixelRatio, tick.at);
  }
}
