/* Ogive's histogram for C and C++: the LogLinear10 scheme of OpenHistogram by the rule that docs/formats/openhistogram.md
 * writes down. No lock, no global state, no dependency but the C library.
 *
 * A histogram is used by one thread at a time. Functions that allocate return false, or NULL, when there is no memory, and
 * leave the histogram as it was.
 */
#ifndef OGIVE_HIST_H
#define OGIVE_HIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A bin as its byte form holds it: val is ten times the mantissa of the edge nearer zero, with the sign; (0, 0) is the zero
 * bin, (-1, 0) the NaN bin. */
typedef struct {
  int8_t val;
  int8_t exp;
} ogive_bin;

#define OGIVE_BIN_ZERO ((ogive_bin){0, 0})
#define OGIVE_BIN_NAN ((ogive_bin){-1, 0})
/* All bins that there are. */
#define OGIVE_BINS_MAX 46082

/* The bin of a double. */
ogive_bin ogive_bin_of(double value);
/* The bin of value * 10^scale, in integers throughout; nanoseconds are (ns, -9). */
ogive_bin ogive_bin_of_integer(int64_t value, int scale);
/* Whether the format knows the bin. */
bool ogive_bin_valid(ogive_bin bin);
/* The edges on the real axis: the doubles nearest to the decimal numbers. */
void ogive_bin_bounds(ogive_bin bin, double *lo, double *hi);
/* The harmonic mean of the edges; 0 for the zero bin. */
double ogive_bin_midpoint(ogive_bin bin);
/* The label, 1.2e-3: at most 16 bytes with its end. */
void ogive_bin_label(ogive_bin bin, char label[16]);
/* The bin of a label: a decimal number or NaN. False for another text. */
bool ogive_bin_parse(const char *label, ogive_bin *bin);

typedef struct ogive_hist ogive_hist;

ogive_hist *ogive_hist_new(void);
void ogive_hist_free(ogive_hist *hist);
ogive_hist *ogive_hist_clone(const ogive_hist *hist);
void ogive_hist_reset(ogive_hist *hist);

/* Counts a sample n times. Counts saturate at 2^64-1. */
bool ogive_hist_record(ogive_hist *hist, double value, uint64_t n);
/* Counts n samples of a bin. Sum, minimum and maximum are then not known. False for an invalid bin too. */
bool ogive_hist_record_bin(ogive_hist *hist, ogive_bin bin, uint64_t n);
/* Adds the samples of another histogram, here and below not of itself. */
bool ogive_hist_merge(ogive_hist *hist, const ogive_hist *other);
/* Takes them away; returns how many bins held fewer than were to be taken, and are left empty. */
size_t ogive_hist_subtract(ogive_hist *hist, const ogive_hist *other);
/* Takes up to n samples of the bin of value away; returns how many. */
uint64_t ogive_hist_remove(ogive_hist *hist, double value, uint64_t n);
/* Keeps the bins that touch [lower, upper]; the NaN bin goes too. */
void ogive_hist_clamp(ogive_hist *hist, double lower, double upper);
/* Bins with a decimal exponent below the given one go to the zero bin, those with it to the whole digit below. */
void ogive_hist_compress_below(ogive_hist *hist, int8_t exponent);

/* All samples; those that are numbers; those that are not. */
uint64_t ogive_hist_count(const ogive_hist *hist);
uint64_t ogive_hist_real(const ogive_hist *hist);
uint64_t ogive_hist_nan(const ogive_hist *hist);
/* Filled bins in order: NaN, then ascending on the real axis. */
size_t ogive_hist_bins(const ogive_hist *hist);
void ogive_hist_bin_at(const ogive_hist *hist, size_t at, ogive_bin *bin, uint64_t *count);
/* The exact sum, and the least and the greatest sample, where they are known. */
bool ogive_hist_exact_sum(const ogive_hist *hist, double *sum);
bool ogive_hist_extremes(const ogive_hist *hist, double *min, double *max);

/* The q quantile, 0 <= q <= 1, and the edges between which its sample lies. False without samples or with another q. */
bool ogive_hist_quantile(const ogive_hist *hist, double q, double *value, double *lo, double *hi);
/* OpenHistogram's types 1 and 7; NaN where there is none. */
double ogive_hist_quantile_type1(const ogive_hist *hist, double q);
double ogive_hist_quantile_type7(const ogive_hist *hist, double q);
/* The share of samples below x. NaN without samples. */
double ogive_hist_fraction_below(const ogive_hist *hist, double x);
/* Samples in the bins below and above that of x, with it (inclusive) or without, and in it. */
uint64_t ogive_hist_count_below(const ogive_hist *hist, double x, bool inclusive);
uint64_t ogive_hist_count_above(const ogive_hist *hist, double x, bool inclusive);
uint64_t ogive_hist_count_nearby(const ogive_hist *hist, double x);
/* Sum and mean: exact where known, else of midpoints. Standard deviation of the midpoints. NaN without samples. */
double ogive_hist_sum(const ogive_hist *hist);
double ogive_hist_mean(const ogive_hist *hist);
double ogive_hist_stddev(const ogive_hist *hist);
/* The k-th raw moment as OpenHistogram has it, divided by n^k. */
double ogive_hist_moment(const ogive_hist *hist, int k);

/* What a reader had to mend. */
typedef struct {
  size_t invalid_bins, empty_bins, odd_zero_bins, duplicate_bins, unsorted_bins, wide_counts, missing_bins, trailing_bytes;
  uint64_t invalid_samples;
  bool loose_base64;
} ogive_repairs;

/* The canonical byte form. Returns its length, and writes when that is at most capacity. */
size_t ogive_hist_encode(const ogive_hist *hist, uint8_t *bytes, size_t capacity);
/* The byte form in base64, with padding and a 0 at the end. Returns its length without that, and writes when it fits. */
size_t ogive_hist_encode_base64(const ogive_hist *hist, char *text, size_t capacity);
/* Reads either form. NULL when it cannot be read: error, if given, then says why. */
ogive_hist *ogive_hist_decode(const uint8_t *bytes, size_t length, ogive_repairs *repairs, const char **error);
ogive_hist *ogive_hist_decode_base64(const char *text, size_t length, ogive_repairs *repairs, const char **error);

/* Reads HdrHistogram's encoding of version 2, plain or compressed (docs/formats/hdrhistogram.md). unit is the value of one recorded
 * unit: 1e-9 makes nanoseconds seconds. Each count goes to the bin that holds the middle of its own; sum and extremes are not
 * known. NULL when it cannot be read, or unfolds to more than 16 MiB: error, if given, then says why. */
ogive_hist *ogive_hist_decode_hdr(const uint8_t *bytes, size_t length, double unit, const char **error);
/* As above, of a text in base64: a line of an interval log has it. */
ogive_hist *ogive_hist_decode_hdr_base64(const char *text, size_t length, double unit, const char **error);

/* Where in a foreign bucket its samples are placed. */
typedef enum { OGIVE_PLACE_HIGH, OGIVE_PLACE_LOW, OGIVE_PLACE_MID, OGIVE_PLACE_HARMONIC_MEAN } ogive_placement;
typedef struct {
  uint64_t count;
  double lower, upper;
} ogive_bucket;
/* Places the samples of ascending buckets of another scheme. NULL without memory. */
ogive_hist *ogive_hist_from_buckets(ogive_placement placement, const ogive_bucket *buckets, size_t length);

/* A recorder of durations (16 KiB of counters, and as much for its reader): one writer, any one reader, no lock, no allocation after its making. */
typedef struct ogive_recorder ogive_recorder;
ogive_recorder *ogive_recorder_new(void);
void ogive_recorder_free(ogive_recorder *recorder);
/* Counts a duration. Of the one thread that writes. */
void ogive_recorder_record(ogive_recorder *recorder, uint64_t nanoseconds);
/* As above, of any number of threads. Use one of the two for a recorder. */
void ogive_recorder_record_shared(ogive_recorder *recorder, uint64_t nanoseconds);
/* What was counted since the last take, in seconds. Of the one thread that reads. NULL without memory: nothing is lost. */
ogive_hist *ogive_recorder_take(ogive_recorder *recorder);

#include "ogive_record.h"

#ifdef __cplusplus
}
#endif
#endif
