package io.ogive;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Makes slow traces of what the rings kept, with the clock as it is now. */
final class SlowTraces {
  private static final int BATCHES = 9;
  private static final int READS = 32;
  /** What a sum of readings is written to, so that none is left out. */
  private static long sink;

  private final TracePath path;
  private final List<TracePath.MarkName> marks;
  private final SlowTrace.ClockNote note;
  private final long nowNanos;
  private final long wallNanos;

  SlowTraces(TracePath path, Clock clock) {
    this.path = path;
    marks = path.marks();
    note = new SlowTrace.ClockNote("os", "os", 1_000_000_000, clock.errorNanos(), readingTenths(clock), clock.epoch());
    nowNanos = clock.now();
    wallNanos = clock.wallNanos();
  }

  /** What one stamp costs, in tenths of a nanosecond: the median over batches, so that an interruption does not count. */
  private static long readingTenths(Clock clock) {
    long[] costs = new long[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
      long sum = 0;
      long start = clock.now();
      for (int read = 1; read < READS; read++) {
        sum += clock.now();
      }
      costs[batch] = clock.now() - start;
      sink = sum;
    }
    Arrays.sort(costs);
    return Math.max((costs[BATCHES / 2] * 10 + READS / 2) / READS, 0);
  }

  SlowTrace of(SlowRing.Kept kept, String publisher) {
    List<String> missing = new ArrayList<>();
    List<SlowTrace.Stage> stages = new ArrayList<>();
    int clamped = 0;
    long first = kept.stamps()[0];
    long at = first;
    for (int point = 1; point < kept.stamps().length; point++) {
      TracePath.Point of = path.points().get(point);
      if ((kept.seen() >> point & 1) == 0) {
        missing.add(of.name());
        continue;
      }
      long nanos = kept.stamps()[point] - at;
      if (nanos < 0) {
        clamped++;
        nanos = 0;
      }
      at += nanos;
      stages.add(new SlowTrace.Stage(of.name(), of.className(), nanos, nanos));
    }
    List<SlowTrace.Mark> listed = new ArrayList<>();
    for (long mark : kept.marks()) {
      long nanos = SlowRing.markNanos(mark);
      listed.add(new SlowTrace.Mark(marks.get(SlowRing.markName(mark)).name(), nanos, nanos));
    }
    long total = at - first;
    long published = wallNanos - Math.max(nowNanos - at, 0);
    return new SlowTrace(path.name(), publisher, published, total, total, kept.limit(), kept.gap(), kept.epoch(), clamped, missing, note,
        stages, kept.listed(), kept.lost(), listed);
  }
}
