package io.ogive;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counts durations of any number of threads: no lock, and no allocation. Counters only grow, and who takes keeps what it saw of
 * each, so that nothing is lost or taken twice whatever the writers do meanwhile.
 */
public final class Recorder {
  /** Flat bins of nanoseconds: 0 is the zero bin, then those of 1 ns and above. */
  private static final int FLAT_BINS = 2048;
  /** What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
  private static final int FLAT_TO_KEY = (128 - 9) * 90;
  /** The leading bits of a value name a cell of 1/128 of it, in which lies one edge at most. */
  private static final long[] EDGES = new long[63 * 128];

  private static final short[] BINS = new short[63 * 128];

  static {
    for (int at = 0; at < EDGES.length; at++) {
      int lead = at >> 7;
      long digits = at & 127 | 128;
      int bin = flatOf(lead < 7 ? digits >> 7 - lead : digits << lead - 7);
      BINS[at] = (short) bin;
      EDGES[at] = edgeAbove(bin);
    }
    // The first cell holds 0 and 1, whose bins are neighbours.
    BINS[0] = 0;
    EDGES[0] = 1;
  }

  private final AtomicLongArray counts = new AtomicLongArray(FLAT_BINS);
  private final AtomicLong sum = new AtomicLong();
  private final AtomicLong least = new AtomicLong(Long.MAX_VALUE);
  private final AtomicLong greatest = new AtomicLong();
  private final long[] seen = new long[FLAT_BINS];
  private long seenSum;

  private static int flatOf(long nanoseconds) {
    if (nanoseconds == 0) {
      return 0;
    }
    long digits = nanoseconds;
    int exponent = 1;
    if (digits < 10) {
      digits *= 10;
      exponent = 0;
    }
    while (digits >= 100) {
      digits /= 10;
      exponent++;
    }
    return exponent * 90 + (int) digits - 9;
  }

  /** The least number of nanoseconds above a flat bin, or the greatest. */
  private static long edgeAbove(int bin) {
    long digits = (bin - 1) % 90 + 11;
    int exponent = (bin - 1) / 90;
    if (exponent == 0) {
      return (digits + 9) / 10;
    }
    for (; exponent > 1; exponent--) {
      if (digits > Long.MAX_VALUE / 10) {
        return Long.MAX_VALUE;
      }
      digits *= 10;
    }
    return digits;
  }

  static int flatBin(long nanoseconds) {
    int lead = 63 - Long.numberOfLeadingZeros(nanoseconds | 1);
    int at = lead << 7 | (int) (nanoseconds << 63 - lead >>> 56) & 127;
    return BINS[at] + (nanoseconds >= EDGES[at] ? 1 : 0);
  }

  /** Counts a duration; one below zero counts as zero. */
  public void recordNanoseconds(long nanoseconds) {
    // The greatest long would stand at the edge that no long is above.
    long value = Math.min(Math.max(nanoseconds, 0), Long.MAX_VALUE - 1);
    // The sum first, so that a take never counts a sample that is not in it.
    sum.getAndAdd(value);
    for (long held = least.get(); value < held && !least.compareAndSet(held, value); held = least.get()) {}
    for (long held = greatest.get(); value > held && !greatest.compareAndSet(held, value); held = greatest.get()) {}
    counts.getAndIncrement(flatBin(value));
  }

  /** Counts the time since {@code start}, a reading of {@link System#nanoTime()}. */
  public void since(long start) {
    recordNanoseconds(System.nanoTime() - start);
  }

  /**
   * What was counted since the last take, in seconds. The sum may hold a sample that is counted in a later take: over all takes it is
   * exact. Minimum and maximum are left out where they are not of the outermost bins.
   */
  public synchronized Histogram take() {
    Histogram taken = new Histogram();
    for (int bin = 0; bin < FLAT_BINS; bin++) {
      long count = counts.get(bin);
      if (count != seen[bin]) {
        taken.add(bin == 0 ? 0 : FLAT_TO_KEY + bin, count - seen[bin]);
        seen[bin] = count;
      }
    }
    if (taken.length == 0) {
      return taken;
    }
    long total = sum.get();
    long low = least.getAndSet(Long.MAX_VALUE);
    long high = greatest.getAndSet(0);
    taken.setExact(seconds(total - seenSum), low / 1e9, high / 1e9);
    seenSum = total;
    boolean outermost = keyOf(low) == taken.keys[0] && keyOf(high) == taken.keys[taken.length - 1];
    if (!outermost) {
      taken.forgetExtremes();
    }
    return taken;
  }

  private static int keyOf(long nanoseconds) {
    int bin = flatBin(nanoseconds);
    return bin == 0 ? 0 : FLAT_TO_KEY + bin;
  }

  /** Sums of 64 bits wrap around; a difference of two does not, below 584 years. */
  private static double seconds(long nanoseconds) {
    return Histogram.unsigned(nanoseconds) / 1e9;
  }
}
