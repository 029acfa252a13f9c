// The native batch (docs/formats/batch.md): every series declared, all samples at one time, in a checksummed frame.

import { Builder } from "flatbuffers";

import { type Key } from "./bin.js";
import { type Histogram } from "./histogram.js";
import { Batch } from "./wire/batch.js";
import { Floats } from "./wire/floats.js";
import { Histograms } from "./wire/histograms.js";
import { Kind } from "./wire/kind.js";
import { SchemeKind } from "./wire/scheme-kind.js";
import { Scheme } from "./wire/scheme.js";
import { Series } from "./wire/series.js";
import { Temporality } from "./wire/temporality.js";

export { Kind, Temporality };

/** What a sample is of. `labels` is name, value, name, value … */
export interface SeriesOf {
  readonly labels: readonly string[];
  readonly unit: string;
  readonly kind: Kind;
  readonly temporality: Temporality;
}

/** One value at the end of a cell. */
export interface Sample {
  readonly series: SeriesOf;
  readonly value: number | Histogram;
}

/** A sender's 128-bit identity. */
export type Source = { readonly low: bigint; readonly high: bigint };

/** Encodes samples of cells of `widthMs` that end at `endMs` since 1970. */
export function encodeBatch(source: Source, sequence: bigint, endMs: number, widthMs: number, samples: readonly Sample[]): Uint8Array {
  const builder = new Builder(4096);
  const declared = samples.map(({ series }) => encodeSeries(builder, series, widthMs));
  const series = Batch.createSeriesVector(builder, declared);
  const places = samples.map((_, at) => at);
  const floats = places.filter((at) => typeof samples[at].value === "number");
  const cells = places.filter((at) => typeof samples[at].value !== "number");
  const time = BigInt(Math.round(endMs)) * 1_000_000n;
  const floatTable = floats.length > 0 ? encodeFloats(builder, floats, time, samples) : 0;
  const cellTable = cells.length > 0 ? encodeCells(builder, cells, time, samples) : 0;
  let schemes = 0;
  if (cells.length > 0) {
    Scheme.startScheme(builder);
    Scheme.addKind(builder, SchemeKind.LogLinear10);
    schemes = Batch.createSchemesVector(builder, [Scheme.endScheme(builder)]);
  }
  Batch.startBatch(builder);
  Batch.addSourceLow(builder, source.low);
  Batch.addSourceHigh(builder, source.high);
  Batch.addSequence(builder, sequence);
  Batch.addSeries(builder, series);
  if (floats.length > 0) Batch.addFloats(builder, floatTable);
  if (cells.length > 0) {
    Batch.addSchemes(builder, schemes);
    Batch.addHistograms(builder, cellTable);
  }
  builder.finish(Batch.endBatch(builder));
  return framed(builder.asUint8Array());
}

function encodeSeries(builder: Builder, { labels, unit, kind, temporality }: SeriesOf, widthMs: number): number {
  const texts = Series.createLabelsVector(builder, labels.map((label) => builder.createSharedString(label)));
  const unitText = builder.createSharedString(unit);
  Series.startSeries(builder);
  Series.addLabels(builder, texts);
  Series.addUnit(builder, unitText);
  Series.addWidthMs(builder, widthMs);
  Series.addKind(builder, kind);
  Series.addTemporality(builder, temporality);
  return Series.endSeries(builder);
}

function encodeFloats(builder: Builder, at: number[], time: bigint, samples: readonly Sample[]): number {
  const series = Floats.createSeriesVector(builder, at);
  const times = longs(builder, at.map(() => time));
  const values = Floats.createValueVector(builder, at.map((place) => samples[place].value as number));
  Floats.startFloats(builder);
  Floats.addSeries(builder, series);
  Floats.addTimeNs(builder, times);
  Floats.addValue(builder, values);
  return Floats.endFloats(builder);
}

function encodeCells(builder: Builder, at: number[], time: bigint, samples: readonly Sample[]): number {
  const bins: number[] = [];
  const cells = at.map((place) => samples[place].value as Histogram);
  const ends = cells.map((cell) => {
    appendBins(bins, cell);
    return bins.length;
  });
  const data = Histograms.createBinsVector(builder, bins);
  const binsEnd = Histograms.createBinsEndVector(builder, ends);
  const max = Histograms.createMaxVector(builder, cells.map(({ exact }) => exact?.max ?? 0));
  const min = Histograms.createMinVector(builder, cells.map(({ exact }) => exact?.min ?? 0));
  const sum = Histograms.createSumVector(builder, cells.map(({ exact }) => exact?.sum ?? 0));
  const flags = Histograms.createFlagsVector(builder, cells.map(({ exact }) => (exact === null ? 0 : 7)));
  const schemes = Histograms.createSchemeVector(builder, cells.map(() => 0));
  const times = longs(builder, at.map(() => time));
  const series = Histograms.createSeriesVector(builder, at);
  Histograms.startHistograms(builder);
  Histograms.addSeries(builder, series);
  Histograms.addTimeNs(builder, times);
  Histograms.addScheme(builder, schemes);
  Histograms.addFlags(builder, flags);
  Histograms.addSum(builder, sum);
  Histograms.addMin(builder, min);
  Histograms.addMax(builder, max);
  Histograms.addBinsEnd(builder, binsEnd);
  Histograms.addBins(builder, data);
  return Histograms.endHistograms(builder);
}

function longs(builder: Builder, values: bigint[]): number {
  builder.startVector(8, values.length, 8);
  for (const value of values.reverse()) builder.addInt64(value);
  return builder.endVector();
}

/** Appends the varints of one histogram's bins. */
export function appendBins(to: number[], histogram: Histogram): void {
  const entries = [...histogram.numbers()];
  varint(to, entries.find(([key]) => key === 0)?.[1] ?? 0n);
  varint(to, histogram.nan);
  const side = (bins: Array<[Key, bigint]>): void => {
    varint(to, BigInt(bins.length));
    let last = 0;
    for (const [key, count] of bins) {
      const index = Math.abs(key) - 1;
      const distance = index - last;
      varint(to, BigInt(distance < 0 ? -2 * distance - 1 : 2 * distance));
      varint(to, count);
      last = index;
    }
  };
  side(entries.filter(([key]) => key < 0).reverse());
  side(entries.filter(([key]) => key > 0));
}

function varint(to: number[], value: bigint): void {
  let rest = value;
  for (; rest > 127n; rest >>= 7n) to.push(Number(rest & 127n) | 128);
  to.push(Number(rest));
}

const CASTAGNOLI = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value;
});

/** CRC32C of several pieces (RFC 3720, appendix B.4). */
export function crc32c(...pieces: Uint8Array[]): number {
  let crc = 0xffffffff;
  for (const piece of pieces) for (const byte of piece) crc = (crc >>> 8) ^ CASTAGNOLI[(crc ^ byte) & 255];
  return ~crc >>> 0;
}

function framed(message: Uint8Array): Uint8Array {
  const frame = new Uint8Array(16 + message.length);
  const view = new DataView(frame.buffer);
  frame.set([0x4f, 0x47, 0x56, 0x46]);
  view.setUint16(4, 1, true);
  view.setUint32(8, message.length, true);
  view.setUint32(12, crc32c(frame.subarray(0, 12), message), true);
  frame.set(message, 16);
  return frame;
}
