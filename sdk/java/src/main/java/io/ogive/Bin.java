package io.ogive;

/**
 * A bin of the LogLinear10 scheme, by the rule of docs/formats/openhistogram.md.
 *
 * @param val ten times the mantissa of the edge nearer zero, with the sign: 10 to 99 and -99 to -10; 0 is the zero bin, -1 the NaN bin
 * @param exp the decimal exponent of that edge
 */
public record Bin(byte val, byte exp) {
  /** Holds what is nearer zero than 1e-128. */
  public static final Bin ZERO = new Bin((byte) 0, (byte) 0);
  /** Holds what is not a number, infinite, or not below 1e128. */
  public static final Bin NAN = new Bin((byte) -1, (byte) 0);

  static final int NAN_KEY = Short.MIN_VALUE;
  /** What a scaled mantissa may lack and still belong to the bin above: 0.3 is stored below 0.3 and belongs to 30. */
  private static final double SLACK = 1e-13;
  private static final double[] POWERS = new double[257];

  static {
    for (int at = 0; at < POWERS.length; at++) {
      POWERS[at] = Double.parseDouble("1e" + (at - 128));
    }
  }

  static double power(int exponent) {
    return POWERS[exponent + 128];
  }

  /** The bin of a double. */
  public static Bin of(double value) {
    return ofKey(keyOf(value));
  }

  /** A bin's place in the order of the format: NaN, then ascending on the real axis, with zero at 0. */
  static int keyOf(double value) {
    double magnitude = Math.abs(value);
    if (!(magnitude < POWERS[256])) {
      return NAN_KEY;
    }
    if (magnitude < POWERS[0]) {
      return 0;
    }
    int exponent = decade(magnitude);
    int mantissa = (int) (magnitude / power(exponent) * 10 + SLACK);
    if (mantissa == 100) {
      mantissa = 10;
      exponent++;
      if (exponent > 127) {
        return NAN_KEY;
      }
    }
    int index = (exponent + 128) * 90 + mantissa - 9;
    return value < 0 ? -index : index;
  }

  /** The greatest e with 10^e <= magnitude, for 1e-128 <= magnitude < 1e128. */
  private static int decade(double magnitude) {
    // 78913 / 2^18 is log10(2) less 2e-7: the estimate is the decade of 2^binary, or one below.
    int estimate = Math.max((Math.getExponent(magnitude) * 78913) >> 18, -128);
    return magnitude >= power(estimate + 1) ? estimate + 1 : estimate;
  }

  /**
   * The bin of value * 10^scale, in integers throughout: digits below the second are cut off. Nanoseconds are (ns, -9). The least
   * long counts as the negative of the greatest.
   */
  public static Bin ofInteger(long value, int scale) {
    long digits = value == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(value);
    if (digits == 0) {
      return ZERO;
    }
    long exponent = (long) scale + 1;
    if (digits < 10) {
      digits *= 10;
      exponent--;
    }
    while (digits >= 100) {
      digits /= 10;
      exponent++;
    }
    if (exponent < -128) {
      return ZERO;
    }
    if (exponent > 127) {
      return NAN;
    }
    return new Bin((byte) (value < 0 ? -digits : digits), (byte) exponent);
  }

  /** Whether the format knows the bin. (0, exp) with an exponent is valid and means the zero bin. */
  public boolean isValid() {
    int digits = Math.abs(val);
    return val == 0 || (digits >= 10 && digits <= 99) || (val == -1 && exp == 0);
  }

  int key() {
    if (val >= 10) {
      return (exp + 128) * 90 + val - 9;
    }
    if (val <= -10) {
      return -((exp + 128) * 90 - val - 9);
    }
    return val == 0 ? 0 : NAN_KEY;
  }

  static Bin ofKey(int key) {
    if (key == NAN_KEY) {
      return NAN;
    }
    if (key == 0) {
      return ZERO;
    }
    int index = Math.abs(key) - 1;
    int digits = index % 90 + 10;
    return new Bin((byte) (key < 0 ? -digits : digits), (byte) (index / 90 - 128));
  }

  /** The lower edge on the real axis: the double nearest to the decimal number. NaN of the NaN bin. */
  public double lower() {
    return val == -1 ? Double.NaN : val == 0 ? 0 : val > 0 ? decimal(val) : -decimal(1 - val);
  }

  /** The upper edge on the real axis. */
  public double upper() {
    return val == -1 ? Double.NaN : val == 0 ? 0 : val > 0 ? decimal(val + 1) : -decimal(-val);
  }

  private double decimal(int digits) {
    int exponent = exp - 1;
    // 10^0 up to 10^22 are exact doubles, so that one rounding remains.
    if (exponent >= 0 && exponent <= 22) {
      return digits * power(exponent);
    }
    if (exponent < 0 && exponent >= -22) {
      return digits / power(-exponent);
    }
    return Double.parseDouble(digits + "e" + exponent);
  }

  /** The harmonic mean of the edges, the value with the least greatest relative error; 0 for the zero bin. */
  public double midpoint() {
    double lo = lower();
    double hi = upper();
    return lo == hi ? 0 : lo * (2 * hi / (lo + hi));
  }

  /** The label, the edge nearer zero: 1.2e-3. */
  public String label() {
    if (val == 0) {
      return "0";
    }
    int digits = Math.abs(val);
    return val == -1 ? "NaN" : (val < 0 ? "-" : "") + digits / 10 + "." + digits % 10 + "e" + exp;
  }

  /**
   * The bin of a label.
   *
   * @throws NumberFormatException for a text that is neither a decimal number below 1e128 nor NaN
   */
  public static Bin parse(String label) {
    if (label.equals("NaN")) {
      return NAN;
    }
    if (!label.matches("[0-9eE+.-]+")) {
      throw new NumberFormatException("no decimal number: " + label);
    }
    Bin bin = of(Double.parseDouble(label));
    if (bin.equals(NAN)) {
      throw new NumberFormatException("not below 1e128: " + label);
    }
    return bin;
  }
}
