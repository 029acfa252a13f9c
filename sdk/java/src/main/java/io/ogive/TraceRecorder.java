package io.ogive;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Traces of messages, measuring every one: the stamps travel inside the message ({@link Trace}), and the thread that finishes it counts each
 * stage ({@link TraceWriter}). Each has a histogram, and so have the total, the classes and the gaps between a publisher's messages: a
 * stall shows there even when no message was in flight. Only a message slower than the {@link Threshold} is kept whole.
 *
 * <pre>{@code
 * TraceRecorder orders = new TraceRecorder(ORDER, Clock.system(), Threshold.fixed(Duration.ofMillis(1)));
 * exporter.traces(orders);                                // order_path_seconds{stage=...}, and the slow ones whole
 * TraceWriter writer = orders.writer("engine");           // one for each thread
 * Trace trace = orders.trace();                           // one for each message object, used again and again
 * trace.begin();
 * trace.mark(DECODE);
 * trace.addMark(TRADE);                                   // any number of times
 * trace.mark(PUBLISH);
 * writer.finish(trace);                                   // no lock, no allocation
 * }</pre>
 *
 * <p>Memory: 0.9 MiB for each writer of a path of eight points, and 64 KiB more for each name of marks. Safe for concurrent use.
 */
public final class TraceRecorder {
  /** Names of publishers that a recorder keeps; later ones share the name {@code (other)}. */
  public static final int PUBLISHERS_MAX = 1024;

  /**
   * What became of the messages above the threshold, as of the last drain.
   *
   * @param read those that were drained
   * @param overwritten those that their writer overwrote with later ones before
   */
  public record Dumps(long read, long overwritten) {}

  private final TracePath path;
  private final Clock clock;
  private final Threshold threshold;
  private final List<TraceWriter> writers = new ArrayList<>();
  private final List<String> publishers = new ArrayList<>();
  /** Rings of writers that are closed, until they are drained. */
  private final List<SlowRing> ended = new ArrayList<>();
  /** What rings that are gone gave and lost. */
  private long readBefore;
  private long overwrittenBefore;
  private long deferred;
  private volatile long generation = 1;
  private volatile long limitNanos;

  /** A recorder of messages of one path that are stamped from {@code clock}. */
  public TraceRecorder(TracePath path, Clock clock, Threshold threshold) {
    this.path = path;
    this.clock = clock;
    this.threshold = threshold;
    limitNanos = threshold.firstNanos();
  }

  /** A trace for one message object. */
  public Trace trace() {
    return new Trace(path, clock);
  }

  /** A writer for the publisher of that name, of which the first 64 bytes count; one name may have many. */
  public synchronized TraceWriter writer(String publisher) {
    String name = TracePath.beginning(publisher, TracePath.NAME_BYTES_MAX);
    int at = publishers.indexOf(name);
    if (at < 0 && publishers.size() == PUBLISHERS_MAX) {
      at = PUBLISHERS_MAX - 1;
    } else if (at < 0) {
      at = publishers.size();
      publishers.add(at == PUBLISHERS_MAX - 1 ? TracePath.OTHER : name);
    }
    TraceWriter writer = new TraceWriter(this, at);
    writers.add(writer);
    return writer;
  }

  /** What was finished since the last snapshot; sets the threshold for what comes. Once a second, from one place. */
  public synchronized TraceCell snapshot() {
    // Volatile: a writer that comes in after this changes sides first.
    long wanted = generation + 1;
    generation = wanted;
    int points = path.points().size();
    TraceTotals totals = new TraceTotals(points);
    for (TraceWriter writer : List.copyOf(writers)) {
      if (writer.isClosed()) {
        writer.takeLast(totals);
        writers.remove(writer);
        ended.add(writer.slow);
      } else if (!writer.take(wanted, totals)) {
        deferred++;
      }
    }
    TraceCell cell = cell(totals);
    limitNanos = threshold.nextNanos(limitNanos, cell.total());
    return cell;
  }

  private TraceCell cell(TraceTotals totals) {
    List<TraceCell.Stage> stages = new ArrayList<>();
    for (int at = 1; at < path.points().size(); at++) {
      TracePath.Point point = path.points().get(at);
      Histogram times = totals.histogram(TraceSide.STAGES + at - 1);
      stages.add(new TraceCell.Stage(point.name(), point.className(), times, totals.numbers[TraceSide.MISSING + at]));
    }
    long[] quiet = new long[publishers.size()];
    Arrays.fill(quiet, -1);
    for (TraceWriter writer : writers) {
      long nanos = writer.quietNanos(clock.now());
      long least = quiet[writer.publisher];
      quiet[writer.publisher] = least < 0 || nanos < 0 ? Math.max(least, nanos) : Math.min(least, nanos);
    }
    List<TraceCell.Publisher> all = new ArrayList<>();
    for (int at = 0; at < quiet.length; at++) {
      all.add(new TraceCell.Publisher(publishers.get(at), TraceTotals.histogram(totals.gaps.get(at)), quiet[at]));
    }
    List<TraceCell.Mark> marks = path.marks().stream()
        .map(mark -> new TraceCell.Mark(mark.name(), TraceTotals.histogram(totals.between.get(mark.index())))).toList();
    return new TraceCell(totals.histogram(TraceSide.TOTAL), totals.histogram(TraceSide.INFRASTRUCTURE), totals.histogram(TraceSide.LOGIC),
        stages, all, marks, TraceCell.Counts.of(totals.numbers), limitNanos);
  }

  /** The messages above the threshold that came since the last drain, in the order of their publication. */
  public List<SlowTrace> drain() {
    return drain(Long.MAX_VALUE);
  }

  /** Those of cells that were taken: what is finished now belongs to the next cell. */
  synchronized List<SlowTrace> drainTaken() {
    return drain(generation);
  }

  private synchronized List<SlowTrace> drain(long before) {
    List<SlowTrace> all = new ArrayList<>();
    List<SlowRing.Kept> kept = new ArrayList<>();
    SlowTraces traces = null;
    for (TraceWriter writer : writers) {
      writer.slow.drain(before, kept);
      traces = addTo(all, kept, writer.publisher, traces);
    }
    for (SlowRing ring : ended) {
      ring.drain(Long.MAX_VALUE, kept);
      traces = addTo(all, kept, ring.publisher(), traces);
      readBefore += ring.read();
      overwrittenBefore += ring.overwritten();
    }
    ended.clear();
    all.sort(Comparator.comparingLong(SlowTrace::publishedNanos));
    return all;
  }

  private SlowTraces addTo(List<SlowTrace> all, List<SlowRing.Kept> kept, int publisher, SlowTraces known) {
    if (kept.isEmpty()) {
      return known;
    }
    SlowTraces traces = known == null ? new SlowTraces(path, clock) : known;
    kept.forEach(one -> all.add(traces.of(one, publishers.get(publisher))));
    kept.clear();
    return traces;
  }

  /** What became of the messages above the threshold. */
  public synchronized Dumps dumps() {
    long read = readBefore;
    long overwritten = overwrittenBefore;
    for (TraceWriter writer : writers) {
      read += writer.slow.read();
      overwritten += writer.slow.overwritten();
    }
    return new Dumps(read, overwritten);
  }

  /** Messages that took longer are kept whole now. */
  public long limitNanos() {
    return limitNanos;
  }

  /** How often a writer was held up inside {@code finish}, so that what it counted came with a later snapshot. */
  public synchronized long deferred() {
    return deferred;
  }

  TracePath path() {
    return path;
  }

  Clock clock() {
    return clock;
  }

  long generation() {
    return generation;
  }
}
