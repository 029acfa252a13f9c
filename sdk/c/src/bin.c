/* Bins of the LogLinear10 scheme, by the rule of docs/formats/openhistogram.md. */
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a scaled mantissa may lack and still belong to the bin above: 0.3 is stored below 0.3 and belongs to 30. */
#define SLACK 1e-13

double ogive_power(int exponent) {
  static const double POWERS[257] = {
#include "powers.inc"
  };
  return POWERS[exponent + 128];
}

/* The greatest e with 10^e <= magnitude, for 1e-128 <= magnitude < 1e128. */
static int decade(double magnitude) {
  uint64_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  int binary = (int)(bits >> 52) - 1023;
  /* 78913 / 2^18 is log10(2) less 2e-7: the estimate is the decade of 2^binary, or one below. Division that rounds down. */
  long product = (long)binary * 78913;
  int estimate = (int)(product >= 0 ? product / 262144 : -((262143 - product) / 262144));
  if (estimate < -128) estimate = -128;
  return magnitude >= ogive_power(estimate + 1) ? estimate + 1 : estimate;
}

static ogive_bin signed_bin(int mantissa, int exponent, bool negative) {
  return (ogive_bin){(int8_t)(negative ? -mantissa : mantissa), (int8_t)exponent};
}

ogive_bin ogive_bin_of(double value) {
  double magnitude = fabs(value);
  if (!(magnitude < ogive_power(128))) return OGIVE_BIN_NAN;
  if (magnitude < ogive_power(-128)) return OGIVE_BIN_ZERO;
  int exponent = decade(magnitude);
  /* volatile: a fused multiply-add would round once where the rule rounds twice. */
  volatile double scaled = magnitude / ogive_power(exponent);
  scaled = scaled * 10;
  scaled = scaled + SLACK;
  int mantissa = (int)scaled;
  if (mantissa == 100) {
    mantissa = 10;
    exponent++;
    if (exponent > 127) return OGIVE_BIN_NAN;
  }
  return signed_bin(mantissa, exponent, value < 0);
}

ogive_bin ogive_bin_of_integer(int64_t value, int scale) {
  uint64_t digits = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  if (digits > INT64_MAX) digits = INT64_MAX;
  if (digits == 0) return OGIVE_BIN_ZERO;
  int64_t exponent = (int64_t)scale + 1;
  if (digits < 10) {
    digits *= 10;
    exponent--;
  }
  while (digits >= 100) {
    digits /= 10;
    exponent++;
  }
  if (exponent < -128) return OGIVE_BIN_ZERO;
  if (exponent > 127) return OGIVE_BIN_NAN;
  return signed_bin((int)digits, (int)exponent, value < 0);
}

bool ogive_bin_valid(ogive_bin bin) {
  int digits = abs(bin.val);
  return bin.val == 0 || (digits >= 10 && digits <= 99) || (bin.val == -1 && bin.exp == 0);
}

int ogive_key_of(ogive_bin bin) {
  if (bin.val >= 10) return (bin.exp + 128) * 90 + bin.val - 9;
  if (bin.val <= -10) return -((bin.exp + 128) * 90 - bin.val - 9);
  return bin.val == 0 ? 0 : OGIVE_KEY_NAN;
}

ogive_bin ogive_bin_of_key(int key) {
  if (key == OGIVE_KEY_NAN) return OGIVE_BIN_NAN;
  if (key == 0) return OGIVE_BIN_ZERO;
  int index = abs(key) - 1;
  return signed_bin(index % 90 + 10, index / 90 - 128, key < 0);
}

/* The double nearest to digits * 10^exponent. */
static double decimal(int digits, int exponent) {
  /* 10^0 up to 10^22 are exact doubles, so that one rounding remains. */
  if (exponent >= 0 && exponent <= 22) return digits * ogive_power(exponent);
  if (exponent < 0 && exponent >= -22) return digits / ogive_power(-exponent);
  char text[24];
  snprintf(text, sizeof text, "%de%d", digits, exponent);
  return strtod(text, NULL);
}

void ogive_bin_bounds(ogive_bin bin, double *lo, double *hi) {
  if (bin.val == 0) {
    *lo = *hi = 0;
  } else if (bin.val == -1) {
    *lo = *hi = NAN;
  } else if (bin.val > 0) {
    *lo = decimal(bin.val, bin.exp - 1);
    *hi = decimal(bin.val + 1, bin.exp - 1);
  } else {
    *lo = -decimal(1 - bin.val, bin.exp - 1);
    *hi = -decimal(-bin.val, bin.exp - 1);
  }
}

double ogive_bin_midpoint(ogive_bin bin) {
  double lo, hi;
  ogive_bin_bounds(bin, &lo, &hi);
  return lo == hi ? 0 : lo * (2 * hi / (lo + hi));
}

void ogive_bin_label(ogive_bin bin, char label[16]) {
  if (bin.val == 0) {
    strcpy(label, "0");
  } else if (bin.val == -1) {
    strcpy(label, "NaN");
  } else {
    int digits = abs(bin.val);
    snprintf(label, 16, "%s%d.%de%d", bin.val < 0 ? "-" : "", digits / 10, digits % 10, bin.exp);
  }
}

bool ogive_bin_parse(const char *label, ogive_bin *bin) {
  if (strcmp(label, "NaN") == 0) {
    *bin = OGIVE_BIN_NAN;
    return true;
  }
  if (*label == 0 || label[strspn(label, "0123456789+-.eE")] != 0) return false;
  char *end;
  double value = strtod(label, &end);
  *bin = ogive_bin_of(value);
  return *end == 0 && end != label && bin->val != -1;
}
