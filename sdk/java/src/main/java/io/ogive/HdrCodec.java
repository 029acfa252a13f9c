package io.ogive;

import io.ogive.Codec.FormatException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * Reads HdrHistogram's encoding of version 2, plain or compressed, as its libraries in all languages write it
 * (docs/formats/hdrhistogram.md).
 */
public final class HdrCodec {
  // First bytes, without the word size, which has no meaning in version 2.
  private static final int PLAIN = 0x1c849303;
  private static final int COMPRESSED = 0x1c849304;
  private static final int COOKIE_MASK = 0xffffff0f;
  private static final int HEADER_BYTES = 40;
  /** 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice. */
  private static final int PLAIN_BYTES_MAX = 16 << 20;
  /** Bins a power of two, as a binary logarithm, for 0 to 5 digits: 2 * 10^digits steps, rounded up to a power of two, half of them. */
  private static final int[] GROUPINGS = {0, 4, 7, 10, 14, 17};

  private HdrCodec() {}

  /**
   * Reads a form. Each count goes to the bin that holds the middle of its own; sum and extremes are not known.
   *
   * @param bytes as {@code encodeIntoByteBuffer} or {@code encodeIntoCompressedByteBuffer} write them
   * @param unit the value of one recorded unit: 1e-9 makes nanoseconds seconds
   * @throws FormatException for another form, one that is cut, or a compressed one that unfolds to more than 16 MiB
   */
  public static Histogram decode(byte[] bytes, double unit) throws FormatException {
    byte[] plain = cookie(bytes) == COMPRESSED ? inflate(bytes) : bytes;
    Grid grid = header(plain, unit);
    int payload = ByteBuffer.wrap(plain).getInt(4);
    if (payload < 0 || payload > plain.length - HEADER_BYTES) {
      throw new FormatException("the input ends inside the counts: " + (plain.length - HEADER_BYTES) + " bytes of " + Integer.toUnsignedString(payload));
    }
    return counts(plain, HEADER_BYTES + payload, grid);
  }

  /**
   * Reads the base64 of a form: a line of an interval log has it.
   *
   * @param text the base64, with padding
   * @param unit as of {@link #decode}
   * @throws FormatException as {@link #decode}, and for a text that is not base64
   */
  public static Histogram decodeBase64(String text, double unit) throws FormatException {
    try {
      return decode(Base64.getDecoder().decode(text.strip()), unit);
    } catch (IllegalArgumentException error) {
      throw new FormatException(error.getMessage());
    }
  }

  /** The bins of a form. */
  private record Grid(int grouping, int shift, double unit) {
    long last() {
      return ((long) (63 - shift - grouping) << grouping) + (2L << grouping) - 1;
    }

    /** The key of the middle of a bin, rounded down to a whole unit, as HdrHistogram has it. */
    int key(long index) {
      if (index == 0) {
        return 0;
      }
      int exponent = (int) Math.max((index >> grouping) - 1, 0);
      double width = Math.scalb(1.0, exponent + shift);
      double units = (index - ((long) exponent << grouping)) * width + Math.floor(width / 2);
      // Of a unit that is one n-th: 5 units of 1e-3 are 0.005.
      double parts = 1 / unit;
      // From 2^52 on doubles are whole.
      parts = parts < 0x1p52 ? Math.floor(parts + 0.5) : parts;
      return Bin.keyOf(parts > 1 && 1 / parts == unit ? units / parts : units * unit);
    }
  }

  private static int cookie(byte[] bytes) {
    return bytes.length < 4 ? 0 : ByteBuffer.wrap(bytes).getInt() & COOKIE_MASK;
  }

  /** Why a form with these first bytes is not read. */
  private static String stranger(int cookie) {
    return switch (cookie) {
      case 0x1c849301, 0x1c849302, 0x1c849308, 0x1c849309 -> "the form is of version 0 or 1, and only version 2 is read:"
          + " encode it with a current HdrHistogram, or import its log with ogive import hdr-log";
      case 0x0c72124e & COOKIE_MASK, 0x0c72124f & COOKIE_MASK -> "the form is a histogram of doubles, and only those of integers are read:"
          + " import its log with ogive import hdr-log";
      default -> "the first bytes are not those of an HdrHistogram of version 2";
    };
  }

  private static byte[] inflate(byte[] bytes) throws FormatException {
    int length = bytes.length < 8 ? -1 : ByteBuffer.wrap(bytes).getInt(4);
    if (length < 0 || length > bytes.length - 8) {
      throw new FormatException("the input of " + bytes.length + " bytes ends inside the compressed form");
    }
    Inflater inflater = new Inflater();
    try {
      inflater.setInput(bytes, 8, length);
      byte[] plain = new byte[4096];
      int filled = 0;
      while (!inflater.finished()) {
        if (filled == plain.length) {
          plain = Arrays.copyOf(plain, 2 * filled);
        }
        int more = inflater.inflate(plain, filled, plain.length - filled);
        filled += more;
        if (filled > PLAIN_BYTES_MAX) {
          throw new FormatException("the compressed form unfolds to more than 16 MiB");
        }
        if (more == 0 && !inflater.finished()) {
          throw new FormatException("the compressed form is cut, or not zlib");
        }
      }
      return Arrays.copyOf(plain, filled);
    } catch (DataFormatException error) {
      throw new FormatException("the compressed form is not zlib: " + error.getMessage());
    } finally {
      inflater.end();
    }
  }

  private static Grid header(byte[] plain, double unit) throws FormatException {
    if (cookie(plain) != PLAIN) {
      throw new FormatException(stranger(cookie(plain)));
    }
    if (plain.length < HEADER_BYTES) {
      throw new FormatException("the input of " + plain.length + " bytes ends inside the header");
    }
    ByteBuffer fields = ByteBuffer.wrap(plain);
    int digits = fields.getInt(12);
    long least = fields.getLong(16);
    if (digits < 0 || digits >= GROUPINGS.length) {
      throw new FormatException(Integer.toUnsignedString(digits) + " significant digits, and 5 are the most");
    }
    if (least < 1 || least >= 1L << 41) {
      throw new FormatException("the least discernible value is outside 1..2^41");
    }
    if (!(unit >= 1e-100 && unit <= 1e100)) {
      throw new FormatException("the unit " + unit + " is outside 1e-100..1e100");
    }
    return new Grid(GROUPINGS[digits], 63 - Long.numberOfLeadingZeros(least), unit);
  }

  private static Histogram counts(byte[] plain, int end, Grid grid) throws FormatException {
    Histogram histogram = new Histogram();
    long index = 0;
    long last = grid.last();
    for (int at = HEADER_BYTES; at < end; ) {
      long value = 0;
      int start = at;
      // A zig-zag LEB128 number of at most nine bytes, the ninth with eight bits.
      for (int shift = 0; ; shift += 7) {
        if (at == end) {
          throw new FormatException("the input ends inside the count at byte " + start);
        }
        byte next = plain[at++];
        value |= (shift == 56 ? next & 0xffL : next & 0x7fL) << shift;
        if (shift == 56 || next >= 0) {
          break;
        }
      }
      long count = value >>> 1 ^ -(value & 1);
      if (count > 0 && index > last) {
        throw new FormatException("there are more counts than bins, at byte " + start);
      }
      if (count > 0) {
        histogram.add(grid.key(index), count);
      }
      // Past the last bin, how far does not matter.
      index = Math.min(index + (count < 0 ? Math.min(-(count + 1), last) + 1 : 1), last + 1);
    }
    return histogram;
  }
}
