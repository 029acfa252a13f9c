package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Flat bins against the rule of integers, and takes beside writers. */
class RecorderTest {
  private static void binIsTheRules(long nanoseconds) {
    int flat = Recorder.flatBin(nanoseconds);
    Bin found = flat == 0 ? Bin.ZERO : Bin.ofKey((128 - 9) * 90 + flat);
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
    binIsTheRules(Long.MAX_VALUE - 1);
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
