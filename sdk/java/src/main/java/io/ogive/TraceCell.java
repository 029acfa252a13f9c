package io.ogive;

import java.util.List;

/**
 * Everything that was finished between two snapshots of a {@link TraceRecorder}. Histograms are in seconds.
 *
 * @param total from the first point to the last
 * @param infrastructure the sum of each message's stages of infrastructure
 * @param logic the sum of each message's stages of logic
 * @param stages each stage, in order
 * @param publishers each publisher that ever had a writer, in the order of their first
 * @param marks each name of marks, in the order in which they were named
 * @param limitNanos messages that took longer were kept whole
 */
public record TraceCell(
    Histogram total, Histogram infrastructure, Histogram logic, List<Stage> stages, List<Publisher> publishers, List<Mark> marks,
    Counts counts, long limitNanos) {

  /**
   * The time up to a point from the one before.
   *
   * @param className {@code infra} or {@code logic}
   * @param missing finished messages that lacked the stamp at its end
   */
  public record Stage(String name, String className, Histogram times, long missing) {}

  /**
   * A publisher.
   *
   * @param gaps the time from each message's last stamp to that of the next
   * @param quietNanos how long it has published nothing; -1 when no writer of it ever did
   */
  public record Publisher(String name, Histogram gaps, long quietNanos) {}

  /**
   * A name of marks.
   *
   * @param between the time from each mark to the next of this name in the same message: for publications, the inter-publish time
   */
  public record Mark(String name, Histogram between) {}

  /**
   * What was counted.
   *
   * @param finished all messages
   * @param incomplete those without their first or last stamp
   * @param straddled those that began in another epoch of the clock
   * @param partial those that lack a stamp in between: their total counts, and the stages both of whose ends are known
   * @param clamped stamps that were before an earlier one, and were taken for that one
   * @param gapsSkipped messages without a gap: a writer's first, the first of an epoch, those without a last stamp
   * @param slow those above the threshold
   * @param repeated points that were stamped again: the first stamp stayed
   * @param listed marks of finished messages: those that end an interval, and the following
   * @param listedFirst the first marks of their names in a message: they end no interval
   * @param listedStraddled marks before a break of the clock, whose interval is not known
   * @param listedLost marks that were overwritten before their message was finished
   */
  public record Counts(
      long finished, long incomplete, long straddled, long partial, long clamped, long gapsSkipped, long slow, long repeated, long listed,
      long listedFirst, long listedStraddled, long listedLost) {
    static Counts of(long[] numbers) {
      return new Counts(numbers[TraceSide.FINISHED], numbers[TraceSide.INCOMPLETE], numbers[TraceSide.STRADDLED],
          numbers[TraceSide.PARTIAL], numbers[TraceSide.CLAMPED], numbers[TraceSide.GAPS_SKIPPED], numbers[TraceSide.SLOW],
          numbers[TraceSide.REPEATED], numbers[TraceSide.LISTED], numbers[TraceSide.LISTED_FIRST], numbers[TraceSide.LISTED_STRADDLED],
          numbers[TraceSide.LISTED_LOST]);
    }
  }

  /** Whether every finished message is accounted for, as it is in every cell and so in any sum of cells. */
  public boolean isConserved() {
    long whole = total.count() - counts.partial;
    long intervals = marks.stream().mapToLong(mark -> mark.between.count()).sum();
    long gaps = publishers.stream().mapToLong(publisher -> publisher.gaps.count()).sum();
    return total.count() + counts.straddled + counts.incomplete == counts.finished
        && whole == infrastructure.count()
        && whole == logic.count()
        && stages.stream().allMatch(stage -> stage.times.count() >= whole)
        && gaps + counts.gapsSkipped == counts.finished
        && intervals + counts.listedFirst + counts.listedStraddled + counts.listedLost == counts.listed;
  }
}
