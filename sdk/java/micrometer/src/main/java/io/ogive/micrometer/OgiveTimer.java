package io.ogive.micrometer;

import io.micrometer.core.instrument.AbstractTimer;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.distribution.DistributionStatisticConfig;
import io.micrometer.core.instrument.distribution.NoopHistogram;
import io.micrometer.core.instrument.distribution.TimeWindowMax;
import io.micrometer.core.instrument.distribution.pause.PauseDetector;
import io.ogive.Recorder;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** A timer whose every duration is in a recorder; what Micrometer itself shows of it is its count, total and greatest. */
final class OgiveTimer extends AbstractTimer {
  private final Recorder recorder = new Recorder();
  private final LongAdder count = new LongAdder();
  private final LongAdder totalNs = new LongAdder();
  private final TimeWindowMax max;

  OgiveTimer(Id id, Clock clock, DistributionStatisticConfig config, PauseDetector pauseDetector) {
    super(id, clock, pauseDetector, TimeUnit.SECONDS, NoopHistogram.INSTANCE);
    max = new TimeWindowMax(clock, config);
  }

  Recorder recorder() {
    return recorder;
  }

  @Override
  protected void recordNonNegative(long amount, TimeUnit unit) {
    long ns = unit.toNanos(amount);
    recorder.recordNanoseconds(ns);
    count.increment();
    totalNs.add(ns);
    max.record(ns, TimeUnit.NANOSECONDS);
  }

  @Override
  public long count() {
    return count.sum();
  }

  @Override
  public double totalTime(TimeUnit unit) {
    return totalNs.sum() / (double) unit.toNanos(1);
  }

  @Override
  public double max(TimeUnit unit) {
    return max.poll(unit);
  }
}
