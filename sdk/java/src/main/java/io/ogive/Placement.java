package io.ogive;

import java.util.List;

/** Where in a bucket of another scheme its samples are placed. */
public enum Placement {
  /** At its upper edge. */
  HIGH,
  /** At its lower edge. */
  LOW,
  /** In the middle. */
  MID,
  /** At the harmonic mean of its edges. */
  HARMONIC_MEAN;

  /** A bucket of another scheme, such as a classic Prometheus histogram's, with its own count. */
  public record Bucket(long count, double lower, double upper) {}

  private static final double FAR = 1e127;
  private static final double ENDLESS = 1e128;

  /** Places the samples of ascending buckets into bins. One without an end is placed a neighbour's width from its finite edge. */
  public Histogram place(List<Bucket> buckets) {
    Histogram histogram = new Histogram();
    double before = 0;
    for (int at = 0; at < buckets.size(); at++) {
      Bucket bucket = buckets.get(at);
      boolean inverted = Math.abs(bucket.lower) > Math.abs(bucket.upper) || bucket.upper < 0;
      double near = inverted ? bucket.upper : bucket.lower;
      double far = inverted ? bucket.lower : bucket.upper;
      double value;
      if (at > 0 && bucket.upper >= ENDLESS) {
        value = near + Math.min(before, Math.abs(near));
      } else if (at == 0 && buckets.size() > 2 && bucket.lower <= -ENDLESS) {
        value = near - Math.min(Math.abs(buckets.get(1).upper - buckets.get(1).lower), Math.abs(near));
      } else {
        value = valueBetween(near, far);
      }
      histogram.recordBin(Bin.of(value), bucket.count);
      before = Math.abs(far - near);
    }
    return histogram;
  }

  private double valueBetween(double near, double far) {
    if (near == 0 && far == 0) {
      return 0;
    }
    if (this == HIGH || this == LOW) {
      if (Math.abs(near) > FAR) {
        return Math.copySign(ENDLESS, near);
      }
      if (this == HIGH) {
        return Math.abs(far) > FAR ? Math.copySign(FAR, far) : far - Math.copySign(widthAt(far) / 100, far);
      }
      return near > 0 ? near + widthAt(near) / 100 : near - widthAt(near) / 100;
    }
    if (this == HARMONIC_MEAN && near != 0 && far != 0) {
      return near + far == 0 ? 0 : near * (far / (near / 2 + far / 2));
    }
    return near + (far - near) / 2;
  }

  private static double widthAt(double value) {
    int key = Bin.keyOf(value);
    return key == 0 || key == Bin.NAN_KEY ? 1e-127 : Bin.power(Bin.ofKey(key).exp()) / 10;
  }
}
