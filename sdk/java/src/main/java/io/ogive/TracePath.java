package io.ogive;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The points that a message passes, in order. Each stage is the time from the point before and belongs to a class: infrastructure moves
 * messages (queues, journals, encoding, the network), logic is what they are sent for.
 *
 * <pre>{@code
 * static final TracePath ORDER = TracePath.named("OrderPath").infra("recv").infra("decode").logic("matched").infra("publish").build();
 * static final int DECODE = ORDER.point("decode");
 * }</pre>
 */
public final class TracePath {
  /** Points of a path, at most; at least two. */
  public static final int POINTS_MAX = 12;
  /** Names of marks that a path keeps; later ones share the name {@code (other)}. */
  public static final int MARK_NAMES_MAX = 64;
  static final int NAME_BYTES_MAX = 64;
  private static final int MARK_NAME_BYTES_MAX = 32;
  static final String OTHER = "(other)";

  /** A point; the class of the first says nothing. */
  record Point(String name, boolean logic) {
    String className() {
      return logic ? "logic" : "infra";
    }
  }

  /** What messages of a path do a changing number of times; the same name gives the same marks. */
  public record MarkName(TracePath path, String name, int index) {}

  private final String name;
  private final List<Point> points;
  private final List<MarkName> marks = new ArrayList<>();
  private volatile int markNames;
  /** All ones for a stage of logic, and zero for others. */
  final long[] logicMasks;

  private TracePath(String name, List<Point> points) {
    this.name = name;
    this.points = points;
    logicMasks = points.stream().mapToLong(point -> point.logic ? -1 : 0).toArray();
  }

  /**
   * Begins a path of that name, an identifier of at most 64 letters, digits and underscores.
   *
   * @throws IllegalArgumentException for another name
   */
  public static Builder named(String name) {
    return new Builder(checked(name));
  }

  /** Its name. */
  public String name() {
    return name;
  }

  /**
   * The place of a point on the path.
   *
   * @throws IllegalArgumentException when the path has no such point
   */
  public int point(String point) {
    for (int at = 0; at < points.size(); at++) {
      if (points.get(at).name.equals(point)) {
        return at;
      }
    }
    throw new IllegalArgumentException(name + " has no point " + point);
  }

  /** The name of marks, of which the first 32 bytes count. It takes a lock; keep it. */
  public MarkName markName(String mark) {
    String kept = beginning(mark, MARK_NAME_BYTES_MAX);
    synchronized (marks) {
      for (MarkName known : marks) {
        if (known.name.equals(kept)) {
          return known;
        }
      }
      if (marks.size() == MARK_NAMES_MAX) {
        return marks.get(MARK_NAMES_MAX - 1);
      }
      marks.add(new MarkName(this, marks.size() == MARK_NAMES_MAX - 1 ? OTHER : kept, marks.size()));
      markNames = marks.size();
      return marks.get(marks.size() - 1);
    }
  }

  int markNames() {
    return markNames;
  }

  List<MarkName> marks() {
    synchronized (marks) {
      return List.copyOf(marks);
    }
  }

  List<Point> points() {
    return points;
  }

  private static String checked(String name) {
    if (!name.matches("[A-Za-z_][A-Za-z0-9_]{0," + (NAME_BYTES_MAX - 1) + "}")) {
      throw new IllegalArgumentException(name + " is no name of letters, digits and underscores, at most " + NAME_BYTES_MAX);
    }
    return name;
  }

  /** The first bytes of a text, at most so many, ending between two characters. */
  static String beginning(String text, int bytes) {
    int end = 0;
    for (int used = 0; end < text.length(); ) {
      int character = text.codePointAt(end);
      used += Character.toString(character).getBytes(StandardCharsets.UTF_8).length;
      if (used > bytes) {
        break;
      }
      end += Character.charCount(character);
    }
    return text.substring(0, end);
  }

  /** What a path is built of. */
  public static final class Builder {
    private final String name;
    private final List<Point> points = new ArrayList<>();

    private Builder(String name) {
      this.name = name;
    }

    /** Adds a point; the stage up to it is infrastructure. */
    public Builder infra(String point) {
      return add(point, false);
    }

    /** Adds a point; the stage up to it is logic. */
    public Builder logic(String point) {
      return add(point, true);
    }

    private Builder add(String point, boolean logic) {
      checked(point);
      if (points.stream().anyMatch(other -> other.name.equals(point))) {
        throw new IllegalArgumentException(name + " has the point " + point + " already");
      }
      points.add(new Point(point, logic));
      return this;
    }

    /**
     * The path.
     *
     * @throws IllegalArgumentException when it has fewer than 2 points or more than 12
     */
    public TracePath build() {
      if (points.size() < 2 || points.size() > POINTS_MAX) {
        throw new IllegalArgumentException(name + " has " + points.size() + " points; a path has 2 to " + POINTS_MAX);
      }
      return new TracePath(name, List.copyOf(points));
    }
  }
}
