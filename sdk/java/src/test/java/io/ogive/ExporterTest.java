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

  /** The one number of an expression. The last cell ends after its shutdown, at the end of its interval. */
  private double query(String expression) throws IOException, InterruptedException {
    long time = System.currentTimeMillis() / 1000 + 2;
    URI uri = URI.create(url + "/api/v1/query?time=" + time + "&query=" + URLEncoder.encode(expression, StandardCharsets.UTF_8));
    String answer = CLIENT.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body();
    JsonNode result = new ObjectMapper().readTree(answer).path("data").path("result");
    assertEquals(1, result.size(), answer);
    return result.get(0).get("value").get(1).asDouble();
  }

  @Test
  void everySampleIsStoredOnceAcrossAKill(@TempDir Path data) throws Exception {
    assumeTrue(System.getenv("OGIVE_BIN") != null, "NOT TESTED against a server: OGIVE_BIN names no ogive binary");
    try (ServerSocket free = new ServerSocket(0)) {
      url = "http://127.0.0.1:" + free.getLocalPort();
    }
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
