package io.ogive;

import java.util.Arrays;

/**
 * Counted bins of the LogLinear10 scheme, with exact merges. Counts are unsigned longs that saturate at 2^64-1; where one may pass
 * 2^63, print it with {@link Long#toUnsignedString(long)}. Not safe for concurrent use; {@link Recorder} is.
 */
public final class Histogram {
  /** All bins that there are. */
  public static final int BINS_MAX = 2 + 2 * 90 * 256;

  /** Filled bins, ascending by key. */
  int[] keys = new int[8];
  long[] counts = new long[8];
  int length;
  private double sum;
  private double min;
  private double max;
  private boolean sumKnown;
  private boolean extremesKnown;

  /** What walks through bins. */
  @FunctionalInterface
  public interface BinConsumer {
    /** Takes a bin and its count, an unsigned long. */
    void accept(Bin bin, long count);
  }

  /** Counts one sample. */
  public void record(double value) {
    record(value, 1);
  }

  /** Counts a sample {@code count} times, an unsigned long. */
  public void record(double value, long count) {
    if (count == 0) {
      return;
    }
    int key = Bin.keyOf(value);
    if (key != Bin.NAN_KEY) {
      boolean first = first() == length;
      sum = first ? value * unsigned(count) : sum + value * unsigned(count);
      min = first ? value : Math.min(min, value);
      max = first ? value : Math.max(max, value);
      sumKnown |= first;
      extremesKnown |= first;
    }
    add(key, count);
  }

  /**
   * Counts samples of a bin. Sum and extremes are then not known.
   *
   * @throws IllegalArgumentException for an invalid bin
   */
  public void recordBin(Bin bin, long count) {
    if (!bin.isValid()) {
      throw new IllegalArgumentException(bin + " is no bin");
    }
    if (count == 0) {
      return;
    }
    if (!bin.equals(Bin.NAN)) {
      forget();
    }
    add(bin.key(), count);
  }

  void add(int key, long count) {
    // What is recorded in order goes to the end.
    int at = length > 0 && keys[length - 1] < key ? -length - 1 : Arrays.binarySearch(keys, 0, length, key);
    if (at >= 0) {
      counts[at] = saturating(counts[at], count);
      return;
    }
    at = -at - 1;
    if (length == keys.length) {
      keys = Arrays.copyOf(keys, 2 * length);
      counts = Arrays.copyOf(counts, 2 * length);
    }
    System.arraycopy(keys, at, keys, at + 1, length - at);
    System.arraycopy(counts, at, counts, at + 1, length - at);
    keys[at] = key;
    counts[at] = count;
    length++;
  }

  static long saturating(long a, long b) {
    long sum = a + b;
    return Long.compareUnsigned(sum, a) < 0 ? -1L : sum;
  }

  static double unsigned(long count) {
    return count >= 0 ? count : ((count >>> 1) | (count & 1)) * 2.0;
  }

  /** Adds what is known of others beside their bins, before their bins are added. */
  private void join(Histogram other) {
    if (first() == length) {
      sum = other.sum;
      min = other.min;
      max = other.max;
      sumKnown = other.sumKnown;
      extremesKnown = other.extremesKnown;
      return;
    }
    sum += other.sum;
    min = Math.min(min, other.min);
    max = Math.max(max, other.max);
    sumKnown &= other.sumKnown;
    extremesKnown &= other.extremesKnown;
  }

  void forget() {
    sumKnown = false;
    extremesKnown = false;
  }

  void setExact(double exactSum, double least, double greatest) {
    sum = exactSum;
    min = least;
    max = greatest;
    sumKnown = true;
    extremesKnown = true;
  }

  void forgetExtremes() {
    extremesKnown = false;
  }

  /** The place of the first bin that is a number. */
  int first() {
    return length > 0 && keys[0] == Bin.NAN_KEY ? 1 : 0;
  }

  /** All samples, those that are not numbers included: an unsigned long that saturates. */
  public long count() {
    return total(0);
  }

  /** Samples that are numbers. */
  public long real() {
    return total(first());
  }

  private long total(int from) {
    long total = 0;
    for (int at = from; at < length; at++) {
      total = saturating(total, counts[at]);
    }
    return total;
  }

  /** Samples that are not numbers, infinite, or not below 1e128. */
  public long nan() {
    return first() == 1 ? counts[0] : 0;
  }

  /** Walks through the filled bins: NaN, then ascending on the real axis. */
  public void forEach(BinConsumer consumer) {
    for (int at = 0; at < length; at++) {
      consumer.accept(Bin.ofKey(keys[at]), counts[at]);
    }
  }

  /** Whether the sum is known exactly. */
  public boolean isSumExact() {
    return sumKnown && first() < length;
  }

  /** The least sample where it is known, else NaN. */
  public double min() {
    return extremesKnown && first() < length ? min : Double.NaN;
  }

  /** The greatest sample where it is known, else NaN. */
  public double max() {
    return extremesKnown && first() < length ? max : Double.NaN;
  }

  double exactSum() {
    return sum;
  }

  /** An independent copy. */
  public Histogram copy() {
    Histogram copy = new Histogram();
    copy.join(this);
    copy.keys = keys.clone();
    copy.counts = counts.clone();
    copy.length = length;
    return copy;
  }

  /** Adds the samples of another histogram. Bins merge exactly. */
  public void merge(Histogram other) {
    if (other.first() < other.length) {
      join(other);
    }
    // Bins that both have are added where they are; then those that are missing are put in from the end, if there are any.
    int missing = 0;
    int at = 0;
    for (int from = 0; from < other.length; from++) {
      while (at < length && keys[at] < other.keys[from]) {
        at++;
      }
      if (at < length && keys[at] == other.keys[from]) {
        counts[at] = saturating(counts[at], other.counts[from]);
      } else {
        missing++;
      }
    }
    if (missing > 0) {
      insert(other, missing);
    }
  }

  /** Puts in what bins of another are missing here, as many as {@code missing} says. */
  private void insert(Histogram other, int missing) {
    int from = length;
    length += missing;
    if (length > keys.length) {
      keys = Arrays.copyOf(keys, Math.max(length, 2 * keys.length));
      counts = Arrays.copyOf(counts, keys.length);
    }
    int left = missing;
    for (int at = other.length - 1; left > 0; at--) {
      while (from > 0 && keys[from - 1] > other.keys[at]) {
        from--;
        keys[from + left] = keys[from];
        counts[from + left] = counts[from];
      }
      if (from == 0 || keys[from - 1] < other.keys[at]) {
        left--;
        keys[from + left] = other.keys[at];
        counts[from + left] = other.counts[at];
      }
    }
  }

  /**
   * Takes the samples of another histogram away. Sum and extremes are then not known.
   *
   * @return how many bins held fewer than were to be taken; those are left empty
   */
  public int subtract(Histogram other) {
    Histogram taken = other == this ? copy() : other;
    int missing = 0;
    for (int at = 0; at < taken.length; at++) {
      if (Long.compareUnsigned(take(taken.keys[at], taken.counts[at]), taken.counts[at]) < 0) {
        missing++;
      }
    }
    if (taken.first() < taken.length) {
      forget();
    }
    return missing;
  }

  /** Takes up to {@code count} samples of the bin of {@code value} away, and returns how many. */
  public long remove(double value, long count) {
    int key = Bin.keyOf(value);
    long taken = take(key, count);
    if (taken != 0 && key != Bin.NAN_KEY) {
      forget();
    }
    return taken;
  }

  private long take(int key, long count) {
    int at = Arrays.binarySearch(keys, 0, length, key);
    if (at < 0) {
      return 0;
    }
    long taken = Long.compareUnsigned(count, counts[at]) < 0 ? count : counts[at];
    counts[at] -= taken;
    if (counts[at] == 0) {
      drop(at);
    }
    return taken;
  }

  private void drop(int at) {
    System.arraycopy(keys, at + 1, keys, at, length - at - 1);
    System.arraycopy(counts, at + 1, counts, at, length - at - 1);
    length--;
  }

  /** Keeps the bins that touch [lower, upper]; the NaN bin goes too. */
  public void clamp(double lower, double upper) {
    int low = Bin.keyOf(lower);
    int high = Bin.keyOf(upper);
    for (int at = length - 1; at >= 0; at--) {
      Bin bin = Bin.ofKey(keys[at]);
      double lo = keys[at] == 0 ? -Bin.power(-128) : bin.lower();
      double hi = keys[at] == 0 ? Bin.power(-128) : bin.upper();
      if (keys[at] == Bin.NAN_KEY || !(lo <= upper && hi >= lower || keys[at] == low || keys[at] == high)) {
        drop(at);
      }
    }
    forget();
  }

  /**
   * Makes the histogram coarser near zero: bins with a decimal exponent below the given one go to the zero bin, those with it to the
   * whole digit below. From an exponent of 0 on, NaN goes to the zero bin too, as in OpenHistogram.
   */
  public void compressBelow(int exponent) {
    Histogram compressed = new Histogram();
    for (int at = 0; at < length; at++) {
      Bin bin = Bin.ofKey(keys[at]);
      int key = keys[at];
      if (key == Bin.NAN_KEY) {
        key = exponent >= 0 ? 0 : key;
      } else if (key != 0 && bin.exp() < exponent) {
        key = 0;
      } else if (key != 0 && bin.exp() == exponent) {
        key = new Bin((byte) (bin.val() - bin.val() % 10), bin.exp()).key();
      }
      compressed.add(key, counts[at]);
    }
    keys = compressed.keys;
    counts = compressed.counts;
    length = compressed.length;
    forget();
  }
}
