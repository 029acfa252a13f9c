package io.ogive;

import java.time.Duration;

/** Which messages a {@link TraceRecorder} keeps whole. */
public final class Threshold {
  private final double times;
  private final long floorNanos;

  private Threshold(double times, long floorNanos) {
    this.times = times;
    this.floorNanos = floorNanos;
  }

  /** Those that took longer than this. */
  public static Threshold fixed(Duration longest) {
    return new Threshold(0, longest.toNanos());
  }

  /**
   * Those that took longer than {@code times} the 99.9 % quantile of the last cell that had messages, and longer than {@code floor}; before
   * the first such cell, {@code floor} alone. 2 or 3 times keeps a handful a second.
   *
   * @throws IllegalArgumentException when the factor is not above zero
   */
  public static Threshold tail(double times, Duration floor) {
    if (!(times > 0)) {
      throw new IllegalArgumentException(times + " times the quantile");
    }
    return new Threshold(times, floor.toNanos());
  }

  long firstNanos() {
    return floorNanos;
  }

  /** The limit after a cell. */
  long nextNanos(long now, Histogram total) {
    if (times == 0 || total.length == 0) {
      return now;
    }
    // A product beyond a long becomes the greatest one.
    return Math.max((long) (Statistics.quantile(total, 0.999).value() * times * 1e9), floorNanos);
  }
}
