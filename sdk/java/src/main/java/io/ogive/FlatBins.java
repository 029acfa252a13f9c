package io.ogive;

/** The bins that a duration in nanoseconds can fall in: 0 is the zero bin, then the bins of 1 ns and above. */
final class FlatBins {
  /** Room for all of them: a power of two. */
  static final int COUNT = 2048;

  /** What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
  private static final int TO_KEY = (128 - 9) * 90;
  private static final int CELL_BITS = 7;
  private static final int MANTISSA_BITS = 52;
  /** Integers from here on are not all doubles: 104 days. */
  private static final int EXACT_BITS = 53;

  /**
   * The leading bits of a number as a double (exponent and seven more) name a cell of 1/128 of it, in which lies one edge at most. Its
   * entry holds that edge, as the mantissa moved up to the sign, and in the eleven bits below the flat bin that begins there. A cell without
   * an edge has edge 0, which every number reaches.
   */
  private static final long[] TABLE = new long[64 << CELL_BITS];

  static {
    for (int exponent = 0; exponent <= 53; exponent++) {
      for (int part = 0; part < 1 << CELL_BITS; part++) {
        TABLE[(exponent + 1023 << CELL_BITS | part) & TABLE.length - 1] = entry(exponent, 1 << CELL_BITS | part);
      }
    }
  }

  private FlatBins() {}

  /** The flat bin of a number of nanoseconds that is not below zero. */
  static int of(long nanoseconds) {
    if (!isNear(nanoseconds)) {
      // The bin of a millionth, six decades up: both have the same leading digits, cut off at the same place.
      return near(nanoseconds / 1_000_000) + 6 * 90;
    }
    return near(nanoseconds);
  }

  /** Whether a number is not below zero and a double: {@link #near} is for those. */
  static boolean isNear(long nanoseconds) {
    return nanoseconds >>> EXACT_BITS == 0;
  }

  /** The flat bin of a number that {@link #isNear}. */
  static int near(long nanoseconds) {
    long number = Double.doubleToRawLongBits(nanoseconds + 1);
    long entry = TABLE[(int) (number >>> MANTISSA_BITS - CELL_BITS) & TABLE.length - 1];
    // With its lowest bits set, a number that reaches the edge is not below the entry, whatever bin stands in it.
    long mantissa = (number << 63 - MANTISSA_BITS | COUNT - 1) & Long.MAX_VALUE;
    return (int) (entry - (mantissa - entry >>> 63)) & COUNT - 1;
  }

  /** The histogram's key of a flat bin. */
  static int key(int flat) {
    return flat == 0 ? 0 : TO_KEY + flat;
  }

  /** Sums of 64 bits wrap around; a difference of two does not, below 584 years. */
  static double seconds(long nanoseconds) {
    return Histogram.unsigned(nanoseconds) / 1e9;
  }

  /**
   * The entry of the numbers with that highest bit whose leading bits are these. They are one more than what is counted: a double has no
   * exponent for zero that would name a cell.
   */
  private static long entry(int exponent, long leading) {
    long first = exponent < CELL_BITS ? leading >> CELL_BITS - exponent : leading << exponent - CELL_BITS;
    long last = exponent < CELL_BITS ? first : first + (1L << exponent - CELL_BITS) - 1;
    int below = slow(first - 1);
    int bin = slow(last - 1);
    if (bin == 0) {
      // 0 has its cell alone: an edge that its mantissa does not reach.
      return COUNT + 1;
    }
    return below == bin ? bin : (edgeAbove(below) + 1 << 63 - exponent) & Long.MAX_VALUE | bin;
  }

  /** The flat bin by the rule of integers. */
  private static int slow(long nanoseconds) {
    if (nanoseconds == 0) {
      return 0;
    }
    long digits = nanoseconds;
    int exponent = 1;
    if (digits < 10) {
      digits *= 10;
      exponent = 0;
    }
    while (digits >= 100) {
      digits /= 10;
      exponent++;
    }
    return exponent * 90 + (int) digits - 9;
  }

  /** The least number of nanoseconds above a flat bin of numbers that are doubles. */
  private static long edgeAbove(int bin) {
    if (bin == 0) {
      return 1;
    }
    long digits = (bin - 1) % 90 + 11;
    int exponent = (bin - 1) / 90;
    if (exponent == 0) {
      return (digits + 9) / 10;
    }
    for (; exponent > 1; exponent--) {
      digits *= 10;
    }
    return digits;
  }
}
