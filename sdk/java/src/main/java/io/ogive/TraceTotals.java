package io.ogive;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** What the writers of a recorder counted between two snapshots. */
final class TraceTotals {
  /** One histogram of all writers. */
  static final class Total {
    private final Histogram histogram = new Histogram();
    private long sum;
    private long least = Long.MAX_VALUE;
    private long greatest;

    /** The histogram, in seconds. Its extremes are left out where a writer that was held up could not give those of its last cell. */
    Histogram histogram() {
      if (histogram.length > 0) {
        histogram.setExact(FlatBins.seconds(sum), least / 1e9, greatest / 1e9);
        boolean outermost = least <= greatest && FlatBins.key(FlatBins.of(least)) == histogram.keys[0]
            && FlatBins.key(FlatBins.of(greatest)) == histogram.keys[histogram.length - 1];
        if (!outermost) {
          histogram.forgetExtremes();
        }
      }
      return histogram;
    }
  }

  /** What was taken of a side before. */
  static final class Seen {
    private final long[] numbers = new long[TraceSide.NUMBERS];
    private long[][] counts = new long[0][];
    private long[] sums = new long[0];
    private long[][] betweenCounts = new long[0][];
    private long[] betweenSums = new long[0];

    /** Adds what came since. */
    void drain(TraceSide side, TraceTotals into, int publisher) {
      for (int at = 0; at < numbers.length; at++) {
        into.numbers[at] += side.numbers[at] - numbers[at];
        numbers[at] = side.numbers[at];
      }
      counts = tables(counts, side.bins.length);
      sums = Arrays.copyOf(sums, side.bins.length);
      for (int at = 0; at < side.bins.length; at++) {
        Total total = at == TraceSide.GAP ? into.gaps.computeIfAbsent(publisher, key -> new Total()) : into.totals[at];
        sums[at] = drain(side.bins[at], counts[at], sums[at], total);
      }
      TraceSide.Bins[] between = side.between;
      betweenCounts = tables(betweenCounts, between.length);
      betweenSums = Arrays.copyOf(betweenSums, between.length);
      for (int at = 0; at < between.length; at++) {
        betweenSums[at] = drain(between[at], betweenCounts[at], betweenSums[at], into.between.computeIfAbsent(at, key -> new Total()));
      }
    }

    private static long[][] tables(long[][] tables, int length) {
      if (tables.length == length) {
        return tables;
      }
      long[][] more = Arrays.copyOf(tables, length);
      for (int at = tables.length; at < length; at++) {
        more[at] = new long[FlatBins.COUNT];
      }
      return more;
    }

    private static long drain(TraceSide.Bins bins, long[] counts, long sum, Total into) {
      boolean any = false;
      for (int bin = 0; bin < FlatBins.COUNT; bin++) {
        long count = bins.counts[bin] - counts[bin];
        if (count != 0) {
          into.histogram.add(FlatBins.key(bin), count);
          counts[bin] = bins.counts[bin];
          any = true;
        }
      }
      if (any) {
        into.sum += bins.sum - sum;
        into.least = Math.min(into.least, bins.least);
        into.greatest = Math.max(into.greatest, bins.greatest);
      }
      return bins.sum;
    }
  }

  final long[] numbers = new long[TraceSide.NUMBERS];
  /** As a side's, but for the gaps. */
  final Total[] totals;
  /** By publisher. */
  final Map<Integer, Total> gaps = new TreeMap<>();
  /** By name of marks. */
  final Map<Integer, Total> between = new TreeMap<>();

  TraceTotals(int points) {
    totals = new Total[TraceSide.STAGES + points - 1];
    Arrays.setAll(totals, at -> new Total());
  }

  Histogram histogram(int which) {
    return totals[which].histogram();
  }

  static Histogram histogram(Total total) {
    return total == null ? new Histogram() : total.histogram();
  }
}
