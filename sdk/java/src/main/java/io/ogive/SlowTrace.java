package io.ogive;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * A message that took longer than its threshold. {@link #toString()} is its line (docs/formats/trace.md), as programs in Rust write it and
 * {@code ogive trace} reads it.
 *
 * @param publishedNanos its last stamp, since the Unix epoch
 * @param totalTicks as {@code totalNanos}: a tick of Java's clock is a nanosecond
 * @param gapNanos from the publisher's last message to this one; -1 when there was none, or the clock broke in between
 * @param clamped stamps below an earlier one, which were raised to it
 * @param missing points that were not stamped
 * @param stages what the total is made of: they add up to it exactly
 * @param listed marks made
 * @param listedLost the earliest of them, overwritten before it was finished
 * @param marks the first of the others, at most 52
 */
public record SlowTrace(
    String path, String publisher, long publishedNanos, long totalNanos, long totalTicks, long limitNanos, long gapNanos, int epoch,
    int clamped, List<String> missing, ClockNote clock, List<Stage> stages, long listed, long listedLost, List<Mark> marks) {

  /**
   * The state of the clock, as far as it explains a slow message.
   *
   * @param readTenths what one stamp costs, in tenths of a nanosecond: no stage can be shorter
   */
  public record ClockNote(String mode, String source, long frequencyHz, long errorNanos, long readTenths, int epoch) {}

  /** The time up to a point, from the last point before that was stamped; the class is {@code infra} or {@code logic}. */
  public record Stage(String name, String className, long nanos, long ticks) {}

  /** A mark, and its time since the first stamp. */
  public record Mark(String name, long nanos, long ticks) {}

  @Override
  public String toString() {
    StringBuilder line = new StringBuilder(512);
    line.append("ogive-trace=").append(listed > 0 ? 2 : 1).append(" path=");
    escape(line, path).append(" publisher=");
    escape(line, publisher).append(" published_ns=").append(publishedNanos).append(" total_ns=").append(totalNanos);
    line.append(" total_ticks=").append(totalTicks).append(" limit_ns=").append(limitNanos).append(" gap_ns=");
    (gapNanos < 0 ? line.append('-') : line.append(gapNanos)).append(" epoch=").append(epoch).append(" clamped=").append(clamped);
    line.append(" missing=");
    for (int at = 0; at < missing.size(); at++) {
      escape(at > 0 ? line.append(',') : line, missing.get(at));
    }
    line.append(missing.isEmpty() ? "-" : "").append(" clock=");
    escape(line, clock.mode).append(" source=");
    escape(line, clock.source).append(" frequency_hz=").append(clock.frequencyHz).append(" err_ns=").append(clock.errorNanos);
    line.append(" read_ns=").append(clock.readTenths / 10).append('.').append(clock.readTenths % 10).append(" clock_epoch=").append(clock.epoch);
    for (Stage stage : stages) {
      long points = basisPoints(stage);
      escape(line.append(" stage="), stage.name).append(',').append(stage.className).append(',').append(stage.nanos).append(',');
      line.append(stage.ticks).append(',').append(points / 100).append('.').append(points % 100 / 10).append(points % 10);
    }
    if (listed > 0) {
      line.append(" listed=").append(listed).append(" lost=").append(listedLost);
    }
    for (Mark mark : marks) {
      escape(line.append(" mark="), mark.name).append(',').append(mark.nanos).append(',').append(mark.ticks);
    }
    return line.toString();
  }

  /** The part of a stage in the total, in hundredths of a percent, rounded to the nearest. */
  private long basisPoints(Stage stage) {
    BigInteger total = BigInteger.valueOf(Math.max(totalTicks, 1));
    return BigInteger.valueOf(stage.ticks).multiply(BigInteger.valueOf(10_000)).add(total.shiftRight(1)).divide(total).longValue();
  }

  private static StringBuilder escape(StringBuilder line, String name) {
    for (byte one : name.getBytes(StandardCharsets.UTF_8)) {
      char character = (char) (one & 0xff);
      boolean plain = character < 128 && (Character.isLetterOrDigit(character) || "_-.:/()".indexOf(character) >= 0);
      if (plain) {
        line.append(character);
      } else {
        line.append('%').append("0123456789ABCDEF".charAt(character >> 4)).append("0123456789ABCDEF".charAt(character & 15));
      }
    }
    return line;
  }
}
