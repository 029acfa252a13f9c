/* Foreign buckets placed into bins. */
#include "internal.h"

#include <math.h>

#define FAR_OUT 1e127
#define ENDLESS 1e128

static double width_at(double value) {
  ogive_bin bin = ogive_bin_of(value);
  return bin.val == 0 || bin.val == -1 ? 1e-127 : ogive_power(bin.exp) / 10;
}

static double place(ogive_placement placement, double near, double far) {
  if (near == 0 && far == 0) return 0;
  if (placement == OGIVE_PLACE_HIGH || placement == OGIVE_PLACE_LOW) {
    if (fabs(near) > FAR_OUT) return copysign(ENDLESS, near);
    if (placement == OGIVE_PLACE_HIGH)
      return fabs(far) > FAR_OUT ? copysign(FAR_OUT, far) : far - copysign(width_at(far) / 100, far);
    return near > 0 ? near + width_at(near) / 100 : near - width_at(near) / 100;
  }
  if (placement == OGIVE_PLACE_HARMONIC_MEAN && near != 0 && far != 0)
    return near + far == 0 ? 0 : near * (far / (near / 2 + far / 2));
  return near + (far - near) / 2;
}

ogive_hist *ogive_hist_from_buckets(ogive_placement placement, const ogive_bucket *buckets, size_t length) {
  ogive_hist *hist = ogive_hist_new();
  double before = 0;
  for (size_t at = 0; hist != NULL && at < length; at++) {
    double lower = buckets[at].lower, upper = buckets[at].upper;
    bool inverted = fabs(lower) > fabs(upper) || upper < 0;
    double near = inverted ? upper : lower, far = inverted ? lower : upper, value;
    if (at > 0 && upper >= ENDLESS)
      value = near + fmin(before, fabs(near));
    else if (at == 0 && length > 2 && lower <= -ENDLESS)
      value = near - fmin(fabs(buckets[1].upper - buckets[1].lower), fabs(near));
    else
      value = place(placement, near, far);
    if (!ogive_hist_record_bin(hist, ogive_bin_of(value), buckets[at].count)) {
      ogive_hist_free(hist);
      hist = NULL;
    }
    before = fabs(far - near);
  }
  return hist;
}
