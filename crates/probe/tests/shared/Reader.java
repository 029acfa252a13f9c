import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Reads a clock page as a Java program does, by docs/formats/clock-page.md alone. Java cannot read the counter; its own
 * nanoTime is CLOCK_MONOTONIC, so it can place itself on the page's line: each reading lies between the start of the segment in force and
 * its end. The output is that of reader.c.
 */
public final class Reader {
    private static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long MAGIC = 0x4b4c43455649474fL;

    private final ByteBuffer page;

    private Reader(String path) throws IOException {
        try (FileChannel channel = FileChannel.open(Path.of(path), StandardOpenOption.READ)) {
            page = channel.map(FileChannel.MapMode.READ_ONLY, 0, 4096);
        }
        if (word(0) != MAGIC || (int) word(1) != 1) {
            throw new IOException(path + " is not a clock page");
        }
    }

    private long word(int at) {
        return (long) WORD.getOpaque(page, at * 8);
    }

    private long index() {
        return (long) WORD.getAcquire(page, 8 * 8);
    }

    private long[] slot() {
        long[] slot = new long[8];
        while (true) {
            long index = index();
            for (int at = 0; at < 8; at++) {
                slot[at] = word(16 + 8 * (int) (index & 1) + at);
            }
            VarHandle.acquireFence();
            if (index() == index) {
                return slot;
            }
        }
    }

    /** The high word of an unsigned product; Math.unsignedMultiplyHigh came with Java 18. */
    private static long high(long a, long b) {
        return Math.multiplyHigh(a, b) + ((a >> 63) & b) + ((b >> 63) & a);
    }

    /** The line at some ticks, or null outside of the segment. */
    private static Long line(long[] slot, long shift, long ticks) {
        long age = ticks - slot[0];
        if (Long.compareUnsigned(age, slot[5]) >= 0) {
            return null;
        }
        long slewed = Long.compareUnsigned(age, slot[4]) < 0 ? age : slot[4];
        long first = slewed << shift;
        long second = (age - slewed) << shift;
        long low = first * slot[3];
        long carry = Long.compareUnsigned(low + second * slot[2], low) < 0 ? 1 : 0;
        return slot[1] + high(first, slot[3]) + high(second, slot[2]) + carry;
    }

    private void live(int count) throws InterruptedException {
        long first = System.nanoTime();
        long last = first;
        long fell = 0;
        long beyond = 0;
        long mode = 0;
        for (int at = 0; at < count; at++) {
            long[] slot = slot();
            long now = System.nanoTime();
            mode = slot[7] >>> 56 & 1;
            long err = (slot[7] & 0xffffff) + 1_000;
            // Where the line is now, as nanoTime has it: not before the segment's start, not after its end.
            Long end = line(slot, word(9), slot[0] + slot[5] - 1);
            if (mode == 1 && (now + err < slot[1] || end == null || now > end + err)) {
                beyond++;
            }
            if (now < last) {
                fell++;
            }
            last = now;
        }
        System.out.println(first + " " + last + " " + fell + " " + beyond + " " + mode + " " + (word(2) >>> 32));
    }

    public static void main(String[] words) throws Exception {
        Reader reader = new Reader(words[1]);
        if (words[0].equals("live")) {
            reader.live(Integer.parseInt(words[2]));
            return;
        }
        long[] slot = reader.slot();
        for (int at = 2; at < words.length; at++) {
            Long ns = line(slot, reader.word(9), Long.parseUnsignedLong(words[at]));
            System.out.println(ns == null ? "none" : Long.toUnsignedString(ns) + " " + (ns + slot[6]));
        }
    }
}
