package io.ogive.micrometer;

import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.LongTaskTimer;
import io.micrometer.core.instrument.Measurement;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.config.NamingConvention;
import io.micrometer.core.instrument.cumulative.CumulativeCounter;
import io.micrometer.core.instrument.cumulative.CumulativeFunctionCounter;
import io.micrometer.core.instrument.cumulative.CumulativeFunctionTimer;
import io.micrometer.core.instrument.distribution.DistributionStatisticConfig;
import io.micrometer.core.instrument.distribution.pause.PauseDetector;
import io.micrometer.core.instrument.internal.DefaultGauge;
import io.micrometer.core.instrument.internal.DefaultLongTaskTimer;
import io.micrometer.core.instrument.internal.DefaultMeter;
import io.ogive.Exporter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;

/**
 * Sends what Micrometer's meters measure through an exporter, each sample exactly once: timers and summaries as histograms of every
 * sample, so that percentiles need no configuration; counters, gauges and the rest as numbers. Names are in snake case and end as
 * Prometheus' do: {@code http.server.requests} of a timer is {@code http_server_requests_seconds}. A meter whose series exists already
 * is measured and not sent, as its name is taken; {@link #unsent()} names those. Closing the registry closes the exporter.
 */
public final class OgiveMeterRegistry extends MeterRegistry {
  /** Reasons kept of meters that are not sent. */
  private static final int UNSENT_MAX = 1000;

  private final Exporter exporter;
  private final List<String> unsent = new ArrayList<>();

  /** A registry over an exporter that is its own from now on. */
  public OgiveMeterRegistry(Exporter exporter) {
    super(Clock.SYSTEM);
    this.exporter = exporter;
    config().namingConvention(NamingConvention.snakeCase);
  }

  /** What the exporter said of meters that are not sent. */
  public List<String> unsent() {
    synchronized (unsent) {
      return List.copyOf(unsent);
    }
  }

  @Override
  public void close() {
    super.close();
    exporter.close();
  }

  private String name(Meter.Id id, String ending) {
    String name = config().namingConvention().name(id.getName(), id.getType(), id.getBaseUnit());
    return name.endsWith(ending) ? name : name + ending;
  }

  private String[] labels(Meter.Id id, String... more) {
    List<String> labels = new ArrayList<>();
    for (Tag tag : id.getConventionTags(config().namingConvention())) {
      labels.add(tag.getKey());
      labels.add(tag.getValue());
    }
    labels.addAll(List.of(more));
    return labels.toArray(String[]::new);
  }

  private void send(Runnable adding) {
    try {
      adding.run();
    } catch (IllegalArgumentException taken) {
      synchronized (unsent) {
        if (unsent.size() < UNSENT_MAX) {
          unsent.add(taken.getMessage());
        }
      }
    }
  }

  private void sendCounter(String name, DoubleSupplier read, String[] labels) {
    send(() -> exporter.counter(name, read, labels));
  }

  private void sendGauge(String name, DoubleSupplier read, String[] labels) {
    send(() -> exporter.gauge(name, read, labels));
  }

  @Override
  protected Timer newTimer(Meter.Id id, DistributionStatisticConfig config, PauseDetector pauseDetector) {
    OgiveTimer timer = new OgiveTimer(id, clock, config, pauseDetector);
    send(() -> exporter.cells(name(id, "_seconds"), "s", timer.recorder()::take, labels(id)));
    return timer;
  }

  @Override
  protected DistributionSummary newDistributionSummary(Meter.Id id, DistributionStatisticConfig config, double scale) {
    OgiveSummary summary = new OgiveSummary(id, clock, config, scale);
    String unit = id.getBaseUnit() == null ? "" : id.getBaseUnit();
    send(() -> exporter.cells(name(id, ""), unit, summary::take, labels(id)));
    return summary;
  }

  @Override
  protected Counter newCounter(Meter.Id id) {
    CumulativeCounter counter = new CumulativeCounter(id);
    sendCounter(name(id, "_total"), counter::count, labels(id));
    return counter;
  }

  @Override
  protected <T> Gauge newGauge(Meter.Id id, T of, ToDoubleFunction<T> value) {
    Gauge gauge = new DefaultGauge<>(id, of, value);
    sendGauge(name(id, ""), gauge::value, labels(id));
    return gauge;
  }

  @Override
  protected <T> FunctionCounter newFunctionCounter(Meter.Id id, T of, ToDoubleFunction<T> count) {
    FunctionCounter counter = new CumulativeFunctionCounter<>(id, of, count);
    sendCounter(name(id, "_total"), counter::count, labels(id));
    return counter;
  }

  @Override
  protected <T> FunctionTimer newFunctionTimer(
      Meter.Id id, T of, ToLongFunction<T> count, ToDoubleFunction<T> total, TimeUnit unit) {
    FunctionTimer timer = new CumulativeFunctionTimer<>(id, of, count, total, unit, getBaseTimeUnit());
    String name = name(id, "_seconds");
    sendCounter(name + "_count", timer::count, labels(id));
    sendCounter(name + "_sum", () -> timer.totalTime(TimeUnit.SECONDS), labels(id));
    return timer;
  }

  @Override
  protected LongTaskTimer newLongTaskTimer(Meter.Id id, DistributionStatisticConfig config) {
    LongTaskTimer timer = new DefaultLongTaskTimer(id, clock, getBaseTimeUnit(), config, false);
    String name = name(id, "_seconds");
    sendGauge(name + "_active", timer::activeTasks, labels(id));
    sendGauge(name + "_active_sum", () -> timer.duration(TimeUnit.SECONDS), labels(id));
    sendGauge(name + "_active_max", () -> timer.max(TimeUnit.SECONDS), labels(id));
    return timer;
  }

  @Override
  protected Meter newMeter(Meter.Id id, Meter.Type type, Iterable<Measurement> measurements) {
    for (Measurement measurement : measurements) {
      String[] labels = labels(id, "statistic", measurement.getStatistic().getTagValueRepresentation());
      switch (measurement.getStatistic()) {
        case COUNT, TOTAL, TOTAL_TIME -> sendCounter(name(id, "_total"), measurement::getValue, labels);
        default -> sendGauge(name(id, ""), measurement::getValue, labels);
      }
    }
    return new DefaultMeter(id, type, measurements);
  }

  @Override
  protected TimeUnit getBaseTimeUnit() {
    return TimeUnit.SECONDS;
  }

  @Override
  protected DistributionStatisticConfig defaultHistogramConfig() {
    return DistributionStatisticConfig.builder().expiry(Duration.ofMinutes(1)).build().merge(DistributionStatisticConfig.DEFAULT);
  }
}
