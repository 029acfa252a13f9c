package io.ogive.micrometer;

import io.micrometer.core.instrument.AbstractDistributionSummary;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.distribution.DistributionStatisticConfig;
import io.micrometer.core.instrument.distribution.NoopHistogram;
import io.micrometer.core.instrument.distribution.TimeWindowMax;
import io.ogive.Histogram;

/** A summary of any numbers. They are no durations, so a lock of some 50 ns guards the histogram. */
final class OgiveSummary extends AbstractDistributionSummary {
  private final TimeWindowMax max;
  private Histogram cell = new Histogram();
  private long count;
  private double total;

  OgiveSummary(Id id, Clock clock, DistributionStatisticConfig config, double scale) {
    super(id, scale, NoopHistogram.INSTANCE);
    max = new TimeWindowMax(clock, config);
  }

  /** What was recorded since the last call. */
  synchronized Histogram take() {
    Histogram taken = cell;
    cell = new Histogram();
    return taken;
  }

  @Override
  protected void recordNonNegative(double amount) {
    synchronized (this) {
      cell.record(amount);
      count++;
      total += amount;
    }
    max.record(amount);
  }

  @Override
  public synchronized long count() {
    return count;
  }

  @Override
  public synchronized double totalAmount() {
    return total;
  }

  @Override
  public double max() {
    return max.poll();
  }
}
