package io.ogive.micrometer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.LongTaskTimer;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.system.UptimeMetrics;
import io.ogive.Exporter;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Micrometer's own meters and binders, sent to a real server. OGIVE_BIN names the binary. */
class RegistryTest {
  private static final HttpClient CLIENT = HttpClient.newHttpClient();

  @TempDir Path data;
  private String url;
  private Process server;

  @BeforeEach
  void start() throws IOException, InterruptedException {
    assumeTrue(System.getenv("OGIVE_BIN") != null, "NOT TESTED against a server: OGIVE_BIN names no ogive binary");
    try (ServerSocket free = new ServerSocket(0)) {
      url = "http://127.0.0.1:" + free.getLocalPort();
    }
    server = new ProcessBuilder(System.getenv("OGIVE_BIN"), "serve", "--data", data.toString(), "--listen", url.substring(7))
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    for (boolean ready = false; !ready; ) {
      try {
        ready = CLIENT.send(HttpRequest.newBuilder(URI.create(url + "/-/ready")).build(), BodyHandlers.ofString()).statusCode() == 200;
      } catch (IOException away) {
        Thread.sleep(20);
      }
    }
  }

  @AfterEach
  void stop() throws InterruptedException {
    if (server != null) {
      server.destroyForcibly().waitFor();
    }
  }

  /** The one number of an expression. The last cell ends after its shutdown, at the end of its interval. */
  private double query(String expression) throws IOException, InterruptedException {
    long time = System.currentTimeMillis() / 1000 + 2;
    URI uri = URI.create(url + "/api/v1/query?time=" + time + "&query=" + URLEncoder.encode(expression, StandardCharsets.UTF_8));
    String answer = CLIENT.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body();
    JsonNode result = new ObjectMapper().readTree(answer).path("data").path("result");
    assertEquals(1, result.size(), expression + ": " + answer);
    return result.get(0).get("value").get(1).asDouble();
  }

  @Test
  void whatMetersMeasureArrivesOnce() throws Exception {
    OgiveMeterRegistry registry = new OgiveMeterRegistry(new Exporter(url, new Exporter.Options().interval(Duration.ofMillis(100))));
    Timer timer = Timer.builder("http.server.requests").tag("http.route", "/users/{id}").publishPercentileHistogram().register(registry);
    List<Thread> writers = new ArrayList<>();
    for (int writer = 0; writer < 3; writer++) {
      writers.add(new Thread(() -> {
        for (int at = 1; at <= 20_000; at++) {
          timer.record(at, TimeUnit.MICROSECONDS);
        }
      }));
    }
    writers.forEach(Thread::start);
    DistributionSummary sizes = DistributionSummary.builder("response.size").baseUnit("bytes").scale(2).register(registry);
    sizes.record(500);
    sizes.record(1e9);
    Counter counter = registry.counter("orders", "kind", "new");
    counter.increment(41);
    counter.increment();
    AtomicLong depth = registry.gauge("queue.depth", new AtomicLong(17));
    registry.more().counter("served", List.of(), new AtomicLong(5));
    registry.more().timer("polls", List.of(), this, of -> 3, of -> 1500, TimeUnit.MILLISECONDS);
    LongTaskTimer backup = LongTaskTimer.builder("backup").register(registry);
    backup.start();
    new JvmMemoryMetrics().bindTo(registry);
    new UptimeMetrics().bindTo(registry);
    // Another meter of the same series: it is measured, and the first alone is sent.
    registry.counter("orders.total", "kind", "new").increment(1000);
    for (Thread writer : writers) {
      writer.join();
    }
    assertEquals(60_000, timer.count());
    assertEquals(0.02, timer.max(TimeUnit.SECONDS), 1e-12);
    assertEquals(1, registry.unsent().size(), registry.unsent().toString());
    registry.close();

    String requests = "sum_over_time(http_server_requests_seconds{http_route=\"/users/{id}\"}[10m])";
    assertEquals(60_000, query("histogram_count(" + requests + ")"));
    assertEquals(3 * 20_000 * 20_001.0 / 2 / 1e6, query("histogram_sum(" + requests + ")"), 1e-6);
    assertEquals(0.0198, query("histogram_quantile(0.99, " + requests + ")"), 0.0002);
    assertEquals(2, query("histogram_count(sum_over_time(response_size_bytes[10m]) or sum_over_time(response_size[10m]))"));
    assertEquals(42, query("orders_total{kind=\"new\"}"));
    assertEquals(depth.get(), query("queue_depth"));
    assertEquals(5, query("served_total"));
    assertEquals(3, query("polls_seconds_count"));
    assertEquals(1.5, query("polls_seconds_sum"));
    assertEquals(1, query("backup_seconds_active"));
    assertEquals(1, query("count(count(jvm_memory_used{area=\"heap\"}))"));
    assertEquals(1, query("(process_uptime > bool 0)"));
  }
}
