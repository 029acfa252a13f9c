package io.ogive;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Counts durations of one thread; any one thread takes. No atomic operation but ordered loads and stores, no lock, and no allocation.
 * Counters only grow, and who takes keeps what it saw of each, so that nothing is lost or taken twice whatever the writer does meanwhile.
 */
public final class SingleWriterRecorder {
  private static final VarHandle COUNT = MethodHandles.arrayElementVarHandle(long[].class);
  private static final VarHandle SUM;

  static {
    try {
      SUM = MethodHandles.lookup().findVarHandle(SingleWriterRecorder.class, "sum", long.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  private final long[] counts = new long[FlatBins.COUNT];
  private long sum;
  private final long[] seen = new long[FlatBins.COUNT];
  private long seenSum;

  /** Counts a duration; one below zero counts as zero. Of the one thread that writes. */
  public void recordNanoseconds(long nanoseconds) {
    if (FlatBins.isNear(nanoseconds)) {
      add(FlatBins.near(nanoseconds), nanoseconds);
    } else {
      long value = Math.max(nanoseconds, 0);
      add(FlatBins.of(value), value);
    }
  }

  private void add(int bin, long value) {
    // The writer alone changes both, so it reads them plainly. The count is released behind the sum; its partner is the acquire of a
    // take, which so never sees a sample counted that is not in the sum.
    SUM.setOpaque(this, sum + value);
    COUNT.setRelease(counts, bin, counts[bin] + 1);
  }

  /** Counts the time since {@code start}, a reading of {@link System#nanoTime()}. */
  public void since(long start) {
    recordNanoseconds(System.nanoTime() - start);
  }

  /**
   * What was counted since the last take, in seconds; minimum and maximum are not known. The sum may hold a sample that is counted in a
   * later take: over all takes it is exact.
   */
  public synchronized Histogram take() {
    Histogram taken = new Histogram();
    for (int bin = 0; bin < FlatBins.COUNT; bin++) {
      long count = (long) COUNT.getAcquire(counts, bin);
      if (count != seen[bin]) {
        taken.add(FlatBins.key(bin), count - seen[bin]);
        seen[bin] = count;
      }
    }
    if (taken.length > 0) {
      long total = (long) SUM.getOpaque(this);
      taken.setExact(FlatBins.seconds(total - seenSum), 0, 0);
      taken.forgetExtremes();
      seenSum = total;
    }
    return taken;
  }
}
