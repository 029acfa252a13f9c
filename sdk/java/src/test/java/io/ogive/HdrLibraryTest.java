package io.ogive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** What org.HdrHistogram writes, and what is broken of it. */
class HdrLibraryTest {
  private static org.HdrHistogram.Histogram theirs(long least, int digits, int values) {
    org.HdrHistogram.Histogram theirs = new org.HdrHistogram.Histogram(least, 3_600_000_000_000L, digits);
    Random random = new Random(7);
    for (int at = 0; at < values; at++) {
      theirs.recordValueWithCount(least + (random.nextLong(3_000_000_000_000L) >> at % 40), 3);
    }
    return theirs;
  }

  private static byte[] encoded(org.HdrHistogram.Histogram theirs, boolean compressed) {
    ByteBuffer buffer = ByteBuffer.allocate(theirs.getNeededByteBufferCapacity() + 64);
    int length = compressed ? theirs.encodeIntoCompressedByteBuffer(buffer) : theirs.encodeIntoByteBuffer(buffer);
    return Arrays.copyOf(buffer.array(), length);
  }

  @Test
  void whatTheLibraryWritesIsRead() throws Exception {
    for (int digits = 0; digits <= 5; digits++) {
      for (long least : new long[] {1, 1000}) {
        org.HdrHistogram.Histogram theirs = theirs(least, digits, 2000);
        Histogram expected = new Histogram();
        theirs.recordedValues().forEach(step -> expected.record(
            theirs.medianEquivalentValue(step.getValueIteratedTo()) / 1e9, step.getCountAtValueIteratedTo()));
        for (boolean compressed : new boolean[] {false, true}) {
          Histogram read = HdrCodec.decode(encoded(theirs, compressed), 1e-9);
          assertEquals(theirs.getTotalCount(), read.count());
          assertEquals(Codec.encodeBase64(expected), Codec.encodeBase64(read), digits + " digits from " + least);
        }
      }
    }
  }

  @Test
  void aBrokenFormIsReadOrRefused() throws Exception {
    for (boolean compressed : new boolean[] {false, true}) {
      byte[] form = encoded(theirs(1, 2, 30), compressed);
      assertEquals(90, HdrCodec.decode(form, 1e-9).count());
      for (int length = 0; length < form.length; length++) {
        byte[] cut = Arrays.copyOf(form, length);
        assertThrows(Codec.FormatException.class, () -> HdrCodec.decode(cut, 1e-9), length + " bytes");
      }
      for (int bit = 0; bit < 8 * form.length; bit++) {
        byte[] broken = form.clone();
        broken[bit / 8] ^= (byte) (1 << bit % 8);
        try {
          assertNotNull(HdrCodec.decode(broken, 1e-9));
        } catch (Codec.FormatException refused) {
          assertNotNull(refused.getMessage());
        }
      }
    }
  }
}
