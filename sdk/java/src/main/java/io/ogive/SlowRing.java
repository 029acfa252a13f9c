package io.ogive;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;

/**
 * The last slow messages of one writer, whole. The writer overwrites the oldest and never waits; each slot has a number that is odd
 * while it is written, so that a reader has a message whole or knows that it is gone.
 */
final class SlowRing {
  /** 512 slots of 72 words at most are 288 KiB a writer: twice what an exporter sends of a second. */
  static final int SLOTS = 512;
  /** Marks that a slow message keeps, the first ones: so many fit into a line of 16 KiB. */
  static final int MARKS_MAX = 52;
  private static final int OFFSET_BITS = 56;
  private static final long OFFSET_MAX = (1L << OFFSET_BITS) - 1;

  private static final int SEEN = 0;
  private static final int EPOCH = 1;
  private static final int GENERATION = 2;
  private static final int GAP = 3;
  private static final int LIMIT = 4;
  private static final int LISTED = 5;
  private static final int LOST = 6;
  private static final int KEPT = 7;
  private static final int STAMPS = 8;
  private static final VarHandle WORD = MethodHandles.arrayElementVarHandle(long[].class);

  private final int points;
  private final int publisher;
  private final int words;
  private final long[] slots;
  private final long[] sequences = new long[SLOTS];
  private long pushed;
  /** Of the reader. */
  private long next;
  private long read;
  private long overwritten;

  SlowRing(int points, int publisher) {
    this.publisher = publisher;
    this.points = points;
    words = STAMPS + points + MARKS_MAX;
    slots = new long[SLOTS * words];
  }

  /** A slow message as it was kept; marks are their nanoseconds since the first stamp, with the name in the byte above. */
  record Kept(int seen, int epoch, long gap, long limit, long listed, long lost, long[] stamps, long[] marks) {}

  /** Of the writer. {@code gap} is -1 for none. */
  void push(Trace trace, long generation, long gap, long limit) {
    int slot = (int) pushed & SLOTS - 1;
    WORD.setOpaque(sequences, slot, 2 * pushed + 1);
    VarHandle.storeStoreFence();
    int at = slot * words;
    slots[at + SEEN] = trace.seen;
    slots[at + EPOCH] = trace.epoch;
    slots[at + GENERATION] = generation;
    slots[at + GAP] = gap;
    slots[at + LIMIT] = limit;
    slots[at + LISTED] = trace.marks;
    long lost = trace.marksLost();
    int kept = (int) Math.min(trace.marks - lost, MARKS_MAX);
    slots[at + LOST] = lost;
    slots[at + KEPT] = kept;
    System.arraycopy(trace.ticks, 0, slots, at + STAMPS, points);
    for (int mark = 0; mark < kept; mark++) {
      int from = (int) (lost + mark) & trace.markTicks.length - 1;
      long offset = Math.min(Math.max(trace.markTicks[from] - trace.ticks[0], 0), OFFSET_MAX);
      slots[at + STAMPS + points + mark] = offset | (long) (trace.markWhat[from] & 0xff) << OFFSET_BITS;
    }
    // Release; its partner is the acquire in `drain`.
    WORD.setRelease(sequences, slot, 2 * pushed + 2);
    pushed++;
  }

  /** Gives messages that were kept before a generation began, oldest first. Of one thread at a time. */
  void drain(long generation, List<Kept> into) {
    while (true) {
      int slot = (int) next & SLOTS - 1;
      long sequence = (long) WORD.getAcquire(sequences, slot);
      long own = 2 * next + 2;
      if (sequence < own) {
        // Not there yet: it is another lap's, or is being written.
        return;
      }
      Kept kept = sequence == own ? copy(slot * words) : null;
      boolean isLater = kept != null && slots[slot * words + GENERATION] - generation >= 0;
      VarHandle.acquireFence();
      if (kept == null || (long) WORD.getOpaque(sequences, slot) != sequence) {
        overwritten++;
      } else if (isLater) {
        return;
      } else {
        read++;
        into.add(kept);
      }
      next++;
    }
  }

  private Kept copy(int at) {
    long[] stamps = new long[points];
    System.arraycopy(slots, at + STAMPS, stamps, 0, points);
    long[] marks = new long[(int) Math.min(Math.max(slots[at + KEPT], 0), MARKS_MAX)];
    System.arraycopy(slots, at + STAMPS + points, marks, 0, marks.length);
    return new Kept((int) slots[at + SEEN], (int) slots[at + EPOCH], slots[at + GAP], slots[at + LIMIT], slots[at + LISTED],
        slots[at + LOST], stamps, marks);
  }

  static int markName(long mark) {
    return (int) (mark >>> OFFSET_BITS);
  }

  static long markNanos(long mark) {
    return mark & OFFSET_MAX;
  }

  int publisher() {
    return publisher;
  }

  long read() {
    return read;
  }

  long overwritten() {
    return overwritten;
  }
}
