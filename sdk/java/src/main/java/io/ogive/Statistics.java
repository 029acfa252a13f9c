package io.ogive;

import java.util.function.DoubleBinaryOperator;

/** Statistics of a histogram, defined in docs/formats/openhistogram.md. Samples in the NaN bin are in none of them. */
public final class Statistics {
  private Statistics() {}

  /** An estimate with what is certain: the sample of its rank lies between lo and hi. */
  public record Quantile(double value, double lo, double hi) {}

  private record Found(Bin bin, double below, double count) {}

  private static double total(Histogram h) {
    double total = 0;
    for (int at = h.first(); at < h.length; at++) {
      total += Histogram.unsigned(h.counts[at]);
    }
    return total;
  }

  /** The bin at whose end at least {@code rank} samples have passed, or the last. */
  private static Found walk(Histogram h, double rank) {
    double passed = 0;
    for (int at = h.first(); ; at++) {
      double count = Histogram.unsigned(h.counts[at]);
      if (passed + count >= rank || at == h.length - 1) {
        return new Found(Bin.ofKey(h.keys[at]), passed, count);
      }
      passed += count;
    }
  }

  /** The q quantile, {@code 0 <= q <= 1}: rank max(1, ceil(q n)). Null without samples or with another q. */
  public static Quantile quantile(Histogram h, double q) {
    double n = total(h);
    if (!(q >= 0 && q <= 1) || n == 0) {
      return null;
    }
    double rank = q * n;
    // A rounding of q n (0.07 * 100 is 7.000000000000001) must not move the answer to the next sample.
    double nearest = Math.rint(rank);
    rank = Math.abs(rank - nearest) <= nearest * 0x1p-51 ? nearest : Math.ceil(rank);
    rank = Math.min(Math.max(rank, 1), n);
    Found found = walk(h, rank);
    double lo = found.bin.lower();
    double hi = found.bin.upper();
    double min = h.min();
    double max = h.max();
    if (lo <= max && max <= hi) {
      hi = max;
    }
    if (lo <= min && min <= hi) {
      lo = min;
    }
    if (rank >= n && hi == max) {
      lo = hi;
    } else if (rank <= 1 && lo == min) {
      hi = lo;
    }
    double share = Math.min(Math.max((rank - found.below) / (found.count + 1), 0), 1);
    return new Quantile(Math.min(Math.max(lo + (hi - lo) * share, lo), hi), lo, hi);
  }

  /** OpenHistogram's type 1: the k-th of c samples of a bin stands at left + k/(c+1) of its width. */
  public static double quantileType1(Histogram h, double q) {
    return q >= 0 && q <= 1 ? spread(h, total(h) * q) : Double.NaN;
  }

  /** OpenHistogram's type 7: as type 1, for the sample of rank floor((n-1) q + 1). */
  public static double quantileType7(Histogram h, double q) {
    return q >= 0 && q <= 1 ? spread(h, Math.floor((total(h) - 1) * q + 1)) : Double.NaN;
  }

  private static double spread(Histogram h, double rank) {
    if (h.first() == h.length) {
      return Double.NaN;
    }
    Found found = walk(h, rank);
    double lo = found.bin.lower();
    return lo + (found.bin.upper() - lo) * (Math.max(Math.ceil(rank - found.below), 1) / (found.count + 1));
  }

  /** The share of samples below x, linear inside the bin that holds it. NaN without samples. */
  public static double fractionBelow(Histogram h, double x) {
    double n = total(h);
    if (Double.isNaN(x) || n == 0) {
      return Double.NaN;
    }
    double below = 0;
    for (int at = h.first(); at < h.length; at++) {
      Bin bin = Bin.ofKey(h.keys[at]);
      double lo = h.keys[at] == 0 ? Bin.power(-128) : bin.lower();
      double hi = h.keys[at] == 0 ? Bin.power(-128) : bin.upper();
      double count = Histogram.unsigned(h.counts[at]);
      if (x < hi) {
        below += x > lo ? count * ((x - lo) / (hi - lo)) : 0;
        break;
      }
      below += count;
    }
    return Math.min(below / n, 1);
  }

  /** Samples in the bins below that of x, with it (inclusive) or without: an unsigned long. */
  public static long countBelow(Histogram h, double x, boolean inclusive) {
    return countWhere(h, x, -1, inclusive ? 0 : -1);
  }

  /** Samples in the bins above that of x, with it (inclusive) or without. */
  public static long countAbove(Histogram h, double x, boolean inclusive) {
    return countWhere(h, x, inclusive ? 0 : 1, 1);
  }

  /** Samples in the bin of x. */
  public static long countNearby(Histogram h, double x) {
    return countWhere(h, x, 0, 0);
  }

  private static long countWhere(Histogram h, double x, int least, int most) {
    if (Double.isNaN(x)) {
      return 0;
    }
    int key = Bin.keyOf(x);
    int at = key != Bin.NAN_KEY ? key : x > 0 ? Integer.MAX_VALUE : Integer.MIN_VALUE;
    long sum = 0;
    for (int place = h.first(); place < h.length; place++) {
      int order = Integer.compare(h.keys[place], at);
      if (order >= least && order <= most) {
        sum = Histogram.saturating(sum, h.counts[place]);
      }
    }
    return sum;
  }

  /** A sum over midpoints and counts that carries its rounding error along (Neumaier). */
  private static double over(Histogram h, DoubleBinaryOperator term) {
    double sum = 0;
    double lost = 0;
    for (int at = h.first(); at < h.length; at++) {
      double next = term.applyAsDouble(Bin.ofKey(h.keys[at]).midpoint(), Histogram.unsigned(h.counts[at]));
      double both = sum + next;
      lost += Math.abs(sum) >= Math.abs(next) ? sum - both + next : next - both + sum;
      sum = both;
    }
    return Double.isFinite(lost) ? sum + lost : sum;
  }

  /** The exact sum where it is known, else that of the midpoints. */
  public static double sum(Histogram h) {
    return h.isSumExact() ? h.exactSum() : over(h, (middle, count) -> middle * count);
  }

  /** The mean: exact where the sum is known, else of the midpoints. NaN without samples. */
  public static double mean(Histogram h) {
    double n = total(h);
    return n == 0 ? Double.NaN : h.isSumExact() ? h.exactSum() / n : meanOfBins(h, n);
  }

  private static double meanOfBins(Histogram h, double n) {
    return over(h, (middle, count) -> middle * (count / n));
  }

  /** The standard deviation of the midpoints around their mean, in two passes. NaN without samples. */
  public static double standardDeviation(Histogram h) {
    double n = total(h);
    if (n == 0) {
      return Double.NaN;
    }
    double mean = meanOfBins(h, n);
    // The greatest deviation scales the squares, so that they neither overflow nor vanish.
    double scale = 0;
    for (int at = h.first(); at < h.length; at++) {
      scale = Math.max(scale, Math.abs(Bin.ofKey(h.keys[at]).midpoint() - mean));
    }
    if (scale == 0 || !Double.isFinite(scale)) {
      return scale;
    }
    double by = scale;
    return scale * Math.sqrt(Math.max(over(h, (middle, count) -> (middle - mean) / by * ((middle - mean) / by) * (count / n)), 0));
  }

  /** The k-th raw moment as OpenHistogram has it: the sum of midpoint^k count, divided by n^k. NaN without samples. */
  public static double openHistogramMoment(Histogram h, int k) {
    double n = total(h);
    return n == 0 ? Double.NaN : over(h, (middle, count) -> Math.pow(middle, k) * count) / Math.pow(n, k);
  }
}
