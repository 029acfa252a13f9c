package io.ogive;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counts durations of any number of threads: no lock, and no allocation. Counters only grow, and who takes keeps what it saw of
 * each, so that nothing is lost or taken twice whatever the writers do meanwhile. Where one thread alone records, {@link
 * SingleWriterRecorder} takes a fraction of the time.
 */
public final class Recorder {
  private final AtomicLongArray counts = new AtomicLongArray(FlatBins.COUNT);
  private final AtomicLong sum = new AtomicLong();
  private final AtomicLong least = new AtomicLong(Long.MAX_VALUE);
  private final AtomicLong greatest = new AtomicLong();
  private final long[] seen = new long[FlatBins.COUNT];
  private long seenSum;

  /** Counts a duration; one below zero counts as zero. */
  public void recordNanoseconds(long nanoseconds) {
    long value = Math.max(nanoseconds, 0);
    // The sum first, so that a take never counts a sample that is not in it.
    sum.getAndAdd(value);
    for (long held = least.get(); value < held && !least.compareAndSet(held, value); held = least.get()) {}
    for (long held = greatest.get(); value > held && !greatest.compareAndSet(held, value); held = greatest.get()) {}
    counts.getAndIncrement(FlatBins.of(value));
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
    for (int bin = 0; bin < FlatBins.COUNT; bin++) {
      long count = counts.get(bin);
      if (count != seen[bin]) {
        taken.add(FlatBins.key(bin), count - seen[bin]);
        seen[bin] = count;
      }
    }
    if (taken.length == 0) {
      return taken;
    }
    long total = sum.get();
    long low = least.getAndSet(Long.MAX_VALUE);
    long high = greatest.getAndSet(0);
    taken.setExact(FlatBins.seconds(total - seenSum), low / 1e9, high / 1e9);
    seenSum = total;
    boolean outermost = FlatBins.key(FlatBins.of(low)) == taken.keys[0] && FlatBins.key(FlatBins.of(high)) == taken.keys[taken.length - 1];
    if (!outermost) {
      taken.forgetExtremes();
    }
    return taken;
  }
}
