package io.ogive;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * One publisher's hand in a {@link TraceRecorder}, of one thread at a time: counts finished messages without a lock, an atomic operation or an
 * allocation. Close it when its thread ends; what it counted stays.
 *
 * <p>How it is read: {@link #version} is odd while the writer is inside {@link #finish}. The recorder asks for another generation; the
 * writer, when it next comes in, changes sides and says so, after which nobody writes the side that it left until the generation after.
 * Of a writer that does not come, both sides are whole if its version is even and the same before and after they were copied. So a cell
 * holds all of a message or nothing, whatever the writer does meanwhile.
 */
public final class TraceWriter implements AutoCloseable {
  private static final VarHandle VERSION;
  private static final VarHandle STATE;
  private static final VarHandle PUBLISHED;
  private static final int SPINS = 1000;
  private static final int YIELDS = 50;

  static {
    try {
      VERSION = MethodHandles.lookup().findVarHandle(TraceWriter.class, "version", long.class);
      STATE = MethodHandles.lookup().findVarHandle(TraceWriter.class, "state", long.class);
      PUBLISHED = MethodHandles.lookup().findVarHandle(TraceWriter.class, "published", long.class);
    } catch (ReflectiveOperationException impossible) {
      throw new ExceptionInInitializerError(impossible);
    }
  }

  private final TraceRecorder recorder;
  private final TracePath path;
  private final Clock clock;
  private final int all;
  private final TraceSide[] sides;
  /** What the taking thread saw of each side. */
  private final TraceTotals.Seen[] seen = {new TraceTotals.Seen(), new TraceTotals.Seen()};
  final SlowRing slow;
  final int publisher;
  /** The later mark of each name while a list is walked, and its epoch. */
  private final long[] laterTicks = new long[TracePath.MARK_NAMES_MAX];
  private final int[] laterEpoch = new int[TracePath.MARK_NAMES_MAX];

  private long version;
  /** Twice the generation, and the side of it. */
  private long state = 1 << 1;
  private long generation = 1;
  private int current;
  private long versionTaken;
  /** The publisher's last message, or 0 before there is one; and its epoch. */
  private long published;
  private int publishedEpoch = -1;
  private volatile boolean closed;

  TraceWriter(TraceRecorder recorder, int publisher) {
    this.recorder = recorder;
    path = recorder.path();
    clock = recorder.clock();
    int points = path.points().size();
    all = (1 << points) - 1;
    sides = new TraceSide[] {new TraceSide(points), new TraceSide(points)};
    slow = new SlowRing(points, publisher);
    this.publisher = publisher;
  }

  /**
   * Counts a message. Its last point, stamped before, is when it was published.
   *
   * @throws IllegalArgumentException for a message of another path
   */
  public void finish(Trace trace) {
    if (trace.path != path) {
      throw new IllegalArgumentException("a trace of " + trace.path.name() + " is none of " + path.name());
    }
    if (trace.marks > 0 && sides[0].between.length < path.markNames()) {
      grow();
    }
    VERSION.setOpaque(this, version + 1);
    // Orders the odd version before what is counted; its partner is the acquire fence of a take. Free on x86.
    VarHandle.storeStoreFence();
    long wanted = recorder.generation();
    if (wanted != generation) {
      turn(wanted);
    }
    TraceSide side = sides[current];
    long[] numbers = side.numbers;
    numbers[TraceSide.FINISHED]++;
    int epoch = clock.epoch();
    if (trace.marks > 0) {
      countMarks(trace, side);
    }
    numbers[TraceSide.REPEATED] += trace.repeated;
    if (trace.seen == all && trace.epoch == epoch) {
      long total = addWhole(trace.ticks, side);
      long gap = gap(trace.ticks[trace.ticks.length - 1], epoch, side);
      keepIfSlow(trace, side, total, gap);
    } else {
      finishOtherwise(trace, side, epoch);
    }
    // Release: what was counted is there when the version is even again; its partner is the acquire of a take.
    VERSION.setRelease(this, version + 1);
  }

  /** Tables for names of marks that came since. */
  private void grow() {
    int names = path.markNames();
    for (TraceSide side : sides) {
      side.grow(names);
    }
  }

  private void turn(long wanted) {
    generation = wanted;
    current ^= 1;
    sides[current].forgetExtremes();
    // Release: the side that was left is as it will be; its partner is the acquire of a take.
    STATE.setRelease(this, wanted << 1 | current);
  }

  /** A stamp before an earlier one is taken for that one. */
  private long addWhole(long[] ticks, TraceSide side) {
    TraceSide.Bins[] bins = side.bins;
    long[] masks = path.logicMasks;
    long at = ticks[0];
    long logic = 0;
    for (int point = 1; point < ticks.length; point++) {
      long stamp = ticks[point];
      if (stamp - at < 0) {
        side.numbers[TraceSide.CLAMPED]++;
        stamp = at;
      }
      long nanos = stamp - at;
      bins[TraceSide.STAGES + point - 1].add(nanos);
      logic += nanos & masks[point];
      at = stamp;
    }
    long total = at - ticks[0];
    bins[TraceSide.TOTAL].add(total);
    bins[TraceSide.LOGIC].add(logic);
    bins[TraceSide.INFRASTRUCTURE].add(total - logic);
    return total;
  }

  /** Counts the time since the publisher's last message; gives it, or -1 when there was none in this epoch. */
  private long gap(long now, int epoch, TraceSide side) {
    long before = published;
    PUBLISHED.setOpaque(this, now);
    if (publishedEpoch != epoch) {
      publishedEpoch = epoch;
      side.numbers[TraceSide.GAPS_SKIPPED]++;
      return -1;
    }
    long gap = now - before;
    if (gap < 0) {
      side.numbers[TraceSide.CLAMPED]++;
      gap = 0;
    }
    side.bins[TraceSide.GAP].add(gap);
    return gap;
  }

  /** A message that straddles epochs, or lacks stamps. */
  private void finishOtherwise(Trace trace, TraceSide side, int epoch) {
    long[] numbers = side.numbers;
    int points = trace.ticks.length;
    for (int point = 0; point < points; point++) {
      numbers[TraceSide.MISSING + point] += ~trace.seen >> point & 1;
    }
    boolean first = (trace.seen & 1) != 0;
    boolean last = (trace.seen >> points - 1 & 1) != 0;
    // Without its first stamp, a message does not know its epoch; its last was made just now.
    boolean straddled = first && trace.epoch != epoch;
    long gap = -1;
    if (last && !straddled) {
      gap = gap(trace.ticks[points - 1], epoch, side);
    } else {
      numbers[TraceSide.GAPS_SKIPPED]++;
    }
    if (straddled) {
      numbers[TraceSide.STRADDLED]++;
    } else if (!first || !last) {
      numbers[TraceSide.INCOMPLETE]++;
    } else {
      numbers[TraceSide.PARTIAL]++;
      keepIfSlow(trace, side, addPartial(trace, side), gap);
    }
  }

  /** The total is known, and the stages both of whose ends are. */
  private long addPartial(Trace trace, TraceSide side) {
    long at = trace.ticks[0];
    for (int point = 1; point < trace.ticks.length; point++) {
      if ((trace.seen >> point & 1) == 0) {
        continue;
      }
      long nanos = trace.ticks[point] - at;
      if (nanos < 0) {
        side.numbers[TraceSide.CLAMPED]++;
        nanos = 0;
      }
      at += nanos;
      if ((trace.seen >> point - 1 & 1) != 0) {
        side.bins[TraceSide.STAGES + point - 1].add(nanos);
      }
    }
    long total = at - trace.ticks[0];
    side.bins[TraceSide.TOTAL].add(total);
    return total;
  }

  /** Counts the times between two marks of one name, from the newest mark to the oldest that is kept. */
  private void countMarks(Trace trace, TraceSide side) {
    long[] numbers = side.numbers;
    int mask = trace.markTicks.length - 1;
    long known = 0;
    for (long mark = trace.marks - 1; mark >= trace.marksLost(); mark--) {
      int what = trace.markWhat[(int) mark & mask];
      long ticks = trace.markTicks[(int) mark & mask];
      int name = what & 0xff;
      if ((known >>> name & 1) == 0) {
        known |= 1L << name;
        numbers[TraceSide.LISTED_FIRST]++;
      } else if (laterEpoch[name] == what >>> 8) {
        long nanos = laterTicks[name] - ticks;
        numbers[TraceSide.CLAMPED] += nanos >>> 63;
        side.between[name].add(Math.max(nanos, 0));
      } else {
        numbers[TraceSide.LISTED_STRADDLED]++;
      }
      laterTicks[name] = ticks;
      laterEpoch[name] = what >>> 8;
    }
    numbers[TraceSide.LISTED] += trace.marks;
    numbers[TraceSide.LISTED_LOST] += trace.marksLost();
  }

  private void keepIfSlow(Trace trace, TraceSide side, long total, long gap) {
    long limit = recorder.limitNanos();
    if (total > limit) {
      side.numbers[TraceSide.SLOW]++;
      slow.push(trace, generation, gap, limit);
    }
  }

  /** Adds what was finished since the last time, all or nothing. Of one thread at a time; false when the writer was held up inside. */
  boolean take(long wanted, TraceTotals into) {
    for (int turn = 0; turn < SPINS + YIELDS; turn++) {
      long before = (long) VERSION.getAcquire(this);
      long seenState = (long) STATE.getAcquire(this);
      if (seenState >>> 1 == wanted) {
        int left = (int) (seenState & 1) ^ 1;
        seen[left].drain(sides[left], into, publisher);
        return true;
      }
      if ((before & 1) == 0) {
        if (before == versionTaken) {
          return true;
        }
        TraceSide[] copies = {new TraceSide(sides[0]), new TraceSide(sides[1])};
        VarHandle.acquireFence();
        if ((long) VERSION.getOpaque(this) == before) {
          drainBoth(copies, into);
          versionTaken = before;
          return true;
        }
      }
      if (turn < SPINS) {
        Thread.onSpinWait();
      } else {
        Thread.yield();
      }
    }
    return false;
  }

  private void drainBoth(TraceSide[] from, TraceTotals into) {
    for (int side = 0; side < 2; side++) {
      seen[side].drain(from[side], into, publisher);
    }
  }

  /** Takes the rest of a writer that was closed. */
  void takeLast(TraceTotals into) {
    drainBoth(sides, into);
  }

  boolean isClosed() {
    return closed;
  }

  /** Nanoseconds since the last message; -1 before there is one. */
  long quietNanos(long now) {
    long last = (long) PUBLISHED.getOpaque(this);
    return last == 0 ? -1 : Math.max(now - last, 0);
  }

  /** Ends this hand, by the thread that has it; what it counted comes with the next snapshot. */
  @Override
  public void close() {
    closed = true;
  }
}
