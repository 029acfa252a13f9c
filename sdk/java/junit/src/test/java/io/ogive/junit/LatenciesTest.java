package io.ogive.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.Events;

/** The extension in tests that JUnit's own engine runs. */
class LatenciesTest {
  /** Run by the engine below, not with the tests of this module: its name does not end in Test. */
  static class Inner {
    @RegisterExtension final Latencies logins = new Latencies("login").warmup(2);

    private void record() {
      logins.recordNanoseconds(1_000_000_000);
      logins.recordNanoseconds(1_000_000_000);
      for (long at = 1; at <= 1000; at++) {
        logins.recordNanoseconds(at * 1000);
      }
    }

    @Test
    void quick() {
      record();
      logins.assertCount(1000);
      // 990 us is the lower edge of its bin: that the quantile is below 990 us is not certain, below 1 ms it is.
      logins.assertQuantile(0.99, Duration.ofMillis(1));
      logins.assertQuantile(1, Duration.ofMillis(1));
    }

    @Test
    void slow() {
      record();
      logins.assertQuantile(0.5, Duration.ofNanos(499_999));
    }

    @Test
    void nothing() throws Exception {
      assertThrows(IllegalStateException.class, () -> logins.time(() -> {
        throw new IllegalStateException("work");
      }));
      assertEquals("done", logins.time(() -> "done"));
      logins.assertCount(0);
      logins.time(() -> "counted");
      logins.assertCount(1);
      new Latencies("empty").assertQuantile(0.5, Duration.ofDays(1));
    }
  }

  @Test
  void testsPassAndFailByCertainQuantiles() {
    Events events = EngineTestKit.engine("junit-jupiter").selectors(selectClass(Inner.class)).execute().testEvents();
    events.assertStatistics(statistics -> statistics.started(3).succeeded(1).failed(2));
    List<String> failures = events.failed().stream()
        .map(event -> event.getRequiredPayload(TestExecutionResult.class).getThrowable().orElseThrow().getMessage()).sorted().toList();
    assertEquals("empty: no quantile 0.5 of 0 samples", failures.get(0));
    String slow = failures.get(1);
    assertTrue(slow.startsWith("login: quantile 0.5 is between 500.0 us and 510.0 us, expected at most 500.0 us (count 1000, p50 <= 510.0 us"), slow);
    List<String> entries = events.reportingEntryPublished().stream()
        .flatMap(event -> event.getRequiredPayload(org.junit.platform.engine.reporting.ReportEntry.class).getKeyValuePairs().values().stream())
        .toList();
    assertEquals(3, entries.size());
    assertTrue(entries.stream().anyMatch(entry -> entry.contains("count 1000") && entry.endsWith("max 1.000 ms")), entries.toString());
  }
}
