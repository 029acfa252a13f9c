package io.ogive;

import io.ogive.BatchEncoder.Sample;
import io.ogive.BatchEncoder.SeriesOf;
import io.ogive.wire.Kind;
import io.ogive.wire.Temporality;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A traced path as series, named as programs in Rust name them (docs/http.md, {@code GET /v1/traces}): cells of its stages, and its slow messages
 * as texts at the time of the cell that counts them.
 */
final class TraceSeries {
  /** Slow messages that are sent of a cell, the slowest: more than anybody reads, and the histograms count all. */
  private static final int SLOW_MAX = 256;
  private static final String SECONDS = "_seconds";

  private final TraceRecorder recorder;
  private final String metric;
  private final String stem;
  private final Map<String, String> labels;
  /** Counters that were sent. */
  private final Set<String> sent = new HashSet<>();
  private long overwritten;
  private long limited;

  TraceSeries(TraceRecorder recorder, Map<String, String> labels) {
    this.recorder = recorder;
    metric = metric(recorder.path().name());
    stem = metric.substring(0, metric.length() - SECONDS.length());
    this.labels = labels;
  }

  /** {@code OrderPath} is measured as {@code order_path_seconds}. */
  static String metric(String path) {
    return path.replaceAll("([a-z0-9])([A-Z])", "$1_$2").toLowerCase(Locale.ROOT) + SECONDS;
  }

  /** Adds what was finished since the last turn. */
  void take(List<Sample> out) {
    TraceCell cell = recorder.snapshot();
    TraceCell.Counts counts = cell.counts();
    cell(out, cell.total(), "stage", "total");
    for (TraceCell.Stage stage : cell.stages()) {
      cell(out, stage.times(), "stage", stage.name(), "class", stage.className());
    }
    cell(out, cell.infrastructure(), "stage", "class:infra");
    cell(out, cell.logic(), "stage", "class:logic");
    cell.publishers().forEach(publisher -> cell(out, publisher.gaps(), "stage", "gap", "publisher", publisher.name()));
    cell.marks().forEach(mark -> cell(out, mark.between(), "stage", "between", "mark", mark.name()));
    slow(out);
    counter(out, "_unmeasured_total", "incomplete", counts.incomplete(), true);
    counter(out, "_unmeasured_total", "straddled", counts.straddled(), true);
    counter(out, "_unmeasured_total", "repeated", counts.repeated(), false);
    counter(out, "_unmeasured_total", "marks_lost", counts.listedLost(), false);
    counter(out, "_unmeasured_total", "marks_straddled", counts.listedStraddled(), false);
    long now = recorder.dumps().overwritten();
    counter(out, "_slow_dropped_total", "overwritten", now - overwritten, true);
    overwritten = now;
    counter(out, "_slow_dropped_total", "limit", limited, true);
    limited = 0;
  }

  private void slow(List<Sample> out) {
    List<SlowTrace> slow = new ArrayList<>(recorder.drainTaken());
    if (slow.size() > SLOW_MAX) {
      limited = slow.size() - SLOW_MAX;
      slow.sort(Comparator.comparingLong(SlowTrace::totalNanos).reversed());
      slow.subList(SLOW_MAX, slow.size()).clear();
      slow.sort(Comparator.comparingLong(SlowTrace::publishedNanos));
    }
    SeriesOf series = series(stem + "_slow", "", Kind.Text, Temporality.Gauge, "stage", "total");
    slow.forEach(trace -> out.add(Sample.ofText(series, trace.toString())));
  }

  private void cell(List<Sample> out, Histogram cell, String... own) {
    if (cell.length > 0) {
      out.add(Sample.ofCell(series(metric, "s", Kind.Histogram, Temporality.Delta, own), cell));
    }
  }

  /** What was counted since the last turn; a counter that is not there from the beginning waits until there is some. */
  private void counter(List<Sample> out, String what, String reason, long more, boolean always) {
    if (sent.add(what + reason) && always || more > 0) {
      out.add(Sample.ofNumber(series(stem + what, "", Kind.Float, Temporality.Delta, "reason", reason), more));
    }
  }

  private SeriesOf series(String name, String unit, int kind, int temporality, String... own) {
    Map<String, String> all = new TreeMap<>(labels);
    for (int at = 0; at < own.length; at += 2) {
      all.put(own[at], own[at + 1]);
    }
    all.put("__name__", name);
    return new SeriesOf(SeriesOf.flat(all), unit, kind, temporality);
  }
}
