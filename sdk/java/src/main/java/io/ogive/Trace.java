package io.ogive;

/**
 * The stamps of one message, which travel inside it: make one with each message object and use it again with that. Nothing here allocates but
 * the constructor. One thread at a time; whatever hands the message to the next thread hands its trace over too.
 *
 * <p>A point has one stamp: a second one is counted and changes nothing. What a message does a changing number of times, such as publish, is
 * marked with {@link #addMark}: any number of times, of which the last ones are kept.
 */
public final class Trace {
  /** Marks that a trace keeps unless told otherwise. */
  public static final int MARKS = 64;
  /** Marks that a trace keeps, at most. */
  public static final int MARKS_MAX = 8192;

  final TracePath path;
  private final Clock clock;
  final long[] ticks;
  /** Bit i is set when point i was stamped. */
  int seen;
  int repeated;
  int epoch;
  /** Marks made; mark i is at i modulo the length, with its name in the low byte and the epoch above it. */
  long marks;
  final long[] markTicks;
  final int[] markWhat;

  /** A trace that keeps the last {@value #MARKS} marks. */
  public Trace(TracePath path, Clock clock) {
    this(path, clock, MARKS);
  }

  /**
   * A trace that keeps so many of the last marks, rounded up to a power of two: 12 bytes each.
   *
   * @throws IllegalArgumentException for less than 1 or more than 8,192
   */
  public Trace(TracePath path, Clock clock, int marksKept) {
    if (marksKept < 1 || marksKept > MARKS_MAX) {
      throw new IllegalArgumentException(marksKept + " marks; a trace keeps 1 to " + MARKS_MAX);
    }
    int kept = Integer.highestOneBit(2 * marksKept - 1);
    this.path = path;
    this.clock = clock;
    ticks = new long[path.points().size()];
    markTicks = new long[kept];
    markWhat = new int[kept];
  }

  /** Begins a message: forgets the one before, and stamps the first point. */
  public void begin() {
    beginAt(clock.now());
  }

  /** The same, with a reading of {@link Clock#now()} that was taken before. */
  public void beginAt(long nanos) {
    epoch = clock.epoch();
    seen = 1;
    repeated = 0;
    marks = 0;
    ticks[0] = nanos;
  }

  /** Forgets everything: a message that has not begun. */
  public void clear() {
    seen = 0;
    repeated = 0;
    marks = 0;
    epoch = 0;
  }

  /** Stamps a point, which {@link TracePath#point} names. */
  public void mark(int point) {
    markAt(point, clock.now());
  }

  /** The same, with a reading that was taken before, such as one for a batch of messages. */
  public void markAt(int point, long nanos) {
    int bit = 1 << point;
    if ((seen & bit) != 0) {
      repeated++;
      return;
    }
    ticks[point] = nanos;
    seen |= bit;
  }

  /** Adds a mark: any number of times, in any thread that has the message. */
  public void addMark(TracePath.MarkName name) {
    addMarkAt(name, clock.now());
  }

  /** The same, with a reading that was taken before, such as one for several publications. */
  public void addMarkAt(TracePath.MarkName name, long nanos) {
    if (name.path() != path) {
      throw new IllegalArgumentException(name.name() + " is no mark of " + path.name());
    }
    int at = (int) marks++ & markTicks.length - 1;
    markTicks[at] = nanos;
    markWhat[at] = name.index() | clock.epoch() << 8;
  }

  /** Marks made since the message began. */
  public long marks() {
    return marks;
  }

  /** Marks that were overwritten by later ones, the earliest. */
  long marksLost() {
    return Math.max(marks - markTicks.length, 0);
  }
}
