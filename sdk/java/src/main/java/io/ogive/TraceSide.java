package io.ogive;

import java.util.Arrays;

/**
 * What a trace writer writes: a histogram for every stage, class, total and gap, for the times between marks of each name, and numbers.
 *
 * <p>Counts only grow; who takes keeps what it saw of each. The writer alone changes them, and {@link TraceWriter} says when another thread
 * may read them: everything here is plain.
 */
final class TraceSide {
  static final int TOTAL = 0;
  static final int INFRASTRUCTURE = 1;
  static final int LOGIC = 2;
  static final int GAP = 3;
  /** The stage that ends at point i has the histogram STAGES + i - 1. */
  static final int STAGES = 4;

  static final int FINISHED = 0;
  static final int INCOMPLETE = 1;
  static final int STRADDLED = 2;
  static final int PARTIAL = 3;
  static final int CLAMPED = 4;
  static final int GAPS_SKIPPED = 5;
  static final int SLOW = 6;
  static final int REPEATED = 7;
  static final int LISTED = 8;
  static final int LISTED_FIRST = 9;
  static final int LISTED_STRADDLED = 10;
  static final int LISTED_LOST = 11;
  /** How often point i was missing is number MISSING + i. */
  static final int MISSING = 12;
  static final int NUMBERS = MISSING + TracePath.POINTS_MAX;

  /** One histogram of nanoseconds. */
  static final class Bins {
    final long[] counts;
    long sum;
    long least = Long.MAX_VALUE;
    long greatest;

    Bins() {
      counts = new long[FlatBins.COUNT];
    }

    private Bins(Bins other) {
      counts = other.counts.clone();
      sum = other.sum;
      least = other.least;
      greatest = other.greatest;
    }

    void add(long nanos) {
      counts[FlatBins.of(nanos)]++;
      sum += nanos;
      if (nanos < least) {
        least = nanos;
      }
      if (nanos > greatest) {
        greatest = nanos;
      }
    }
  }

  final long[] numbers;
  final Bins[] bins;
  /** By the numbers of the marks' names; replaced by a longer one when there are more, while it may be read. */
  volatile Bins[] between;

  TraceSide(int points) {
    numbers = new long[NUMBERS];
    bins = new Bins[STAGES + points - 1];
    Arrays.setAll(bins, at -> new Bins());
    between = new Bins[0];
  }

  /** A copy, which is whole if the writer was not inside meanwhile. */
  TraceSide(TraceSide other) {
    numbers = other.numbers.clone();
    bins = copies(other.bins);
    between = copies(other.between);
  }

  private static Bins[] copies(Bins[] all) {
    Bins[] copies = new Bins[all.length];
    Arrays.setAll(copies, at -> new Bins(all[at]));
    return copies;
  }

  /** Makes room for so many names of marks. */
  void grow(int names) {
    Bins[] more = Arrays.copyOf(between, names);
    for (int at = between.length; at < names; at++) {
      more[at] = new Bins();
    }
    between = more;
  }

  /** Another cell begins: only its extremes count for it. */
  void forgetExtremes() {
    for (Bins one : bins) {
      one.least = Long.MAX_VALUE;
      one.greatest = 0;
    }
    for (Bins one : between) {
      one.least = Long.MAX_VALUE;
      one.greatest = 0;
    }
  }
}
