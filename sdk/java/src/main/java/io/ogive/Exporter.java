package io.ogive;

import io.ogive.BatchEncoder.Sample;
import io.ogive.BatchEncoder.SeriesOf;
import io.ogive.wire.Kind;
import io.ogive.wire.Temporality;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;

/**
 * Sends what a program measures to an Ogive server: a cell of each series at the end of every interval, numbered and kept until it is
 * acknowledged, so that each sample counts exactly once. Safe for concurrent use. {@link #close()} sends the last cell too.
 */
public final class Exporter implements AutoCloseable {
  private static final int SERIES_MAX = 100_000;
  private static final long FIRST_WAIT_MS = 100;
  private static final long LONGEST_WAIT_MS = 10_000;
  private static final Duration ANSWER = Duration.ofSeconds(30);

  /** Options of an exporter, with what most programs want. */
  public static final class Options {
    private Map<String, String> labels = Map.of();
    private String token;
    private String tenant;
    private Duration interval = Duration.ofSeconds(1);
    private long keepBytes = 16 << 20;
    private Consumer<Exception> onError = error -> {};

    /** Labels of every series: the service, the instance. */
    public Options labels(Map<String, String> all) {
      labels = Map.copyOf(all);
      return this;
    }

    /** Says who sends, to a server with a web configuration. */
    public Options token(String secret) {
      token = secret;
      return this;
    }

    /** Whose data it is; the server's default otherwise. */
    public Options tenant(String name) {
      tenant = name;
      return this;
    }

    /** Width of a cell: one second unless given, and at least 100 ms. */
    public Options interval(Duration width) {
      interval = width;
      return this;
    }

    /** Bounds what waits for a server that is away: 16 MiB unless given. The oldest batches then make room, counted. */
    public Options keepBytes(long bytes) {
      keepBytes = bytes;
      return this;
    }

    /** Hears of each kind of failure once until the server takes a batch again. */
    public Options onError(Consumer<Exception> listener) {
      onError = Objects.requireNonNull(listener);
      return this;
    }
  }

  /** What an exporter did, in samples: taken is always acknowledged + waiting + all dropped + all rejected. */
  public record Status(
      long taken, long acknowledged, long waiting, long waitingBytes, Map<String, Long> dropped, Map<String, Long> rejected) {}

  /** Adds the samples of a cell. */
  private interface Source {
    void take(List<Sample> out);
  }

  private record Waiting(byte[] frame, int samples) {}

  private final URI uri;
  private final Options options;
  private final long intervalMs;
  private final UUID identity = UUID.randomUUID();
  private final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
  private final Map<List<String>, Source> series = new TreeMap<>((a, b) -> String.join("\0", a).compareTo(String.join("\0", b)));
  private final ArrayDeque<Waiting> waiting = new ArrayDeque<>();
  private final Map<String, Long> dropped = new TreeMap<>();
  private final Map<String, Long> rejected = new TreeMap<>();
  private final Thread taker;
  private final Thread sender;
  private long next = 1;
  private long bytes;
  private long taken;
  private long acknowledged;
  private boolean inFlight;
  private boolean stopping;
  private boolean finished;
  private long deadline = Long.MAX_VALUE;
  private String reported = "";

  /**
   * Begins to export to a server such as http://127.0.0.1:6448.
   *
   * @throws IllegalArgumentException for another address
   */
  public Exporter(String server, Options options) {
    URI address = URI.create(server.endsWith("/") ? server : server + "/");
    if (address.getHost() == null || !List.of("http", "https").contains(address.getScheme())) {
      throw new IllegalArgumentException(server + " is no http://HOST:PORT or https://HOST:PORT");
    }
    uri = address.resolve("v1/batch");
    this.options = options;
    intervalMs = Math.max(options.interval.toMillis(), 100);
    taker = thread("ogive-cells", this::takeCells);
    sender = thread("ogive-send", this::sendAll);
  }

  private static Thread thread(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  /**
   * Adds a histogram of durations, in seconds, and returns what records it. Name it ..._seconds; labels are pairs.
   *
   * @throws IllegalArgumentException when labels are no pairs of names that differ, or the series exists
   */
  public Recorder recorder(String name, String... labels) {
    Recorder recorder = new Recorder();
    cells(name, "s", recorder::take, labels);
    return recorder;
  }

  /** Adds a histogram that {@code take} gives and empties each interval. */
  public void cells(String name, String unit, Supplier<Histogram> take, String... labels) {
    add(name, labels, unit, Kind.Histogram, Temporality.Delta, of -> {
      Histogram cell = take.get();
      return cell.length == 0 ? null : Sample.ofCell(of, cell);
    });
  }

  /** Adds a number that {@code read} gives at the end of each interval. */
  public void gauge(String name, DoubleSupplier read, String... labels) {
    add(name, labels, "", Kind.Float, Temporality.Gauge, of -> Sample.ofNumber(of, read.getAsDouble()));
  }

  /** Adds a number that only grows, as {@code read} gives it. Name it ..._total. */
  public void counter(String name, DoubleSupplier read, String... labels) {
    add(name, labels, "", Kind.Float, Temporality.Cumulative, of -> Sample.ofNumber(of, read.getAsDouble()));
  }

  /**
   * Adds the messages of a path: a path called OrderPath gives {@code order_path_seconds{stage=...}} and each slow message as a text of
   * {@code order_path_slow}, as docs/export.md says of programs in Rust. The exporter takes the recorder's snapshots; nobody else may.
   *
   * @throws IllegalArgumentException as {@link #recorder}
   */
  public void traces(TraceRecorder recorder, String... labels) {
    Map<String, String> all = labels(labels);
    TraceSeries traces = new TraceSeries(recorder, all);
    Map<String, String> total = new TreeMap<>(all);
    total.put("__name__", TraceSeries.metric(recorder.path().name()));
    total.put("stage", "total");
    add(SeriesOf.flat(total), traces::take);
  }

  @FunctionalInterface
  private interface Taking {
    Sample take(SeriesOf of);
  }

  private void add(String name, String[] labels, String unit, int kind, int temporality, Taking taking) {
    Map<String, String> all = labels(labels);
    all.put("__name__", name);
    SeriesOf of = new SeriesOf(SeriesOf.flat(all), unit, kind, temporality);
    add(of.labels(), out -> {
      Sample sample = taking.take(of);
      if (sample != null) {
        out.add(sample);
      }
    });
  }

  private synchronized void add(List<String> labels, Source source) {
    if (series.putIfAbsent(labels, source) != null) {
      throw new IllegalArgumentException("the series exists already: " + labels);
    }
  }

  /** Those of every series and those given as pairs. */
  private Map<String, String> labels(String[] labels) {
    Map<String, String> all = new TreeMap<>(options.labels);
    if (labels.length % 2 != 0) {
      throw new IllegalArgumentException("labels are pairs of a name and a value");
    }
    Map<String, String> own = new TreeMap<>();
    for (int at = 0; at < labels.length; at += 2) {
      if (labels[at].equals("__name__") || own.put(labels[at], labels[at + 1]) != null) {
        throw new IllegalArgumentException("the label " + labels[at] + " is given twice");
      }
    }
    all.putAll(own);
    return all;
  }

  /** What was taken, acknowledged and dropped, and what waits. */
  public synchronized Status status() {
    long left = waiting.stream().mapToLong(Waiting::samples).sum();
    return new Status(taken, acknowledged, left, bytes, new TreeMap<>(dropped), new TreeMap<>(rejected));
  }

  /** As {@link #shutdown(Duration)} with five seconds. */
  @Override
  public void close() {
    shutdown(Duration.ofSeconds(5));
  }

  /**
   * Takes the cell that has begun and sends what waits, for {@code timeout} at most.
   *
   * @return how many samples the server could not have by then; they are counted as dropped
   */
  public long shutdown(Duration timeout) {
    synchronized (this) {
      stopping = true;
      deadline = System.nanoTime() + timeout.toNanos();
      notifyAll();
    }
    try {
      taker.join();
      sender.join(timeout.toMillis() + 1);
      sender.interrupt();
      sender.join();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    synchronized (this) {
      long left = 0;
      while (!waiting.isEmpty()) {
        left += waiting.peek().samples;
        drop("shutdown", waiting.poll());
      }
      return left;
    }
  }

  private void takeCells() {
    boolean last = false;
    while (!last) {
      long end = (System.currentTimeMillis() / intervalMs + 1) * intervalMs;
      synchronized (this) {
        try {
          for (long left; !stopping && (left = end - System.currentTimeMillis()) > 0; ) {
            wait(left);
          }
        } catch (InterruptedException interrupted) {
          stopping = true;
        }
        last = stopping;
      }
      takeAll(end);
    }
    synchronized (this) {
      finished = true;
      notifyAll();
    }
  }

  private void takeAll(long endMillis) {
    List<Source> all;
    synchronized (this) {
      all = new ArrayList<>(series.values());
    }
    List<Sample> samples = new ArrayList<>();
    for (Source source : all) {
      try {
        source.take(samples);
      } catch (RuntimeException error) {
        // What a program's own function throws must not stop the others.
        report(error);
      }
    }
    synchronized (this) {
      for (int at = 0; at < samples.size(); at += SERIES_MAX) {
        List<Sample> part = samples.subList(at, Math.min(at + SERIES_MAX, samples.size()));
        byte[] frame = BatchEncoder.encode(identity, next++, endMillis, intervalMs, part);
        taken += part.size();
        bytes += frame.length;
        waiting.add(new Waiting(frame, part.size()));
      }
      Iterator<Waiting> oldest = waiting.iterator();
      if (inFlight && oldest.hasNext()) {
        oldest.next();
      }
      while (bytes > options.keepBytes && oldest.hasNext()) {
        Waiting gone = oldest.next();
        oldest.remove();
        drop("full", gone);
      }
      notifyAll();
    }
  }

  private void drop(String reason, Waiting gone) {
    bytes -= gone.frame.length;
    dropped.merge(reason, (long) gone.samples, Long::sum);
  }

  /** Brings the oldest batch to the server, again and again under its number, then the next. */
  private void sendAll() {
    int failures = 0;
    try {
      while (true) {
        Waiting first = first();
        if (first == null) {
          return;
        }
        long after = attempt(first);
        if (after < 0) {
          failures = 0;
          continue;
        }
        long step = Math.min(FIRST_WAIT_MS << Math.min(failures++, 10), LONGEST_WAIT_MS);
        pause(Math.max(after, ThreadLocalRandom.current().nextLong(step / 2, step + 1)));
      }
    } catch (InterruptedException ended) {
      // The shutdown may not take longer; what is left is counted there.
    }
  }

  private synchronized Waiting first() throws InterruptedException {
    while (waiting.isEmpty() && !finished) {
      wait();
    }
    inFlight = !waiting.isEmpty();
    return waiting.peek();
  }

  private synchronized void pause(long millis) throws InterruptedException {
    long end = System.nanoTime() + millis * 1_000_000;
    for (long left; (left = Math.min(end, deadline) - System.nanoTime()) > 0; ) {
      wait(left / 1_000_000 + 1);
    }
    if (System.nanoTime() >= deadline && deadline != Long.MAX_VALUE) {
      throw new InterruptedException();
    }
  }

  /** Sends once. Negative when the batch is done with, else the least wait before the next attempt, in milliseconds. */
  private long attempt(Waiting batch) throws InterruptedException {
    HttpRequest.Builder request = HttpRequest.newBuilder(uri).timeout(ANSWER)
        .header("Content-Type", "application/x-ogive-batch-flatbuffer").POST(HttpRequest.BodyPublishers.ofByteArray(batch.frame));
    if (options.token != null) {
      request.header("Authorization", "Bearer " + options.token);
    }
    if (options.tenant != null) {
      request.header("X-Scope-OrgID", options.tenant);
    }
    HttpResponse<String> response;
    try {
      response = client.send(request.build(), BodyHandlers.ofString());
    } catch (IOException error) {
      report(error);
      return 0;
    }
    Answer answer = Answer.read(response.body());
    int status = response.statusCode();
    if (status == 200) {
      return acknowledge(answer, batch);
    }
    // Without the object somebody else answers at that address, and the batch is sent again.
    if (status == 413 || (answer.error() != null && List.of(400, 415, 422).contains(status))) {
      synchronized (this) {
        drop("refused", waiting.poll());
        inFlight = false;
      }
      report(new IOException("a batch was refused with " + status + ": " + answer.error()));
      return -1;
    }
    report(new IOException("the server answers " + status + ": " + answer.error()));
    String after = response.headers().firstValue("Retry-After").orElse("0");
    return after.matches("\\d{1,6}") ? Math.min(Long.parseLong(after), 3600) * 1000 : 0;
  }

  private long acknowledge(Answer answer, Waiting batch) {
    if (answer.accepted() + answer.duplicate() + answer.rejected().size() != batch.samples) {
      report(new IOException("the answer does not speak of every sample: is this an Ogive server?"));
      return 0;
    }
    synchronized (this) {
      answer.rejected().forEach(reason -> rejected.merge(reason, 1L, Long::sum));
      acknowledged += batch.samples - answer.rejected().size();
      bytes -= waiting.poll().frame.length;
      inFlight = false;
      reported = "";
    }
    return -1;
  }

  private void report(Exception error) {
    String text = String.valueOf(error);
    boolean heard;
    synchronized (this) {
      heard = text.equals(reported);
      reported = text;
    }
    if (!heard) {
      options.onError.accept(error);
    }
  }
}
