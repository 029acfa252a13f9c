package io.ogive.junit;

import io.ogive.Histogram;
import io.ogive.Recorder;
import io.ogive.Statistics;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.opentest4j.AssertionFailedError;

/**
 * Records how long what a test does takes, and asserts quantiles of it:
 *
 * <pre>{@code
 * @RegisterExtension final Latencies logins = new Latencies("login").warmup(1000);
 *
 * @Test void aLoginIsQuick() throws Exception {
 *   for (int at = 0; at < 11_000; at++) logins.time(() -> login("alice"));
 *   logins.assertQuantile(0.99, Duration.ofMillis(5));
 * }
 * }</pre>
 *
 * A quantile is asserted by the upper edge of its bin (at most 10 % above it), so that a test that passes says what is certain. Each
 * test has its own; those of a static field add up over the tests of a class. Count, quantiles and the greatest are published as a
 * report entry of each test. Any number of threads may record.
 */
public final class Latencies implements AfterEachCallback {
  private static final double[] QUANTILES = {0.5, 0.9, 0.99, 0.999};

  private final String name;
  private final Recorder recorder = new Recorder();
  private final Histogram all = new Histogram();
  private long warmup;
  private long left;

  /** Latencies of that name in reports. */
  public Latencies(String name) {
    this.name = name;
  }

  /** Leaves out the first of them, those that run before the code is compiled. */
  public synchronized Latencies warmup(long samples) {
    warmup = samples;
    left = samples;
    return this;
  }

  /** Does the work and records how long it takes, also when it throws. */
  public <T> T time(Callable<T> work) throws Exception {
    long start = System.nanoTime();
    try {
      return work.call();
    } finally {
      recordNanoseconds(System.nanoTime() - start);
    }
  }

  /** Records a duration that was measured elsewhere. */
  public void recordNanoseconds(long nanoseconds) {
    if (!isWarmup()) {
      recorder.recordNanoseconds(nanoseconds);
    }
  }

  private boolean isWarmup() {
    if (warmup == 0) {
      return false;
    }
    synchronized (this) {
      if (left == 0) {
        return false;
      }
      left--;
      return true;
    }
  }

  /** What was recorded so far. */
  public synchronized Histogram histogram() {
    all.merge(recorder.take());
    return all.copy();
  }

  /**
   * Asserts that the quantile is at most a duration for certain: the upper edge of its bin is.
   *
   * @throws AssertionFailedError otherwise, with all quantiles
   */
  public void assertQuantile(double q, Duration most) {
    Histogram taken = histogram();
    Statistics.Quantile found = Statistics.quantile(taken, q);
    if (found == null) {
      throw new AssertionFailedError(name + ": no quantile " + q + " of " + Long.toUnsignedString(taken.count()) + " samples");
    }
    double seconds = most.toNanos() / 1e9;
    if (found.hi() > seconds) {
      String message = String.format(Locale.ROOT, "%s: quantile %s is between %s and %s, expected at most %s (%s)", name, q, text(found.lo()),
          text(found.hi()), text(seconds), summary(taken));
      throw new AssertionFailedError(message, most, Duration.ofNanos(Math.round(found.hi() * 1e9)));
    }
  }

  /** Asserts how many were recorded after the warm-up. */
  public void assertCount(long expected) {
    long count = histogram().count();
    if (count != expected) {
      throw new AssertionFailedError(name + ": " + Long.toUnsignedString(count) + " samples, expected " + expected, expected, count);
    }
  }

  private static String summary(Histogram taken) {
    StringBuilder text = new StringBuilder("count " + Long.toUnsignedString(taken.count()));
    for (double q : QUANTILES) {
      Statistics.Quantile found = Statistics.quantile(taken, q);
      if (found != null) {
        text.append(", p").append(100 * q == Math.rint(100 * q) ? Long.toString(Math.round(100 * q)) : Double.toString(100 * q));
        text.append(" <= ").append(text(found.hi()));
      }
    }
    if (!Double.isNaN(taken.max())) {
      text.append(", max ").append(text(taken.max()));
    }
    return text.toString();
  }

  private static String text(double seconds) {
    String[] units = {"s", "ms", "us", "ns"};
    int unit = 0;
    while (unit < 3 && seconds < 1) {
      seconds *= 1000;
      unit++;
    }
    return String.format(Locale.ROOT, "%.4g %s", seconds, units[unit]);
  }

  @Override
  public void afterEach(ExtensionContext context) {
    context.publishReportEntry("latencies " + name, summary(histogram()));
  }
}
