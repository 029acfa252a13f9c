/* Statistics, defined in docs/formats/openhistogram.md. Samples in the NaN bin are in none of them. */
#include "internal.h"

#include <math.h>

static double total(const ogive_hist *hist) {
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  double sum = 0;
  for (size_t at = 0; at < length; at++) sum += (double)numbers[at].count;
  return sum;
}

/* The bin at whose end at least `rank` samples have passed, or the last; the samples below it and in it. */
static void walk(const ogive_hist *hist, double rank, double *lo, double *hi, double *below, double *count) {
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  *below = 0, *count = 0, *lo = *hi = NAN;
  double passed = 0;
  for (size_t at = 0; at < length; at++) {
    *below = passed, *count = (double)numbers[at].count;
    if (passed + *count >= rank || at + 1 == length) {
      ogive_bin_bounds(ogive_bin_of_key(numbers[at].key), lo, hi);
      return;
    }
    passed += *count;
  }
}

bool ogive_hist_quantile(const ogive_hist *hist, double q, double *value, double *lo, double *hi) {
  double n = total(hist);
  if (!(q >= 0 && q <= 1) || n == 0) return false;
  double rank = q * n, nearest = round(rank);
  /* A rounding of q n (0.07 * 100 is 7.000000000000001) must not move the answer to the next sample. */
  rank = fabs(rank - nearest) <= nearest * 0x1p-51 ? nearest : ceil(rank);
  rank = fmin(fmax(rank, 1), n);
  double below, count, min, max;
  walk(hist, rank, lo, hi, &below, &count);
  if (ogive_hist_extremes(hist, &min, &max)) {
    if (*lo <= max && max <= *hi) *hi = max;
    if (*lo <= min && min <= *hi) *lo = min;
    if (rank >= n && *hi == max)
      *lo = *hi;
    else if (rank <= 1 && *lo == min)
      *hi = *lo;
  }
  double share = fmin(fmax((rank - below) / (count + 1), 0), 1);
  *value = fmin(fmax(*lo + (*hi - *lo) * share, *lo), *hi);
  return true;
}

static double spread(const ogive_hist *hist, double rank) {
  double lo, hi, below, count;
  walk(hist, rank, &lo, &hi, &below, &count);
  return lo + (hi - lo) * (fmax(ceil(rank - below), 1) / (count + 1));
}

double ogive_hist_quantile_type1(const ogive_hist *hist, double q) {
  return q >= 0 && q <= 1 ? spread(hist, total(hist) * q) : NAN;
}

double ogive_hist_quantile_type7(const ogive_hist *hist, double q) {
  return q >= 0 && q <= 1 ? spread(hist, floor((total(hist) - 1) * q + 1)) : NAN;
}

double ogive_hist_fraction_below(const ogive_hist *hist, double x) {
  double n = total(hist), below = 0;
  if (isnan(x) || n == 0) return NAN;
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  for (size_t at = 0; at < length; at++) {
    double lo, hi;
    ogive_bin_bounds(ogive_bin_of_key(numbers[at].key), &lo, &hi);
    if (numbers[at].key == 0) lo = hi = ogive_power(-128);
    if (x < hi) {
      if (x > lo) below += (double)numbers[at].count * ((x - lo) / (hi - lo));
      break;
    }
    below += (double)numbers[at].count;
  }
  return fmin(below / n, 1);
}

/* Samples in bins whose order to that of x is from `least` to `most`: -1 below, 0 the same, 1 above. */
static uint64_t count_where(const ogive_hist *hist, double x, int least, int most) {
  if (isnan(x)) return 0;
  int at = ogive_key_of(ogive_bin_of(x));
  if (at == OGIVE_KEY_NAN) at = x > 0 ? 32767 : -32767;
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  uint64_t sum = 0;
  for (size_t place = 0; place < length; place++) {
    int order = (numbers[place].key > at) - (numbers[place].key < at);
    if (order >= least && order <= most) sum = ogive_saturating(sum, numbers[place].count);
  }
  return sum;
}

uint64_t ogive_hist_count_below(const ogive_hist *hist, double x, bool inclusive) {
  return count_where(hist, x, -1, inclusive ? 0 : -1);
}

uint64_t ogive_hist_count_above(const ogive_hist *hist, double x, bool inclusive) {
  return count_where(hist, x, inclusive ? 0 : 1, 1);
}

uint64_t ogive_hist_count_nearby(const ogive_hist *hist, double x) { return count_where(hist, x, 0, 0); }

/* A sum that carries its rounding error along (Neumaier). */
typedef struct {
  double sum, lost;
} compensated;

static void add(compensated *to, double term) {
  double next = to->sum + term;
  to->lost += fabs(to->sum) >= fabs(term) ? (to->sum - next) + term : (term - next) + to->sum;
  to->sum = next;
}

static double value_of(compensated sum) { return isfinite(sum.lost) ? sum.sum + sum.lost : sum.sum; }

static double mean_of_bins(const ogive_hist *hist, double n) {
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  compensated mean = {0};
  for (size_t at = 0; at < length; at++)
    add(&mean, ogive_bin_midpoint(ogive_bin_of_key(numbers[at].key)) * ((double)numbers[at].count / n));
  return value_of(mean);
}

double ogive_hist_sum(const ogive_hist *hist) {
  double sum;
  if (ogive_hist_exact_sum(hist, &sum)) return sum;
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  compensated all = {0};
  for (size_t at = 0; at < length; at++)
    add(&all, ogive_bin_midpoint(ogive_bin_of_key(numbers[at].key)) * (double)numbers[at].count);
  return value_of(all);
}

double ogive_hist_mean(const ogive_hist *hist) {
  double sum, n = total(hist);
  if (n == 0) return NAN;
  return ogive_hist_exact_sum(hist, &sum) ? sum / n : mean_of_bins(hist, n);
}

double ogive_hist_stddev(const ogive_hist *hist) {
  double n = total(hist), scale = 0;
  if (n == 0) return NAN;
  double mean = mean_of_bins(hist, n);
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  /* The greatest deviation scales the squares, so that they neither overflow nor vanish. */
  for (size_t at = 0; at < length; at++)
    scale = fmax(scale, fabs(ogive_bin_midpoint(ogive_bin_of_key(numbers[at].key)) - mean));
  if (scale == 0 || !isfinite(scale)) return scale;
  compensated squares = {0};
  for (size_t at = 0; at < length; at++) {
    double deviation = (ogive_bin_midpoint(ogive_bin_of_key(numbers[at].key)) - mean) / scale;
    add(&squares, deviation * deviation * ((double)numbers[at].count / n));
  }
  return scale * sqrt(fmax(value_of(squares), 0));
}

double ogive_hist_moment(const ogive_hist *hist, int k) {
  double n = total(hist), sum = 0;
  if (n == 0) return NAN;
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  for (size_t at = 0; at < length; at++)
    sum += pow(ogive_bin_midpoint(ogive_bin_of_key(numbers[at].key)), k) * (double)numbers[at].count;
  return sum / pow(n, k);
}
