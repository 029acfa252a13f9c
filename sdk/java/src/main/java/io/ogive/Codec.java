package io.ogive;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/** The OpenHistogram byte and base64 forms (docs/formats/openhistogram.md). */
public final class Codec {
  private Codec() {}

  /** Bytes or a text that are no histogram. */
  public static final class FormatException extends Exception {
    FormatException(String message) {
      super(message);
    }
  }

  /** What a reader had to mend. */
  public static final class Repairs {
    /** Bins that the format does not know, which were left out. */
    public int invalidBins;
    /** Samples in the bins that were left out, an unsigned long. */
    public long invalidSamples;
    /** Bins with a count of 0. */
    public int emptyBins;
    /** Zero bins with an exponent. */
    public int oddZeroBins;
    /** Bins that were there already, which were added. */
    public int duplicateBins;
    /** Bins below the one before. */
    public int unsortedBins;
    /** Counts of more bytes than they need. */
    public int wideCounts;
    /** Bins that were declared and are behind the end. */
    public int missingBins;
    /** Bytes behind the last bin. */
    public int trailingBytes;
    /** Whether there was white space, or padding was missing. */
    public boolean looseBase64;

    /** Whether nothing was mended. */
    public boolean isNone() {
      return invalidBins + emptyBins + oddZeroBins + duplicateBins + unsortedBins + wideCounts + missingBins + trailingBytes == 0
          && !looseBase64;
    }
  }

  /** A histogram, and what had to be mended to read it. */
  public record Read(Histogram histogram, Repairs repairs) {}

  private static int widthOf(long count) {
    return Math.max((64 - Long.numberOfLeadingZeros(count) + 7) / 8, 1);
  }

  /** The canonical byte form. */
  public static byte[] encode(Histogram histogram) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(2 + 8 * histogram.length);
    bytes.write(histogram.length >> 8);
    bytes.write(histogram.length);
    histogram.forEach((bin, count) -> {
      int width = widthOf(count);
      bytes.write(bin.val());
      bytes.write(bin.exp());
      bytes.write(width - 1);
      for (int at = 0; at < width; at++) {
        bytes.write((int) (count >>> 8 * at));
      }
    });
    return bytes.toByteArray();
  }

  /** The byte form in base64, with padding. */
  public static String encodeBase64(Histogram histogram) {
    return Base64.getEncoder().encodeToString(encode(histogram));
  }

  /** Reads the byte form: more than a canonical writer writes. */
  public static Read decode(byte[] bytes) throws FormatException {
    Repairs repairs = new Repairs();
    if (bytes.length < 2) {
      throw new FormatException("the input of " + bytes.length + " bytes ends inside the number of bins");
    }
    int declared = (bytes[0] & 255) << 8 | bytes[1] & 255;
    if (declared > Histogram.BINS_MAX) {
      throw new FormatException(declared + " bins are declared, and there are " + Histogram.BINS_MAX);
    }
    Histogram histogram = new Histogram();
    int offset = 2;
    int last = Integer.MIN_VALUE;
    for (int read = 0; read < declared; read++) {
      if (offset == bytes.length) {
        repairs.missingBins = declared - read;
        break;
      }
      if (bytes.length - offset < 3) {
        throw new FormatException("the input ends inside the bin at byte " + offset);
      }
      Bin bin = new Bin(bytes[offset], bytes[offset + 1]);
      int width = (bytes[offset + 2] & 255) + 1;
      if (width > 8) {
        throw new FormatException("the count at byte " + (offset + 2) + " is " + width + " bytes wide, and 8 is the most");
      }
      if (bytes.length - offset - 3 < width) {
        throw new FormatException("the input ends inside the count at byte " + (offset + 3));
      }
      long count = 0;
      for (int at = 0; at < width; at++) {
        count |= (bytes[offset + 3 + at] & 255L) << 8 * at;
      }
      offset += 3 + width;
      if (count == 0) {
        repairs.emptyBins++;
      } else if (!bin.isValid()) {
        repairs.invalidBins++;
        repairs.invalidSamples = Histogram.saturating(repairs.invalidSamples, count);
      } else {
        int before = histogram.length;
        repairs.oddZeroBins += bin.val() == 0 && bin.exp() != 0 ? 1 : 0;
        repairs.wideCounts += width > widthOf(count) ? 1 : 0;
        repairs.unsortedBins += bin.key() < last ? 1 : 0;
        last = bin.key();
        histogram.add(bin.key(), count);
        repairs.duplicateBins += histogram.length == before ? 1 : 0;
      }
    }
    repairs.trailingBytes = bytes.length - offset;
    return new Read(histogram, repairs);
  }

  /** Reads the base64 form. White space and missing padding are read; bytes behind the last bin are an error. */
  public static Read decodeBase64(String text) throws FormatException {
    String dense = text.replaceAll("[ \t\r\n]", "");
    String digits = dense.replaceFirst("={1,2}$", "");
    int padding = dense.length() - digits.length();
    int needed = (4 - digits.length() % 4) % 4;
    if (needed == 3 || padding > needed) {
      throw new FormatException("the text is no whole number of bytes in base64");
    }
    byte[] bytes;
    try {
      bytes = lenient(digits);
    } catch (IllegalArgumentException error) {
      throw new FormatException(error.getMessage());
    }
    Read read = decode(bytes);
    if (read.repairs.trailingBytes > 0) {
      throw new FormatException(read.repairs.trailingBytes + " bytes are left behind the last bin");
    }
    read.repairs.looseBase64 = dense.length() < text.length() || padding < needed;
    return read;
  }

  /** Decodes digits without padding; bits that a last digit has too many do not matter. */
  private static byte[] lenient(String digits) {
    if (digits.length() % 4 == 0) {
      return Base64.getDecoder().decode(digits.getBytes(StandardCharsets.UTF_8));
    }
    String whole = digits + "A".repeat(4 - digits.length() % 4);
    return Arrays.copyOf(Base64.getDecoder().decode(whole.getBytes(StandardCharsets.UTF_8)), digits.length() * 6 / 8);
  }
}
