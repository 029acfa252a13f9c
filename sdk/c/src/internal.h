/* What the parts of the library share. */
#ifndef OGIVE_INTERNAL_H
#define OGIVE_INTERNAL_H

#include "../ogive_hist.h"

/* Keys order bins: NaN, then ascending on the real axis, with zero at 0. */
#define OGIVE_KEY_NAN (-32768)

typedef struct {
  int key;
  uint64_t count;
} ogive_entry;

struct ogive_hist {
  ogive_entry *entries; /* ascending by key, without zero counts */
  size_t length, capacity;
  double sum, min, max;
  bool sum_known, extremes_known;
};

double ogive_power(int exponent);
int ogive_key_of(ogive_bin bin);
ogive_bin ogive_bin_of_key(int key);
/* Sum and extremes are not known any more. */
void ogive_forget(ogive_hist *hist);
bool ogive_add(ogive_hist *hist, int key, uint64_t n);
uint64_t ogive_saturating(uint64_t a, uint64_t b);
/* The entries that are numbers. */
const ogive_entry *ogive_numbers(const ogive_hist *hist, size_t *length);
/* The bytes of a text in base64, to be freed; loose, if given: whether there was white space, or padding was missing. NULL, and
 * why, for another text. */
uint8_t *ogive_from_base64(const char *text, size_t length, size_t *filled, bool *loose, const char **why);

#endif
