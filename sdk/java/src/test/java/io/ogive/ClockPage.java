package io.ogive;

import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HexFormat;

/** A file with the page of vectors/clock, whose words a test changes. */
final class ClockPage {
  static final Path VECTORS = Path.of("../../vectors/clock");
  private static final int INDEX = 8;

  final Path path;
  private final MappedByteBuffer words;

  ClockPage(Path path) throws IOException {
    this.path = path;
    String digits = Files.readString(VECTORS.resolve("page.hex")).replaceAll("\\s", "");
    Files.write(path, Arrays.copyOf(HexFormat.of().parseHex(digits), 4096));
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
      words = channel.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
    }
    words.order(ByteOrder.LITTLE_ENDIAN);
  }

  ClockPage write(int word, long value) {
    words.putLong(8 * word, value);
    return this;
  }

  /** A segment of twenty seconds from {@code baseNanos} on, of 1 ns a tick, with a bound of 42 ns that grows by 1,000 ppb. */
  void publish(long baseNanos, long wallOffset, int epoch, boolean counter) {
    long index = words.getLong(8 * INDEX) + 1;
    int slot = 16 + 8 * (int) (index & 1);
    write(9, 1); // half of a shifted tick is a tick
    long[] segment = {0, baseNanos, 1L << 63, 0, 0, counter ? 20_000_000_000L : 0, wallOffset, 42 | 1000L << 24 | (long) epoch << 40 | (counter ? 1L << 56 : 0)};
    for (int at = 0; at < segment.length; at++) {
      write(slot + at, segment[at]);
    }
    write(INDEX, index);
  }
}
