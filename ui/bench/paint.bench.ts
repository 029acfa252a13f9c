// How long does it take to lay out and paint a full heat map? A frame at 60 Hz is 16.7 ms.
import { bench } from "vitest";
import { ValueAxis } from "../src/axis.ts";
import { BinTable, type WireColumn } from "../src/bins.ts";
import { greatest, layOut, paint, shadesOf, type Look } from "../src/cells.ts";
import { palette, paletteWords } from "../src/colour.ts";

const words = paletteWords(palette("ember", "dark"));
const table = new BinTable();
const bins: WireColumn["bins"] = [];
for (let i = 0; i < 200; i++) bins.push([10 ** (i / 50), 10 ** ((i + 1) / 50), i + 1]);
const columns = Array.from({ length: 1800 }, (_, t) => table.column({ t, count: 20100, sum: null, min: null, max: null, bins }));
const rows = 600;
const axis = new ValueAxis({ positive: { lo: 1, hi: 1e4 }, negative: null, zero: false }, rows);
const usual = Float64Array.from(bins, (bin) => Number(bin[2]));
const look: Look = {
  axis,
  shades: shadesOf(words, "linear"),
  empty: words[0] as number,
  density: true,
  usual,
  max: greatest(table, columns, axis, true, usual),
};
const out = new Uint32Array(2048 * rows);
const amounts = new Float64Array(rows);

bench("1,800 columns of 200 bins on 600 rows", () => {
  const geometry = layOut(table, axis, true, usual);
  columns.forEach((column, x) => paint(column, geometry, look, amounts, out, x * rows));
});
