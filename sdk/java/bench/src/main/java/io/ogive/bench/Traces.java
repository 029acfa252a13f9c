package io.ogive.bench;

import io.ogive.Clock;
import io.ogive.Threshold;
import io.ogive.Trace;
import io.ogive.TracePath;
import io.ogive.TraceRecorder;
import io.ogive.TraceWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.SingleWriterRecorder;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** Readings of the clock beside System.nanoTime, and a message of eight points beside eight bare readings and beside HdrHistogram. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Traces {
  private static final int POINTS = 8;

  /** A page whose segment lasts for an hour: what a reader does is the same, and no publisher takes a CPU. */
  @State(Scope.Thread)
  public static class Page {
    Clock clock;

    @Setup
    public void open() throws IOException {
      ByteBuffer page = ByteBuffer.allocate(4096).order(ByteOrder.LITTLE_ENDIAN);
      page.putLong(0, 0x4b4c43455649474fL).putLong(8, 4096L << 32 | 1).putLong(16, 1).putLong(72, 1);
      page.putLong(128 + 8, System.nanoTime() - 1_000_000).putLong(128 + 16, 1L << 63).putLong(128 + 40, 3_600_000_000_000L);
      page.putLong(128 + 48, 1_700_000_000_000_000_000L).putLong(128 + 56, 42 | 1L << 56);
      Path file = Files.createTempFile("ogive-clock", null);
      try {
        Files.write(file, page.array());
        clock = Clock.open(file);
      } finally {
        Files.delete(file);
      }
      if (!clock.isCounter()) {
        throw new IllegalStateException("the page is not in force");
      }
    }
  }

  /** One writer's recorder and message. */
  @State(Scope.Thread)
  public static class Path8 {
    final TracePath path = TracePath.named("Path8").infra("p0").infra("p1").logic("p2").logic("p3").infra("p4").logic("p5").infra("p6").infra("p7").build();
    final TracePath.MarkName trade = path.markName("trade");
    final TraceRecorder recorder = new TraceRecorder(path, Clock.system(), Threshold.fixed(Duration.ofHours(1)));
    final TraceWriter writer = recorder.writer("bench");
    final Trace trace = recorder.trace();
    final SingleWriterRecorder[] hdr = new SingleWriterRecorder[POINTS + 3];

    public Path8() {
      for (int at = 0; at < hdr.length; at++) {
        hdr[at] = new SingleWriterRecorder(1, 3_600_000_000_000L, 2);
      }
    }
  }

  @Benchmark
  public long nanoTime(Records.Stream stream) {
    return stream.next() + System.nanoTime();
  }

  @Benchmark
  public long clockNow(Page page, Records.Stream stream) {
    return stream.next() + page.clock.now();
  }

  @Benchmark
  public long clockWall(Page page, Records.Stream stream) {
    return stream.next() + page.clock.wallNanos();
  }

  @Benchmark
  public long clockError(Page page, Records.Stream stream) {
    return stream.next() + page.clock.errorNanos();
  }

  @Benchmark
  public long clockEpoch(Page page, Records.Stream stream) {
    return stream.next() + page.clock.epoch();
  }

  @Benchmark
  public long instantNow(Records.Stream stream) {
    Instant now = Instant.now();
    return stream.next() + now.getEpochSecond() + now.getNano();
  }

  @Benchmark
  public long currentTimeMillis(Records.Stream stream) {
    return stream.next() + System.currentTimeMillis();
  }

  @Benchmark
  public long eightReadings(Records.Stream stream) {
    long sum = stream.next();
    for (int at = 0; at < POINTS; at++) {
      sum += System.nanoTime();
    }
    return sum;
  }

  @Benchmark
  public void traceEight(Path8 path, Records.Stream stream) {
    stream.next();
    path.trace.begin();
    for (int point = 1; point < POINTS; point++) {
      path.trace.mark(point);
    }
    path.writer.finish(path.trace);
  }

  @Benchmark
  public void traceEightListed(Path8 path, Records.Stream stream) {
    stream.next();
    path.trace.begin();
    for (int point = 1; point < POINTS; point++) {
      path.trace.mark(point);
    }
    path.trace.addMarkAt(path.trade, 1);
    path.trace.addMarkAt(path.trade, 2);
    path.trace.addMarkAt(path.trade, 3);
    path.writer.finish(path.trace);
  }

  /** The same eleven times in eleven histograms: each stage, the total, both classes and the gap. */
  @Benchmark
  public void hdrEight(Path8 path, Records.Stream stream) {
    stream.next();
    long first = System.nanoTime();
    long before = first;
    long logic = 0;
    for (int point = 1; point < POINTS; point++) {
      long now = System.nanoTime();
      path.hdr[point].recordValue(now - before);
      logic += point == 2 || point == 3 || point == 5 ? now - before : 0;
      before = now;
    }
    path.hdr[0].recordValue(before - first);
    path.hdr[POINTS].recordValue(logic);
    path.hdr[POINTS + 1].recordValue(before - first - logic);
    path.hdr[POINTS + 2].recordValue(before - first);
  }
}
