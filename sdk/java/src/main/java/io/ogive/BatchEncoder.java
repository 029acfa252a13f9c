package io.ogive;

import com.google.flatbuffers.FlatBufferBuilder;
import io.ogive.wire.Batch;
import io.ogive.wire.Floats;
import io.ogive.wire.Histograms;
import io.ogive.wire.Scheme;
import io.ogive.wire.SchemeKind;
import io.ogive.wire.Series;
import io.ogive.wire.Texts;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/** The native batch (docs/formats/batch.md): every series declared, all samples at one time, in a checksummed frame. */
final class BatchEncoder {
  private BatchEncoder() {}

  /** What a sample is of; labels are name, value, name, value ... */
  record SeriesOf(List<String> labels, String unit, int kind, int temporality) {
    static List<String> flat(Map<String, String> labels) {
      return labels.entrySet().stream().flatMap(label -> Stream.of(label.getKey(), label.getValue())).toList();
    }
  }

  /** One value at the end of a cell: a histogram, a text, or a number where both are null. */
  record Sample(SeriesOf series, double number, Histogram cell, String text) {
    static Sample ofNumber(SeriesOf series, double number) {
      return new Sample(series, number, null, null);
    }

    static Sample ofCell(SeriesOf series, Histogram cell) {
      return new Sample(series, 0, cell, null);
    }

    static Sample ofText(SeriesOf series, String text) {
      return new Sample(series, 0, null, text);
    }
  }

  static byte[] encode(UUID source, long sequence, long endMillis, long widthMillis, List<Sample> samples) {
    FlatBufferBuilder builder = new FlatBufferBuilder(4096);
    // A series has one place, however many samples it has.
    Map<SeriesOf, Integer> places = new LinkedHashMap<>();
    int[] placeOf = samples.stream().mapToInt(sample -> places.computeIfAbsent(sample.series, key -> places.size())).toArray();
    int[] declared = places.keySet().stream().mapToInt(one -> series(builder, one, widthMillis)).toArray();
    int series = Batch.createSeriesVector(builder, declared);
    int[] floats = those(samples, sample -> sample.cell == null && sample.text == null);
    int[] cells = those(samples, sample -> sample.cell != null);
    int[] texts = those(samples, sample -> sample.text != null);
    long time = endMillis * 1_000_000;
    int floatTable = floats.length > 0 ? floats(builder, floats, placeOf, time, samples) : 0;
    int cellTable = cells.length > 0 ? cells(builder, cells, placeOf, time, samples) : 0;
    int textTable = texts.length > 0 ? texts(builder, texts, placeOf, time, samples) : 0;
    int schemes = 0;
    if (cells.length > 0) {
      Scheme.startScheme(builder);
      Scheme.addKind(builder, SchemeKind.LogLinear10);
      schemes = Batch.createSchemesVector(builder, new int[] {Scheme.endScheme(builder)});
    }
    Batch.startBatch(builder);
    Batch.addSourceLow(builder, source.getLeastSignificantBits());
    Batch.addSourceHigh(builder, source.getMostSignificantBits());
    Batch.addSequence(builder, sequence);
    Batch.addSeries(builder, series);
    if (floats.length > 0) {
      Batch.addFloats(builder, floatTable);
    }
    if (cells.length > 0) {
      Batch.addSchemes(builder, schemes);
      Batch.addHistograms(builder, cellTable);
    }
    if (texts.length > 0) {
      Batch.addTexts(builder, textTable);
    }
    builder.finish(Batch.endBatch(builder));
    return framed(builder.sizedByteArray());
  }

  private static int series(FlatBufferBuilder builder, SeriesOf series, long widthMillis) {
    int[] texts = series.labels.stream().mapToInt(builder::createString).toArray();
    int labels = Series.createLabelsVector(builder, texts);
    int unit = builder.createString(series.unit);
    Series.startSeries(builder);
    Series.addLabels(builder, labels);
    Series.addUnit(builder, unit);
    Series.addWidthMs(builder, widthMillis);
    Series.addKind(builder, series.kind);
    Series.addTemporality(builder, series.temporality);
    return Series.endSeries(builder);
  }

  private static int[] those(List<Sample> samples, Predicate<Sample> kind) {
    return IntStream.range(0, samples.size()).filter(at -> kind.test(samples.get(at))).toArray();
  }

  private static long[] numbers(int[] at, int[] placeOf) {
    return IntStream.of(at).mapToLong(sample -> placeOf[sample]).toArray();
  }

  private static int texts(FlatBufferBuilder builder, int[] at, int[] placeOf, long time, List<Sample> samples) {
    int[] written = IntStream.of(at).map(sample -> builder.createString(samples.get(sample).text)).toArray();
    int values = Texts.createValueVector(builder, written);
    int times = Texts.createTimeNsVector(builder, IntStream.of(at).mapToLong(sample -> time).toArray());
    return Texts.createTexts(builder, Texts.createSeriesVector(builder, numbers(at, placeOf)), times, values);
  }

  private static int floats(FlatBufferBuilder builder, int[] at, int[] placeOf, long time, List<Sample> samples) {
    int series = Floats.createSeriesVector(builder, numbers(at, placeOf));
    int times = Floats.createTimeNsVector(builder, IntStream.of(at).mapToLong(place -> time).toArray());
    int values = Floats.createValueVector(builder, IntStream.of(at).mapToDouble(place -> samples.get(place).number).toArray());
    Floats.startFloats(builder);
    Floats.addSeries(builder, series);
    Floats.addTimeNs(builder, times);
    Floats.addValue(builder, values);
    return Floats.endFloats(builder);
  }

  private static int cells(FlatBufferBuilder builder, int[] at, int[] placeOf, long time, List<Sample> samples) {
    ByteArrayOutputStream bins = new ByteArrayOutputStream();
    long[] ends = new long[at.length];
    byte[] flags = new byte[at.length];
    double[][] exact = new double[3][at.length];
    for (int n = 0; n < at.length; n++) {
      Histogram cell = samples.get(at[n]).cell;
      appendBins(bins, cell);
      ends[n] = bins.size();
      boolean extremes = !Double.isNaN(cell.min());
      flags[n] = (byte) ((cell.isSumExact() ? 1 : 0) | (extremes ? 6 : 0));
      exact[0][n] = cell.isSumExact() ? cell.exactSum() : 0;
      exact[1][n] = extremes ? cell.min() : 0;
      exact[2][n] = extremes ? cell.max() : 0;
    }
    int data = Histograms.createBinsVector(builder, bins.toByteArray());
    int binsEnd = Histograms.createBinsEndVector(builder, ends);
    int max = Histograms.createMaxVector(builder, exact[2]);
    int min = Histograms.createMinVector(builder, exact[1]);
    int sum = Histograms.createSumVector(builder, exact[0]);
    int known = Histograms.createFlagsVector(builder, flags);
    int schemes = Histograms.createSchemeVector(builder, new long[at.length]);
    int times = Histograms.createTimeNsVector(builder, IntStream.of(at).mapToLong(place -> time).toArray());
    int series = Histograms.createSeriesVector(builder, numbers(at, placeOf));
    Histograms.startHistograms(builder);
    Histograms.addSeries(builder, series);
    Histograms.addTimeNs(builder, times);
    Histograms.addScheme(builder, schemes);
    Histograms.addFlags(builder, known);
    Histograms.addSum(builder, sum);
    Histograms.addMin(builder, min);
    Histograms.addMax(builder, max);
    Histograms.addBinsEnd(builder, binsEnd);
    Histograms.addBins(builder, data);
    return Histograms.endHistograms(builder);
  }

  /** The varints of one histogram's bins. */
  private static void appendBins(ByteArrayOutputStream to, Histogram cell) {
    int negative = cell.first();
    while (negative < cell.length && cell.keys[negative] < 0) {
      negative++;
    }
    int positive = negative < cell.length && cell.keys[negative] == 0 ? negative + 1 : negative;
    varint(to, positive > negative ? cell.counts[negative] : 0);
    varint(to, cell.nan());
    varint(to, negative - cell.first());
    int last = 0;
    for (int at = negative - 1; at >= cell.first(); at--) {
      last = bin(to, cell, at, last);
    }
    varint(to, cell.length - positive);
    last = 0;
    for (int at = positive; at < cell.length; at++) {
      last = bin(to, cell, at, last);
    }
  }

  private static int bin(ByteArrayOutputStream to, Histogram cell, int at, int last) {
    int index = Math.abs(cell.keys[at]) - 1;
    int distance = index - last;
    varint(to, Integer.toUnsignedLong(distance << 1 ^ distance >> 31));
    varint(to, cell.counts[at]);
    return index;
  }

  private static void varint(ByteArrayOutputStream to, long value) {
    long rest = value;
    for (; (rest & ~127L) != 0; rest >>>= 7) {
      to.write((int) (rest & 127 | 128));
    }
    to.write((int) rest);
  }

  private static byte[] framed(byte[] message) {
    ByteBuffer frame = ByteBuffer.allocate(16 + message.length).order(ByteOrder.LITTLE_ENDIAN);
    frame.put(new byte[] {'O', 'G', 'V', 'F'}).putShort((short) 1).putShort((short) 0).putInt(message.length);
    CRC32C crc = new CRC32C();
    crc.update(frame.array(), 0, 12);
    crc.update(message);
    return frame.putInt((int) crc.getValue()).put(message).array();
  }
}
