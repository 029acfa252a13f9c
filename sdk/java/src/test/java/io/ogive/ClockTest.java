package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The clock page of vectors/clock, and pages whose words say what a test needs. A real publisher's: sdk/clock_test.py. */
class ClockTest {
  @Test
  void stampsAreWhatTheVectorsSay(@TempDir Path directory) throws IOException {
    Clock clock = Clock.open(new ClockPage(directory.resolve("clock")).path);
    int found = 0;
    for (String line : Files.readAllLines(ClockPage.VECTORS.resolve("conversions.txt"))) {
      if (!line.startsWith("#")) {
        String[] words = line.split(" ", 2);
        long ticks = Long.parseUnsignedLong(words[0]);
        long ns = clock.nanosAt(ticks);
        assertEquals(words[1], ns < 0 ? "none" : ns + " " + clock.wallNanosAt(ticks), line);
        found++;
      }
    }
    assertTrue(found >= 8);
    assertEquals(-1, Clock.system().nanosAt(5_000_000_000_000L));
    // 2.5 GHz: 0.4 ns a tick.
    assertEquals(399_999, clock.nanosBetween(5_000_000_000_000L, 5_000_001_000_000L));
    assertEquals(0, clock.nanosBetween(2, 1));
  }

  @Test
  void whatIsNoPageIsRefused(@TempDir Path directory) throws IOException {
    assertThrows(IOException.class, () -> Clock.open(directory.resolve("none")));
    Path file = directory.resolve("clock");
    for (byte[] bytes : List.of(new byte[0], new byte[4095], new byte[4096])) {
      Files.write(file, bytes);
      assertThrows(IOException.class, () -> Clock.open(file));
    }
    ClockPage page = new ClockPage(file);
    Clock.open(page.write(1, 4096L << 32 | 1).path);
    assertThrows(IOException.class, () -> Clock.open(page.write(1, 4096L << 32 | 2).path));
    assertThrows(IOException.class, () -> Clock.open(page.write(1, 319L << 32 | 1).path));
  }

  @Test
  void withoutAPublisherItIsTheSystems(@TempDir Path directory) throws IOException {
    Clock ended = Clock.open(new ClockPage(directory.resolve("clock")).path);
    for (Clock clock : List.of(Clock.system(), ended)) {
      long before = System.nanoTime();
      long now = clock.now();
      assertTrue(before <= now && now <= System.nanoTime());
      assertEquals(0, clock.errorNanos());
      assertFalse(clock.isCounter());
      // The test may be held up anywhere.
      long wallBefore = nanos(Instant.now());
      long wall = clock.wallNanos();
      assertTrue(wallBefore - 1_000_000_000 < wall && wall < nanos(Instant.now()) + 1_000_000_000);
    }
    assertEquals(0, Clock.system().epoch());
    assertEquals(3, ended.epoch());
    Clock.Status status = ended.status();
    assertEquals(4242, status.process());
    assertEquals(2_500_000_000L, status.frequencyHz());
    assertFalse(status.counter());
  }

  @Test
  void aSegmentInForceGivesOffsetAndBound(@TempDir Path directory) throws IOException {
    ClockPage page = new ClockPage(directory.resolve("clock"));
    Clock clock = Clock.open(page.path);
    long offset = nanos(Instant.now()) - System.nanoTime() + 3_600_000_000_000L;
    long base = System.nanoTime() - 500_000_000;
    page.publish(base, offset, 7, true);
    assertTrue(clock.isCounter());
    assertEquals(7, clock.epoch());
    long before = System.nanoTime();
    long wall = clock.wallNanos();
    assertTrue(before + offset <= wall && wall <= System.nanoTime() + offset, "an hour ahead, as the page says");
    // 42 ns at its start, which grow by 1,000 ppb: 500 ns for the half second, and more for what the test took; and one.
    long error = clock.errorNanos();
    long grown = (System.nanoTime() - base) / 1_000_000;
    assertTrue(error >= 543 && error <= 44 + grown, () -> "error " + error + " of " + grown);
    // The line of another machine, or of another time namespace: this clock is not on it.
    page.publish(System.nanoTime() + 60_000_000_000L, offset, 7, true);
    assertFalse(clock.isCounter());
    page.publish(System.nanoTime() - 60_000_000_000L, offset, 7, true);
    assertFalse(clock.isCounter());
    page.publish(System.nanoTime(), offset, 8, false);
    assertFalse(clock.isCounter());
    assertEquals(8, clock.epoch());
  }

  private static long nanos(Instant instant) {
    return instant.getEpochSecond() * 1_000_000_000 + instant.getNano();
  }
}
