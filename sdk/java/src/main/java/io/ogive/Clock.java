package io.ogive;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;

/**
 * The clock of this machine, as other processes read it too: a page of memory that {@code ogive serve --clock-page FILE} or a program with
 * ogive_probe publishes (docs/formats/clock-page.md).
 *
 * <p>Java has no instruction for the processor's counter, and a call into C would cost more than it saves. So {@link #now()} is
 * {@link System#nanoTime()}, which HotSpot on Linux reads from CLOCK_MONOTONIC: the line on which the page keeps the counter. What the page
 * adds is the offset to UTC, so that one reading gives both times; the bound within which readings of C, Go and Rust agree with this
 * one; the epoch, which says when the line was broken; and the time of stamps that other processes took from the counter.
 *
 * <p>Safe for any number of threads; nothing blocks. {@link #now()}, {@link #epoch()} and the conversions of ticks allocate nothing; the
 * others allocate one small object for each publication that they see, of which there are ten a second. Without a page, or when its publisher
 * has gone, there is no offset but the system's own and no bound. A clock whose publisher was started anew is to be opened anew. A file that
 * is truncated under its readers is an InternalError in them; publishers never do that.
 */
public final class Clock {
  private static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int PAGE_BYTES = 4096;
  private static final int USED_BYTES = 320;
  private static final int VERSION = 1;
  private static final long MAGIC = 0x4b4c43455649474fL;
  private static final Clock SYSTEM = new Clock(null);

  // Words of the page, and of a slot.
  private static final int FORM = 1;
  private static final int WHO = 2;
  private static final int MADE = 3;
  private static final int INDEX = 8;
  private static final int SHIFT = 9;
  private static final int SLOTS = 16;
  private static final int TICK_RATE = 32;
  private static final int FREQUENCY = 33;
  private static final int CALIBRATED_AT = 39;
  private static final int BASE_TICKS = 0;
  private static final int BASE_NS = 1;
  private static final int RATE = 2;
  private static final int RATE_SLEWED = 3;
  private static final int SLEW_TICKS = 4;
  private static final int MAX_AGE = 5;
  private static final int WALL = 6;
  private static final int PACKED = 7;

  private final ByteBuffer page;
  private Segment last = Segment.NONE;

  /**
   * What is known of a clock.
   *
   * @param counter whether the publisher is there and reads the counter, and this process' clock is within the segment in force
   * @param process the publisher; 0 without a page
   * @param epoch breaks of the line so far: an interval across two epochs is meaningless
   * @param errorNanos as {@link Clock#errorNanos()}
   * @param frequencyHz of the publisher's ticks; 0 before it is known
   * @param ageNanos since the publisher's last calibration
   */
  public record Status(boolean counter, int process, int epoch, long errorNanos, long frequencyHz, long ageNanos) {}

  /** What a reader of CLOCK_MONOTONIC needs of a segment. */
  private record Segment(long index, boolean counter, long baseNanos, long endNanos, long wallOffset, long errorNanos, long driftPpb) {
    static final Segment NONE = new Segment(-1, false, 0, 0, 0, 0, 0);

    /** Whether a reading lies between the start of a segment of the counter and its end. */
    boolean holds(long now) {
      return counter && now >= baseNanos - errorNanos && now - error(now) <= endNanos;
    }

    long error(long now) {
      return errorNanos + (Math.max(now - baseNanos, 0) * driftPpb + 999_999_999) / 1_000_000_000 + 1;
    }
  }

  private Clock(ByteBuffer page) {
    this.page = page;
  }

  /** The system's clock alone. */
  public static Clock system() {
    return SYSTEM;
  }

  /**
   * Maps the page at {@code path}.
   *
   * @throws IOException when it cannot be mapped or is no clock page
   */
  public static Clock open(Path path) throws IOException {
    ByteBuffer page;
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      if (channel.size() < PAGE_BYTES) {
        throw new IOException(path + " is not a clock page: " + channel.size() + " bytes");
      }
      page = channel.map(FileChannel.MapMode.READ_ONLY, 0, PAGE_BYTES);
    }
    Clock clock = new Clock(page);
    long form = clock.word(FORM);
    if (clock.word(0) != MAGIC || (int) form != VERSION || form >>> 32 < USED_BYTES) {
      throw new IOException(path + " is not a clock page of version " + VERSION);
    }
    return clock;
  }

  /** Nanoseconds on the line of CLOCK_MONOTONIC. */
  public long now() {
    return System.nanoTime();
  }

  /** Nanoseconds since the Unix epoch. It steps when somebody sets the wall clock, at most 100 ms after that. */
  public long wallNanos() {
    long now = System.nanoTime();
    Segment segment = segment();
    if (segment.holds(now)) {
      return now + segment.wallOffset;
    }
    Instant wall = Instant.now();
    return wall.getEpochSecond() * 1_000_000_000 + wall.getNano();
  }

  /**
   * How far readings that other processes take from the page may be from {@link #now()}, in nanoseconds. 0 where they read the system's clock
   * too, because there is no page or its segment has ended.
   */
  public long errorNanos() {
    long now = System.nanoTime();
    Segment segment = segment();
    return segment.holds(now) ? segment.error(now) : 0;
  }

  /** Breaks of the line so far, such as the migration of a virtual machine; 0 without a page. */
  public int epoch() {
    while (page != null) {
      long index = index();
      long packed = word(slot(index) + PACKED);
      if (isStill(index)) {
        return (int) (packed >>> 40) & 0xffff;
      }
    }
    return 0;
  }

  /** Whether the publisher is there and reads the counter, and this process' clock is within the segment in force. */
  public boolean isCounter() {
    return segment().holds(System.nanoTime());
  }

  /**
   * The time of a stamp that another process took from the counter of this machine, in nanoseconds on the line of CLOCK_MONOTONIC; -1 when it
   * is outside of the segment in force, which began some 100 ms ago, or there is no page.
   */
  public long nanosAt(long ticks) {
    while (page != null) {
      long index = index();
      long ns = line(slot(index), ticks);
      if (isStill(index)) {
        return ns;
      }
    }
    return -1;
  }

  /** As {@link #nanosAt}, since the Unix epoch. */
  public long wallNanosAt(long ticks) {
    while (page != null) {
      long index = index();
      long ns = line(slot(index), ticks);
      long offset = word(slot(index) + WALL);
      if (isStill(index)) {
        return ns < 0 ? -1 : ns + offset;
      }
    }
    return -1;
  }

  /** Nanoseconds from one stamp of the counter to a later one; 0 when it is earlier, or there is no page. */
  public long nanosBetween(long from, long to) {
    if (page == null || Long.compareUnsigned(to, from) <= 0) {
      return 0;
    }
    long ticks = to - from;
    long rate = word(TICK_RATE);
    return unsignedHigh(ticks, rate) << 32 | ticks * rate >>> 32;
  }

  /** What is known of this clock. */
  public Status status() {
    if (page == null) {
      return new Status(false, 0, 0, 0, 1_000_000_000, 0);
    }
    long calibrated = Math.max(word(MADE), word(CALIBRATED_AT));
    long age = Math.max(System.nanoTime() - calibrated, 0);
    return new Status(isCounter(), (int) (word(WHO) >>> 32), epoch(), errorNanos(), word(FREQUENCY), age);
  }

  private long word(int at) {
    return (long) WORD.getOpaque(page, at * Long.BYTES);
  }

  /** Acquire; pairs with the release of the publisher, which fills a slot before it moves the index. */
  private long index() {
    return (long) WORD.getAcquire(page, INDEX * Long.BYTES);
  }

  /** Whether no publication came while a slot was read. */
  private boolean isStill(long index) {
    VarHandle.acquireFence();
    return (long) WORD.getOpaque(page, INDEX * Long.BYTES) == index;
  }

  private static int slot(long index) {
    return SLOTS + 8 * (int) (index & 1);
  }

  /** The segment in force, read anew after each publication. */
  private Segment segment() {
    if (page == null) {
      return Segment.NONE;
    }
    // A race of two threads costs one reading more: a segment never changes.
    Segment known = last;
    long index = index();
    while (known.index != index) {
      int slot = slot(index);
      long packed = word(slot + PACKED);
      long end = line(slot, word(slot + BASE_TICKS) + word(slot + MAX_AGE) - 1);
      Segment read = new Segment(index, (packed >>> 56 & 1) == 1, word(slot + BASE_NS), end, word(slot + WALL), packed & 0xffffff, packed >>> 24 & 0xffff);
      if (isStill(index)) {
        known = read;
        last = read;
      } else {
        index = index();
      }
    }
    return known;
  }

  /** The line at some ticks, or -1 outside of the segment. */
  private long line(int slot, long ticks) {
    long age = ticks - word(slot + BASE_TICKS);
    if (Long.compareUnsigned(age, word(slot + MAX_AGE)) >= 0) {
      return -1;
    }
    int shift = (int) word(SHIFT) & 31;
    long slew = word(slot + SLEW_TICKS);
    long slewed = Long.compareUnsigned(age, slew) < 0 ? age : slew;
    long first = slewed << shift;
    long second = age - slewed << shift;
    long low = first * word(slot + RATE_SLEWED);
    long carry = Long.compareUnsigned(low + second * word(slot + RATE), low) < 0 ? 1 : 0;
    return word(slot + BASE_NS) + unsignedHigh(first, word(slot + RATE_SLEWED)) + unsignedHigh(second, word(slot + RATE)) + carry;
  }

  /** The high word of an unsigned product; Math.unsignedMultiplyHigh came with Java 18. */
  private static long unsignedHigh(long a, long b) {
    return Math.multiplyHigh(a, b) + (a >> 63 & b) + (b >> 63 & a);
  }
}
