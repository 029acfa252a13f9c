package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Messages whose stamps are given, so that every number is known; then threads, allocations, and the clock's epochs. */
class TraceTest {
  private static final TracePath PATH =
      TracePath.named("OrderPath").infra("recv").infra("decode").logic("matched").infra("publish").build();
  private static final int DECODE = PATH.point("decode");
  private static final int MATCHED = PATH.point("matched");
  private static final int PUBLISH = PATH.point("publish");
  private static final TracePath.MarkName TRADE = PATH.markName("trade");
  private static final TracePath.MarkName QUOTE = PATH.markName("quote");
  private static final Duration NEVER = Duration.ofDays(1);

  private static TraceRecorder recorder(Duration limit) {
    return new TraceRecorder(PATH, Clock.system(), Threshold.fixed(limit));
  }

  /** A message that began at {@code from} and whose stages took so long. */
  private static Trace message(TraceRecorder recorder, long from, long... stages) {
    Trace trace = recorder.trace();
    trace.beginAt(from);
    long at = from;
    for (int point = 1; point <= stages.length; point++) {
      at += stages[point - 1];
      trace.markAt(point, at);
    }
    return trace;
  }

  private static void equal(double expectedNanos, double seconds) {
    assertEquals(expectedNanos / 1e9, seconds, 1e-18);
  }

  @Test
  void everyStageClassAndGapIsCounted() {
    TraceRecorder recorder = recorder(NEVER);
    try (TraceWriter writer = recorder.writer("engine")) {
      writer.finish(message(recorder, 1_000, 100, 200, 300));
      writer.finish(message(recorder, 5_000, 110, 210, 310));
      TraceCell cell = recorder.snapshot();
      assertTrue(cell.isConserved());
      assertEquals(2, cell.total().count());
      equal(1_230, Statistics.sum(cell.total()));
      equal(600, cell.total().min());
      equal(630, cell.total().max());
      equal(410, Statistics.sum(cell.logic()));
      equal(820, Statistics.sum(cell.infrastructure()));
      assertEquals(List.of("decode", "matched", "publish"), cell.stages().stream().map(TraceCell.Stage::name).toList());
      assertEquals(List.of("infra", "logic", "infra"), cell.stages().stream().map(TraceCell.Stage::className).toList());
      equal(210, Statistics.sum(cell.stages().get(0).times()));
      equal(410, Statistics.sum(cell.stages().get(1).times()));
      equal(610, Statistics.sum(cell.stages().get(2).times()));
      equal(4_030, Statistics.sum(cell.publishers().get(0).gaps()));
      assertEquals(1, cell.counts().gapsSkipped());
      assertTrue(cell.publishers().get(0).quietNanos() > 0);
      // The next cell has what came since, with its own extremes; an idle one nothing.
      writer.finish(message(recorder, 9_000, 1, 1, 1));
      TraceCell next = recorder.snapshot();
      assertEquals(1, next.total().count());
      equal(3, next.total().max());
      equal(3, next.total().min());
      assertEquals(0, recorder.snapshot().counts().finished());
    }
    assertEquals(0, recorder.snapshot().counts().finished(), "closed");
  }

  @Test
  void whatIsNotMeasuredIsCounted(@TempDir Path directory) throws IOException {
    ClockPage page = new ClockPage(directory.resolve("clock"));
    Clock clock = Clock.open(page.path);
    TraceRecorder recorder = new TraceRecorder(PATH, clock, Threshold.fixed(NEVER));
    TraceWriter writer = recorder.writer("engine");
    Trace partial = recorder.trace();
    partial.beginAt(1_000);
    partial.markAt(MATCHED, 1_300);
    partial.markAt(PUBLISH, 1_200);
    partial.markAt(PUBLISH, 9_999);
    writer.finish(partial);
    Trace incomplete = recorder.trace();
    incomplete.beginAt(1_000);
    writer.finish(incomplete);
    incomplete.clear();
    writer.finish(incomplete);
    Trace straddled = message(recorder, 2_000, 1, 2, 3);
    page.publish(System.nanoTime(), 0, 4, true);
    writer.finish(straddled);
    TraceCell cell = recorder.snapshot();
    assertTrue(cell.isConserved());
    TraceCell.Counts counts = cell.counts();
    assertEquals(new TraceCell.Counts(4, 2, 1, 1, 1, 4, 0, 1, 0, 0, 0, 0), counts);
    equal(300, Statistics.sum(cell.total()));
    assertEquals(List.of(3L, 2L, 2L), cell.stages().stream().map(TraceCell.Stage::missing).toList());
    assertEquals(List.of(0L, 0L, 1L), cell.stages().stream().map(stage -> stage.times().count()).toList());
    assertThrows(IllegalArgumentException.class, () -> writer.finish(new Trace(TracePath.named("Other").infra("a").infra("b").build(), clock)));
    assertThrows(IllegalArgumentException.class, () -> incomplete.addMark(TracePath.named("Other").infra("a").infra("b").build().markName("trade")));
  }

  @Test
  void anyNumberOfMarksGivesTheTimesBetweenThem(@TempDir Path directory) throws IOException {
    ClockPage page = new ClockPage(directory.resolve("clock"));
    TraceRecorder recorder = new TraceRecorder(PATH, Clock.open(page.path), Threshold.fixed(Duration.ofNanos(500)));
    TraceWriter writer = recorder.writer("engine");
    Trace trace = message(recorder, 1_000, 100, 200, 300);
    writer.finish(trace); // none
    trace = message(recorder, 2_000, 100, 200, 300);
    trace.addMarkAt(TRADE, 2_110);
    writer.finish(trace); // one
    trace = message(recorder, 3_000, 100, 200, 300);
    for (long at : new long[] {3_110, 3_120, 3_150, 3_140}) {
      trace.addMarkAt(TRADE, at);
      trace.addMarkAt(QUOTE, at + 5);
    }
    page.publish(System.nanoTime(), 0, 3, true); // the same epoch
    writer.finish(trace);
    TraceCell cell = recorder.snapshot();
    assertTrue(cell.isConserved());
    assertEquals(9, cell.counts().listed());
    assertEquals(3, cell.counts().listedFirst());
    assertEquals(2, cell.counts().clamped());
    TraceCell.Mark trades = cell.marks().get(TRADE.index());
    assertEquals("trade", trades.name());
    assertEquals(3, trades.between().count());
    equal(40, Statistics.sum(trades.between()));
    List<SlowTrace> slow = recorder.drain();
    assertEquals(List.of(0L, 1L, 8L), slow.stream().map(SlowTrace::listed).toList());
    assertEquals(new SlowTrace.Mark("quote", 115, 115), slow.get(2).marks().get(1));
    // More than are kept: the earliest are lost, and said to be.
    Trace few = new Trace(PATH, Clock.system(), 3);
    few.beginAt(4_000);
    for (int at = 0; at < 10; at++) {
      few.addMarkAt(TRADE, 4_000 + at);
    }
    few.markAt(DECODE, 4_100);
    few.markAt(MATCHED, 4_200);
    few.markAt(PUBLISH, 9_000);
    assertEquals(10, few.marks());
    few.epoch = 3;
    writer.finish(few);
    cell = recorder.snapshot();
    assertTrue(cell.isConserved());
    assertEquals(6, cell.counts().listedLost());
    assertEquals(3, cell.marks().get(TRADE.index()).between().count());
    SlowTrace only = recorder.drain().get(0);
    assertEquals(6, only.listedLost());
    assertEquals(List.of(6L, 7L, 8L, 9L), only.marks().stream().map(SlowTrace.Mark::nanos).toList());
    // A break of the clock between two marks.
    trace = message(recorder, 5_000, 100, 200, 300);
    trace.addMarkAt(TRADE, 5_010);
    page.publish(System.nanoTime(), 0, 4, true);
    trace.addMarkAt(TRADE, 5_020);
    writer.finish(trace);
    cell = recorder.snapshot();
    assertTrue(cell.isConserved());
    assertEquals(1, cell.counts().listedStraddled());
  }

  @Test
  void aLineIsWhatRustWrites() throws IOException {
    Path vectors = Path.of("../../vectors/trace");
    SlowTrace slow = new SlowTrace("OrderPath", "feed 1", 1_700_000_000_123_456_789L, 10_047_998, 26_085_809, 1_000_000, 10_052_113, 0, 0,
        List.of("replicate"), new SlowTrace.ClockNote("counter", "tsc-lfence", 2_596_120_000L, 35, 101, 0),
        List.of(new SlowTrace.Stage("decode", "infra", 1_204, 3_126), new SlowTrace.Stage("journal", "infra", 10_041_210, 26_068_186),
            new SlowTrace.Stage("matched", "logic", 2_313, 6_006), new SlowTrace.Stage("publish", "infra", 3_271, 8_491)), 0, 0, List.of());
    assertEquals(Files.readString(vectors.resolve("slow.txt")).strip(), slow.toString());
    SlowTrace listed = new SlowTrace("OrderPath", "engine", 1_700_000_000_123_456_789L, 120_000, 120_000, 100_000, -1, 0, 0, List.of(),
        new SlowTrace.ClockNote("os", "os", 1_000_000_000, 40, 253, 0),
        List.of(new SlowTrace.Stage("matched", "logic", 20_000, 20_000), new SlowTrace.Stage("publish", "infra", 100_000, 100_000)), 3, 0,
        List.of(new SlowTrace.Mark("trade", 21_000, 21_000), new SlowTrace.Mark("trade", 22_200, 22_200), new SlowTrace.Mark("trade", 118_600, 118_600)));
    assertEquals(Files.readString(vectors.resolve("marks.txt")).strip(), listed.toString());
  }

  @Test
  void onlySlowMessagesAreKeptWhole() {
    TraceRecorder recorder = new TraceRecorder(PATH, Clock.system(), Threshold.tail(2, Duration.ofNanos(10_000)));
    TraceWriter writer = recorder.writer("feed \u20ac1");
    long wall = System.currentTimeMillis() * 1_000_000;
    long now = System.nanoTime();
    writer.finish(message(recorder, now, 100, 200, 9_700));
    writer.finish(message(recorder, now, 100, 200, 9_701));
    List<SlowTrace> slow = recorder.drain();
    assertEquals(1, slow.size());
    SlowTrace one = slow.get(0);
    assertEquals(10_001, one.totalNanos());
    assertEquals(1, one.gapNanos());
    assertTrue(Math.abs(one.publishedNanos() - wall) < 1_000_000_000L);
    String line = one.toString();
    assertTrue(line.startsWith("ogive-trace=1 path=OrderPath publisher=feed%20%E2%82%AC1 published_ns="), line);
    assertTrue(line.contains(" total_ns=10001 total_ticks=10001 limit_ns=10000 gap_ns=1 epoch=0 clamped=0 missing=- clock=os source=os"), line);
    assertTrue(line.endsWith(" stage=decode,infra,100,100,1.00 stage=matched,logic,200,200,2.00 stage=publish,infra,9701,9701,97.00"), line);
    // The threshold follows the tail of the cell; never below its floor.
    recorder.snapshot();
    assertTrue(recorder.limitNanos() >= 20_000 && recorder.limitNanos() < 24_000, () -> "limit " + recorder.limitNanos());
    recorder.snapshot();
    assertTrue(recorder.limitNanos() >= 20_000, "a cell without messages changes nothing");
    writer.finish(message(recorder, now, 1, 1, 1));
    recorder.snapshot();
    assertEquals(10_000, recorder.limitNanos());
    // A writer overwrites its oldest, and says so.
    for (int at = 0; at < SlowRing.SLOTS + 7; at++) {
      writer.finish(message(recorder, now, 1, 1, 20_000 + at));
    }
    List<SlowTrace> last = recorder.drain();
    assertEquals(SlowRing.SLOTS, last.size());
    assertEquals(new TraceRecorder.Dumps(1 + SlowRing.SLOTS, 7), recorder.dumps());
    writer.finish(message(recorder, now, 1, 1, 30_000));
    writer.close();
    assertTrue(recorder.drainTaken().isEmpty(), "it is of the next cell");
    assertEquals(SlowRing.SLOTS + 8, recorder.snapshot().counts().slow());
    assertEquals(1, recorder.drainTaken().size());
    assertEquals(new TraceRecorder.Dumps(2 + SlowRing.SLOTS, 7), recorder.dumps());
  }

  /** Every cell is whole whatever the writers do meanwhile, and all cells together are what they finished. */
  @Test
  void everyCellIsConservedUnderLoad() throws InterruptedException {
    TraceRecorder recorder = recorder(Duration.ofNanos(5_000));
    int each = 300_000;
    List<Thread> threads = new ArrayList<>();
    AtomicLong marked = new AtomicLong();
    for (int number = 0; number < 3; number++) {
      String name = "publisher " + number % 2;
      SplittableRandom random = new SplittableRandom(number);
      threads.add(new Thread(() -> {
        try (TraceWriter writer = recorder.writer(name)) {
          Trace trace = recorder.trace();
          for (int at = 0; at < each; at++) {
            trace.begin();
            for (int marks = random.nextInt(4); marks > 0; marks--) {
              trace.addMark(random.nextBoolean() ? TRADE : QUOTE);
            }
            for (int point = 1; point < 4; point++) {
              if (random.nextInt(50) != 0) {
                trace.mark(point);
              }
            }
            marked.addAndGet(trace.marks());
            writer.finish(trace);
          }
        }
      }));
    }
    threads.forEach(Thread::start);
    long finished = 0;
    long listed = 0;
    long slow = 0;
    int cells = 0;
    for (boolean alive = true; alive; ) {
      alive = threads.stream().anyMatch(Thread::isAlive);
      TraceCell cell = recorder.snapshot();
      assertTrue(cell.isConserved(), () -> "in a cell: " + cell);
      assertTrue(!cell.total().isSumExact() || Double.isNaN(cell.total().max()) || cell.total().max() * 1e9 <= 1e12);
      finished += cell.counts().finished();
      listed += cell.counts().listed();
      slow += cell.counts().slow();
      cells++;
      recorder.drainTaken();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    TraceCell rest = recorder.snapshot();
    recorder.drain();
    assertEquals(3L * each, finished + rest.counts().finished());
    assertEquals(marked.get(), listed + rest.counts().listed());
    TraceRecorder.Dumps dumps = recorder.dumps();
    assertEquals(slow + rest.counts().slow(), dumps.read() + dumps.overwritten());
    assertNotEquals(0, cells);
  }

  /** After warm-up neither stamping nor marking nor finishing allocates, also of slow messages, and while cells are taken. */
  @Test
  void nothingIsAllocatedAfterWarmUp(@TempDir Path directory) throws IOException {
    ClockPage page = new ClockPage(directory.resolve("clock"));
    for (Clock clock : List.of(Clock.system(), Clock.open(page.path))) {
      nothingIsAllocated(new TraceRecorder(PATH, clock, Threshold.fixed(Duration.ofNanos(1))));
    }
  }

  private static void nothingIsAllocated(TraceRecorder recorder) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    TraceWriter writer = recorder.writer("engine");
    Trace trace = recorder.trace();
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 5; round++) {
      recorder.snapshot();
      long before = threads.getCurrentThreadAllocatedBytes();
      for (int at = 0; at < 20_000; at++) {
        trace.begin();
        trace.mark(DECODE);
        trace.addMark(TRADE);
        trace.addMark(TRADE);
        trace.mark(MATCHED);
        trace.mark(PUBLISH);
        writer.finish(trace);
      }
      least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
    }
    assertEquals(0, least, "bytes of 20,000 messages");
    assertTrue(recorder.snapshot().counts().slow() > 0);
  }

  @Test
  void namesAreLimited() {
    for (String name : List.of("", "-", "a b", "1a", "x".repeat(65), "\u00fc")) {
      assertThrows(IllegalArgumentException.class, () -> TracePath.named(name));
    }
    TracePath.named("x".repeat(64));
    assertThrows(IllegalArgumentException.class, () -> TracePath.named("P").infra("a").build());
    assertThrows(IllegalArgumentException.class, () -> TracePath.named("P").infra("a").infra("a"));
    assertThrows(IllegalArgumentException.class, () -> PATH.point("none"));
    TracePath.Builder builder = TracePath.named("P");
    for (int at = 0; at < 12; at++) {
      builder.infra("p" + at);
    }
    TracePath path = builder.build();
    assertThrows(IllegalArgumentException.class, () -> builder.infra("p12").build());
    for (int at = 0; at < 70; at++) {
      TracePath.MarkName name = path.markName("\u20ac".repeat(11) + at);
      assertTrue(name.name().equals("\u20ac".repeat(10)), "32 bytes, whole characters");
      path.markName("mark " + at);
    }
    assertEquals(64, path.marks().size());
    assertEquals("(other)", path.markName("another").name());
    assertEquals("order_path_seconds", TraceSeries.metric("OrderPath"));
    assertEquals("http2_get_seconds", TraceSeries.metric("HTTP2Get"));
    assertThrows(IllegalArgumentException.class, () -> new Trace(path, Clock.system(), 0));
    assertThrows(IllegalArgumentException.class, () -> new Trace(path, Clock.system(), 8193));
  }
}
