package io.ogive;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Flat bins against the rule of integers, and takes beside writers. */
class RecorderTest {
  private static void binIsTheRules(long nanoseconds) {
    Bin found = Bin.ofKey(FlatBins.key(FlatBins.of(nanoseconds)));
    assertEquals(Bin.ofInteger(nanoseconds, -9), found, () -> nanoseconds + " ns");
  }

  @Test
  void aDurationIsInTheBinOfTheRule() {
    for (long at = 0; at < 100_000; at++) {
      binIsTheRules(at);
    }
    for (long power = 1; power < Long.MAX_VALUE / 100; power *= 10) {
      for (long digits = 10; digits < 100; digits++) {
        for (long beside = -1; beside < 2; beside++) {
          binIsTheRules(power * digits + beside);
        }
      }
    }
    new SplittableRandom(1).longs(1_000_000).forEach(value -> binIsTheRules(value >>> 1 + (value & 31)));
    binIsTheRules(Long.MAX_VALUE);
  }

  @Test
  void takesAddUpToWhatWasRecorded() throws InterruptedException {
    Recorder recorder = new Recorder();
    int each = 200_000;
    List<Thread> writers = new ArrayList<>();
    for (int writer = 1; writer <= 3; writer++) {
      int factor = writer;
      writers.add(new Thread(() -> {
        for (long at = 1; at <= each; at++) {
          recorder.recordNanoseconds(at * factor);
        }
      }));
    }
    writers.forEach(Thread::start);
    Histogram all = new Histogram();
    while (writers.stream().anyMatch(Thread::isAlive)) {
      all.merge(recorder.take());
    }
    all.merge(recorder.take());
    assertEquals(3L * each, all.count());
    double expected = 6.0 * each * (each + 1.0) / 2 / 1e9;
    assertTrue(all.isSumExact());
    assertEquals(expected, Statistics.sum(all), expected * 1e-12);
  }

  @Test
  void aSingleWritersTakesAddUpToo() throws InterruptedException {
    SingleWriterRecorder recorder = new SingleWriterRecorder();
    int each = 2_000_000;
    Thread writer = new Thread(() -> {
      for (long at = 1; at <= each; at++) {
        recorder.recordNanoseconds(at);
      }
      recorder.recordNanoseconds(-5);
    });
    writer.start();
    Histogram all = new Histogram();
    while (writer.isAlive()) {
      all.merge(recorder.take());
    }
    writer.join();
    all.merge(recorder.take());
    Histogram model = new Histogram();
    model.recordBin(Bin.ZERO, 1);
    for (long at = 1; at <= each; at++) {
      model.recordBin(Bin.ofInteger(at, -9), 1);
    }
    assertArrayEquals(Codec.encode(model), Codec.encode(all));
    double expected = each * (each + 1.0) / 2 / 1e9;
    assertEquals(expected, Statistics.sum(all), expected * 1e-12);
    assertTrue(Double.isNaN(all.min()));
    assertEquals(0, recorder.take().count());
  }

  /** Merging adds in place and inserts what is missing: every mixture of bins must be what a map of counts says. */
  @Test
  void mergesAreThoseOfAMap() {
    SplittableRandom random = new SplittableRandom(3);
    for (int round = 0; round < 2000; round++) {
      Histogram total = new Histogram();
      TreeMap<Integer, Long> model = new TreeMap<>();
      for (int part = 0; part < 4; part++) {
        Histogram added = new Histogram();
        for (int bins = random.nextInt(12); bins > 0; bins--) {
          int key = random.nextInt(4) == 0 ? Bin.NAN_KEY : random.nextInt(30) - 10;
          added.add(key, 2);
          model.merge(key, 2L, Long::sum);
        }
        total.merge(added);
      }
      TreeMap<Integer, Long> found = new TreeMap<>();
      total.forEach((bin, count) -> found.put(bin.key(), count));
      assertEquals(model, found);
    }
  }

  @Test
  void aTakeKnowsSumAndExtremes() {
    Recorder recorder = new Recorder();
    for (long at = 1; at <= 1000; at++) {
      recorder.recordNanoseconds(at);
    }
    recorder.recordNanoseconds(-5);
    Histogram taken = recorder.take();
    assertEquals(1001, taken.count());
    assertEquals(0, taken.min());
    assertEquals(1e-6, taken.max());
    assertEquals(500_500 / 1e9, Statistics.sum(taken));
    assertEquals(0, recorder.take().count());
  }
}
