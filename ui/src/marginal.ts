/** The distribution of all that is in view, on the heat map's own value axis, with its ogive: the cumulative curve. */

import type { Merged } from "./bins.ts";
import { accumulate, layOut } from "./cells.ts";
import type { Heatmap } from "./heatmap.ts";
import { ink } from "./theme.ts";

/** Draws bars whose length is the amount of a bin, and the share of samples at or below each edge. */
export function drawMarginal(context: CanvasRenderingContext2D, map: Heatmap, merged: Merged, density: boolean, ghost: Merged | null = null): void {
  const { sideLeft: left, sideWidth: width, top, plotHeight } = map.layout;
  context.strokeStyle = ink("line");
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, plotHeight + 1);
  const bars = density ? smooth(map, merged) : binned(map, merged);
  const max = bars.reduce((most, [, , amount]) => Math.max(most, amount), 0);
  if (max <= 0) return;
  context.fillStyle = ink("bar");
  // One path: bars filled one by one would show seams where two share a pixel.
  context.beginPath();
  for (const [from, to, amount] of bars) context.rect(left, from, Math.max(1, (amount / max) * (width - 6)), Math.max(0.5, to - from));
  context.fill();
  if (ghost !== null && ghost.total > 0) {
    // On the scale of shares: how many samples the other time has does not make it another shape.
    outline(context, density ? smooth(map, ghost) : binned(map, ghost), (merged.total / ghost.total / max) * (width - 6), left, width);
    drawOgive(context, map, ghost, left, width, true);
  }
  drawOgive(context, map, merged, left, width);
  context.font = `11px ${ink("font-numbers")}`;
  context.fillStyle = ink("muted");
  context.textBaseline = "middle";
  const labelY = top + plotHeight + 16;
  context.textAlign = "left";
  context.fillText("0", left, labelY);
  context.textAlign = "center";
  context.fillText("share ≤", left + width / 2, labelY);
  context.textAlign = "right";
  context.fillText("100 %", left + width, labelY);
}

/** The same bars of another time, as a line around them. */
function outline(context: CanvasRenderingContext2D, bars: readonly [number, number, number][], scale: number, left: number, width: number): void {
  context.save();
  context.beginPath();
  let end: number | null = null;
  for (const [from, to, amount] of [...bars].sort((a, b) => a[0] - b[0])) {
    const x = left + Math.min(width - 2, amount * scale);
    if (end === null || from - end > 1) context.moveTo(left, from);
    context.lineTo(x, from);
    context.lineTo(x, to);
    end = to;
  }
  context.strokeStyle = ink("text");
  context.globalAlpha = 0.75;
  context.setLineDash([3, 2]);
  context.lineWidth = 1;
  context.stroke();
  context.restore();
}

/** Top, bottom and amount of each bin on the axis. */
function binned(map: Heatmap, merged: Merged): [number, number, number][] {
  const { table, axis } = map;
  return merged.ids.flatMap((id, i) => (axis?.shows(table.lo[id] as number, table.hi[id] as number) === true ? [[...map.binSpan(id), merged.counts[i] as number] as [number, number, number]] : []));
}

/** Top, bottom and density of each row of pixels that has any. */
function smooth({ table, axis, layout, ratio }: Heatmap, merged: Merged): [number, number, number][] {
  if (axis === null) return [];
  const counts = new Float64Array(table.size);
  merged.ids.forEach((id, i) => (counts[id] = merged.counts[i] as number));
  const amounts = new Float64Array(Math.max(1, Math.round(axis.height)));
  accumulate(merged, layOut(table, axis, true, counts), 1, amounts);
  const bars: [number, number, number][] = [];
  amounts.forEach((amount, row) => {
    if (amount > 0) bars.push([layout.top + row / ratio, layout.top + (row + 1) / ratio, amount]);
  });
  return bars;
}

function drawOgive(context: CanvasRenderingContext2D, map: Heatmap, merged: Merged, left: number, width: number, ghost = false): void {
  const bottom = map.layout.top + map.layout.plotHeight;
  context.beginPath();
  context.moveTo(left, bottom);
  let share = 0;
  merged.ids.forEach((id, i) => {
    const [from, to] = map.binSpan(id);
    context.lineTo(left + share * width, to);
    share += (merged.counts[i] as number) / merged.total;
    context.lineTo(left + share * width, from);
  });
  context.lineTo(left + width, map.layout.top);
  if (ghost) {
    context.save();
    context.setLineDash([5, 4]);
    context.strokeStyle = ink("muted");
    context.lineWidth = 1.25;
    context.stroke();
    context.restore();
    return;
  }
  context.strokeStyle = ink("halo");
  context.lineWidth = 3.5;
  context.stroke();
  context.strokeStyle = ink("accent");
  context.lineWidth = 1.75;
  context.stroke();
}
