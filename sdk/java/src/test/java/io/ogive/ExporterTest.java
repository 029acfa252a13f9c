package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The exporter against a real server, which is killed in between. OGIVE_BIN names the binary. */
class ExporterTest {
  private static final HttpClient CLIENT = HttpClient.newHttpClient();

  private String url;
  private Process process;

  private void start(Path data) throws IOException, InterruptedException {
    if (url == null) {
      try (ServerSocket free = new ServerSocket(0)) {
        url = "http://127.0.0.1:" + free.getLocalPort();
      }
    }
    process = new ProcessBuilder(System.getenv("OGIVE_BIN"), "serve", "--data", data.toString(), "--listen", url.substring(7))
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    for (boolean ready = false; !ready; ) {
      try {
        ready = CLIENT.send(HttpRequest.newBuilder(URI.create(url + "/-/ready")).build(), BodyHandlers.ofString()).statusCode() == 200;
      } catch (IOException away) {
        Thread.sleep(20);
      }
    }
  }

  private JsonNode get(String path) throws IOException, InterruptedException {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url + path)).build();
    return new ObjectMapper().readTree(CLIENT.send(request, BodyHandlers.ofString()).body()).path("data");
  }

  /** The one number of an expression. The last cell ends after its shutdown, at the end of its interval. */
  private double query(String expression) throws IOException, InterruptedException {
    long time = System.currentTimeMillis() / 1000 + 2;
    JsonNode result = get("/api/v1/query?time=" + time + "&query=" + URLEncoder.encode(expression, StandardCharsets.UTF_8)).path("result");
    assertEquals(1, result.size(), () -> expression + ": " + result);
    return result.get(0).get("value").get(1).asDouble();
  }

  @Test
  void everySampleIsStoredOnceAcrossAKill(@TempDir Path data) throws Exception {
    assumeTrue(System.getenv("OGIVE_BIN") != null, "NOT TESTED against a server: OGIVE_BIN names no ogive binary");
    start(data);
    Exporter exporter = new Exporter(url, new Exporter.Options().labels(Map.of("service", "orders")).interval(Duration.ofMillis(100)));
    Recorder logins = exporter.recorder("login_seconds", "route", "/login");
    assertThrows(IllegalArgumentException.class, () -> exporter.recorder("login_seconds", "route", "/login"));
    exporter.gauge("queue_length", () -> 17);
    List<Thread> writers = new ArrayList<>();
    for (int writer = 0; writer < 3; writer++) {
      writers.add(new Thread(() -> {
        for (long at = 1; at <= 20_000; at++) {
          logins.recordNanoseconds(at);
          if (at % 1000 == 0) {
            Thread.yield();
          }
        }
      }));
    }
    writers.forEach(Thread::start);
    while (exporter.status().acknowledged() < 2) {
      Thread.sleep(5);
    }
    process.destroyForcibly().waitFor();
    for (Thread writer : writers) {
      writer.join();
    }
    logins.recordNanoseconds(1_000_000);
    start(data);
    try {
      assertEquals(0, exporter.shutdown(Duration.ofMinutes(2)));
      Exporter.Status status = exporter.status();
      assertEquals(new Exporter.Status(status.taken(), status.taken(), 0, 0, Map.of(), Map.of()), status);
      assertEquals(60_001, query("histogram_count(sum_over_time(login_seconds{service=\"orders\",route=\"/login\"}[10m]))"));
      double expected = (3 * 20_000.0 * 20_001 / 2 + 1_000_000) / 1e9;
      assertEquals(expected, query("histogram_sum(sum_over_time(login_seconds[10m]))"), 1e-9);
      assertEquals(17, query("queue_length"));
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  /** A server reads the messages of a path as it reads those of a program in Rust: it refuses a line that Rust would not write. */
  @Test
  void tracesAreThoseOfAPath(@TempDir Path data) throws Exception {
    assumeTrue(System.getenv("OGIVE_BIN") != null, "NOT TESTED against a server: OGIVE_BIN names no ogive binary");
    start(data);
    try {
      TracePath path = TracePath.named("OrderPath").infra("recv").infra("decode").logic("matched").infra("publish").build();
      TraceRecorder orders = new TraceRecorder(path, Clock.system(), Threshold.fixed(Duration.ofMillis(5)));
      Exporter exporter = new Exporter(url, new Exporter.Options().labels(Map.of("service", "orders")).interval(Duration.ofMillis(100)));
      exporter.traces(orders);
      assertThrows(IllegalArgumentException.class, () -> exporter.traces(orders));
      Trace trace = orders.trace();
      try (TraceWriter writer = orders.writer("feed 1")) {
        for (int at = 1; at <= 1000; at++) {
          long began = System.nanoTime();
          trace.beginAt(began);
          trace.markAt(1, began + 1_000);
          // Every 500th takes 6 ms and more for its logic.
          trace.markAt(2, began + 2_000 + (at % 500 == 0 ? 6_000_000 + at : 0));
          for (int trade = 0; trade < at % 3; trade++) {
            trace.addMarkAt(path.markName("trade"), began + 1_500 + 10 * trade);
          }
          trace.markAt(3, began + 3_000 + (at % 500 == 0 ? 6_000_000 + at : 0));
          writer.finish(trace);
        }
      }
      assertEquals(0, exporter.shutdown(Duration.ofMinutes(2)));
      assertEquals(Map.of(), exporter.status().rejected());
      for (String stage : List.of("stage=\"total\"", "stage=\"decode\",class=\"infra\"", "stage=\"matched\",class=\"logic\"", "stage=\"class:infra\"",
          "stage=\"class:logic\"")) {
        assertEquals(1000, query("histogram_count(sum_over_time(order_path_seconds{service=\"orders\"," + stage + "}[10m]))"), stage);
      }
      assertEquals(999, query("histogram_count(sum_over_time(order_path_seconds{stage=\"gap\",publisher=\"feed 1\"}[10m]))"));
      assertEquals(333, query("histogram_count(sum_over_time(order_path_seconds{stage=\"between\",mark=\"trade\"}[10m]))"));
      assertEquals(0, query("sum_over_time(order_path_unmeasured_total{reason=\"straddled\"}[10m])"));
      JsonNode found = get("/v1/traces?order=slowest&query=order_path_slow&end=" + (System.currentTimeMillis() / 1000 + 2));
      assertEquals(0, found.path("invalid").asInt(), found::toString);
      assertEquals(2, found.path("traces").size(), found::toString);
      JsonNode slowest = found.path("traces").get(0);
      assertEquals(6_003_000 + 1000, slowest.path("total_ns").asLong());
      assertEquals("matched", slowest.path("worst").asText());
      assertEquals("feed 1", slowest.path("publisher").asText());
      assertEquals("os", slowest.path("clock").path("source").asText());
      assertEquals(1, slowest.path("marks").size());
      assertEquals("order_path_seconds", slowest.path("cell").path("labels").path("__name__").asText(), slowest::toString);
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  @Test
  void whatWaitsIsBoundedAndCounted() throws InterruptedException {
    List<Exception> heard = new ArrayList<>();
    Exporter exporter = new Exporter("http://127.0.0.1:1",
        new Exporter.Options().interval(Duration.ofMillis(100)).keepBytes(2000).onError(heard::add));
    exporter.counter("served_total", () -> 1);
    while (heard.isEmpty() || !exporter.status().dropped().containsKey("full")) {
      Thread.sleep(10);
    }
    assertTrue(exporter.shutdown(Duration.ZERO) > 0);
    Exporter.Status status = exporter.status();
    assertEquals(status.taken(), status.dropped().values().stream().mapToLong(Long::longValue).sum());
    assertEquals(0, status.waitingBytes());
    assertEquals(1, heard.size());
  }
}
