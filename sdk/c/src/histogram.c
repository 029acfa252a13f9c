/* Counted bins, with exact merges. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ogive_hist *ogive_hist_new(void) { return calloc(1, sizeof(ogive_hist)); }

void ogive_hist_free(ogive_hist *hist) {
  if (hist == NULL) return;
  free(hist->entries);
  free(hist);
}

ogive_hist *ogive_hist_clone(const ogive_hist *hist) {
  ogive_hist *copy = ogive_hist_new();
  if (copy == NULL) return NULL;
  *copy = *hist;
  copy->capacity = hist->length;
  copy->entries = malloc(hist->length ? hist->length * sizeof *hist->entries : 1);
  if (copy->entries == NULL) {
    free(copy);
    return NULL;
  }
  if (hist->length) memcpy(copy->entries, hist->entries, hist->length * sizeof *hist->entries);
  return copy;
}

void ogive_hist_reset(ogive_hist *hist) {
  hist->length = 0;
  ogive_forget(hist);
}

uint64_t ogive_saturating(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

static size_t place(const ogive_hist *hist, int key) {
  size_t low = 0, high = hist->length;
  if (high > 0 && hist->entries[high - 1].key < key) return high;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (hist->entries[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool reserve(ogive_hist *hist, size_t length) {
  if (length <= hist->capacity) return true;
  size_t capacity = hist->capacity * 2 > length ? hist->capacity * 2 : length + 8;
  ogive_entry *entries = realloc(hist->entries, capacity * sizeof *entries);
  if (entries == NULL) return false;
  hist->entries = entries;
  hist->capacity = capacity;
  return true;
}

bool ogive_add(ogive_hist *hist, int key, uint64_t n) {
  size_t at = place(hist, key);
  if (at < hist->length && hist->entries[at].key == key) {
    hist->entries[at].count = ogive_saturating(hist->entries[at].count, n);
    return true;
  }
  if (!reserve(hist, hist->length + 1)) return false;
  memmove(hist->entries + at + 1, hist->entries + at, (hist->length - at) * sizeof *hist->entries);
  hist->entries[at] = (ogive_entry){key, n};
  hist->length++;
  return true;
}

void ogive_forget(ogive_hist *hist) { hist->sum_known = hist->extremes_known = false; }

/* Adds what is known of others beside their bins. */
static void join(ogive_hist *hist, bool first, const ogive_hist *other) {
  if (first) {
    hist->sum = other->sum, hist->min = other->min, hist->max = other->max;
    hist->sum_known = other->sum_known, hist->extremes_known = other->extremes_known;
    return;
  }
  hist->sum += other->sum;
  hist->min = fmin(hist->min, other->min);
  hist->max = fmax(hist->max, other->max);
  hist->sum_known = hist->sum_known && other->sum_known;
  hist->extremes_known = hist->extremes_known && other->extremes_known;
}

static bool has_numbers(const ogive_hist *hist) {
  size_t length;
  ogive_numbers(hist, &length);
  return length > 0;
}

bool ogive_hist_record(ogive_hist *hist, double value, uint64_t n) {
  if (n == 0) return true;
  int key = ogive_key_of(ogive_bin_of(value));
  bool first = !has_numbers(hist);
  if (!ogive_add(hist, key, n)) return false;
  ogive_hist one = {.sum = value * (double)n, .min = value, .max = value, .sum_known = true, .extremes_known = true};
  if (key != OGIVE_KEY_NAN) join(hist, first, &one);
  return true;
}

bool ogive_hist_record_bin(ogive_hist *hist, ogive_bin bin, uint64_t n) {
  if (!ogive_bin_valid(bin)) return false;
  if (n == 0) return true;
  int key = ogive_key_of(bin);
  if (!ogive_add(hist, key, n)) return false;
  if (key != OGIVE_KEY_NAN) ogive_forget(hist);
  return true;
}

bool ogive_hist_merge(ogive_hist *hist, const ogive_hist *other) {
  size_t missing = 0, at = 0;
  for (size_t from = 0; from < other->length; from++) {
    while (at < hist->length && hist->entries[at].key < other->entries[from].key) at++;
    missing += at == hist->length || hist->entries[at].key != other->entries[from].key;
  }
  /* All memory first, so that a failure changes nothing. */
  if (!reserve(hist, hist->length + missing)) return false;
  if (has_numbers(other)) join(hist, !has_numbers(hist), other);
  /* From the end, so that what moves up has left its place. Where nothing is missing nothing moves. */
  size_t left = hist->length, right = other->length, to = left + missing;
  hist->length = to;
  while (right > 0) {
    ogive_entry taken = other->entries[right - 1];
    while (left > 0 && hist->entries[left - 1].key > taken.key) hist->entries[--to] = hist->entries[--left];
    uint64_t held = 0;
    if (left > 0 && hist->entries[left - 1].key == taken.key) held = hist->entries[--left].count;
    hist->entries[--to] = (ogive_entry){taken.key, ogive_saturating(held, taken.count)};
    right--;
  }
  return true;
}

static void compact(ogive_hist *hist) {
  size_t kept = 0;
  for (size_t at = 0; at < hist->length; at++)
    if (hist->entries[at].count > 0) hist->entries[kept++] = hist->entries[at];
  hist->length = kept;
}

size_t ogive_hist_subtract(ogive_hist *hist, const ogive_hist *other) {
  size_t missing = 0;
  if (has_numbers(other)) ogive_forget(hist);
  for (size_t at = 0; at < other->length; at++) {
    ogive_entry taken = other->entries[at];
    size_t found = place(hist, taken.key);
    if (found == hist->length || hist->entries[found].key != taken.key) {
      missing++;
    } else if (hist->entries[found].count < taken.count) {
      missing++;
      hist->entries[found].count = 0;
    } else {
      hist->entries[found].count -= taken.count;
    }
  }
  compact(hist);
  return missing;
}

uint64_t ogive_hist_remove(ogive_hist *hist, double value, uint64_t n) {
  int key = ogive_key_of(ogive_bin_of(value));
  size_t at = place(hist, key);
  if (at == hist->length || hist->entries[at].key != key) return 0;
  uint64_t removed = n < hist->entries[at].count ? n : hist->entries[at].count;
  hist->entries[at].count -= removed;
  if (removed > 0 && key != OGIVE_KEY_NAN) ogive_forget(hist);
  compact(hist);
  return removed;
}

void ogive_hist_clamp(ogive_hist *hist, double lower, double upper) {
  int first = ogive_key_of(ogive_bin_of(lower)), last = ogive_key_of(ogive_bin_of(upper));
  for (size_t at = 0; at < hist->length; at++) {
    int key = hist->entries[at].key;
    double lo, hi;
    ogive_bin_bounds(ogive_bin_of_key(key), &lo, &hi);
    if (key == 0) lo = -ogive_power(-128), hi = ogive_power(-128);
    bool kept = key != OGIVE_KEY_NAN && ((lo <= upper && hi >= lower) || key == first || key == last);
    if (!kept) hist->entries[at].count = 0;
  }
  compact(hist);
  ogive_forget(hist);
}

void ogive_hist_compress_below(ogive_hist *hist, int8_t exponent) {
  ogive_hist compressed = {0};
  /* No more bins than before: memory for them is there at once, or nothing is done. */
  if (!reserve(&compressed, hist->length + 1)) return;
  for (size_t at = 0; at < hist->length; at++) {
    int key = hist->entries[at].key;
    ogive_bin bin = ogive_bin_of_key(key);
    if (key == OGIVE_KEY_NAN)
      key = exponent >= 0 ? 0 : key;
    else if (key != 0 && bin.exp < exponent)
      key = 0;
    else if (key != 0 && bin.exp == exponent)
      key = ogive_key_of((ogive_bin){(int8_t)(bin.val - bin.val % 10), bin.exp});
    ogive_add(&compressed, key, hist->entries[at].count);
  }
  free(hist->entries);
  *hist = compressed;
}

const ogive_entry *ogive_numbers(const ogive_hist *hist, size_t *length) {
  size_t skip = hist->length > 0 && hist->entries[0].key == OGIVE_KEY_NAN;
  *length = hist->length - skip;
  return hist->entries == NULL ? NULL : hist->entries + skip;
}

uint64_t ogive_hist_count(const ogive_hist *hist) {
  uint64_t total = 0;
  for (size_t at = 0; at < hist->length; at++) total = ogive_saturating(total, hist->entries[at].count);
  return total;
}

uint64_t ogive_hist_real(const ogive_hist *hist) {
  size_t length;
  const ogive_entry *numbers = ogive_numbers(hist, &length);
  uint64_t total = 0;
  for (size_t at = 0; at < length; at++) total = ogive_saturating(total, numbers[at].count);
  return total;
}

uint64_t ogive_hist_nan(const ogive_hist *hist) {
  return hist->length > 0 && hist->entries[0].key == OGIVE_KEY_NAN ? hist->entries[0].count : 0;
}

size_t ogive_hist_bins(const ogive_hist *hist) { return hist->length; }

void ogive_hist_bin_at(const ogive_hist *hist, size_t at, ogive_bin *bin, uint64_t *count) {
  *bin = ogive_bin_of_key(hist->entries[at].key);
  *count = hist->entries[at].count;
}

bool ogive_hist_exact_sum(const ogive_hist *hist, double *sum) {
  *sum = hist->sum;
  return hist->sum_known && has_numbers(hist);
}

bool ogive_hist_extremes(const ogive_hist *hist, double *min, double *max) {
  *min = hist->min, *max = hist->max;
  return hist->extremes_known && has_numbers(hist);
}
