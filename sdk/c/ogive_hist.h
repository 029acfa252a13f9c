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

/* A bin as its byte form holds it; (0, 0) is the zero bin, (-1, 0) the NaN bin. */
typedef struct {
  int8_t val; /* ten times the mantissa of the edge nearer zero, with the sign: 10 to 99, -99 to -10 */
  int8_t exp; /* the decimal exponent of that edge */
} ogive_bin;

/* Holds what is nearer zero than 1e-128. */
#define OGIVE_BIN_ZERO ((ogive_bin){0, 0})
/* Holds what is not a number, infinite, or not below 1e128. */
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

/* Counted bins, with what is known exactly beside them. */
typedef struct ogive_hist ogive_hist;

/* An empty histogram. NULL without memory. */
ogive_hist *ogive_hist_new(void);
/* Frees it; NULL is nothing to free. */
void ogive_hist_free(ogive_hist *hist);
/* An independent copy. NULL without memory. */
ogive_hist *ogive_hist_clone(const ogive_hist *hist);
/* Makes it empty and keeps its memory. */
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

/* All samples, those that are not numbers included. Saturates at 2^64-1. */
uint64_t ogive_hist_count(const ogive_hist *hist);
/* Samples that are numbers. */
uint64_t ogive_hist_real(const ogive_hist *hist);
/* Samples that are not numbers, infinite, or not below 1e128. */
uint64_t ogive_hist_nan(const ogive_hist *hist);
/* How many bins are filled. */
size_t ogive_hist_bins(const ogive_hist *hist);
/* A filled bin and its count, at 0 up to the number of filled ones: NaN, then ascending on the real axis. */
void ogive_hist_bin_at(const ogive_hist *hist, size_t at, ogive_bin *bin, uint64_t *count);
/* The exact sum, where it is known. */
bool ogive_hist_exact_sum(const ogive_hist *hist, double *sum);
/* The least and the greatest sample, where they are known. */
bool ogive_hist_extremes(const ogive_hist *hist, double *min, double *max);

/* The q quantile, 0 <= q <= 1, and the edges between which its sample lies. False without samples or with another q. */
bool ogive_hist_quantile(const ogive_hist *hist, double q, double *value, double *lo, double *hi);
/* OpenHistogram's quantile of type 1, its default; NaN where there is none. */
double ogive_hist_quantile_type1(const ogive_hist *hist, double q);
/* OpenHistogram's quantile of type 7; NaN where there is none. */
double ogive_hist_quantile_type7(const ogive_hist *hist, double q);
/* The share of samples below x. NaN without samples. */
double ogive_hist_fraction_below(const ogive_hist *hist, double x);
/* Samples in the bins below that of x, with it (inclusive) or without. */
uint64_t ogive_hist_count_below(const ogive_hist *hist, double x, bool inclusive);
/* Samples in the bins above that of x, with it (inclusive) or without. */
uint64_t ogive_hist_count_above(const ogive_hist *hist, double x, bool inclusive);
/* Samples in the bin of x. */
uint64_t ogive_hist_count_nearby(const ogive_hist *hist, double x);
/* The exact sum where it is known, else that of the midpoints. */
double ogive_hist_sum(const ogive_hist *hist);
/* The mean: of the exact sum where it is known, else of the midpoints. NaN without samples. */
double ogive_hist_mean(const ogive_hist *hist);
/* The standard deviation of the midpoints. NaN without samples. */
double ogive_hist_stddev(const ogive_hist *hist);
/* The k-th raw moment as OpenHistogram has it, divided by n^k. */
double ogive_hist_moment(const ogive_hist *hist, int k);

/* What a reader had to mend. */
typedef struct {
  size_t invalid_bins;      /* bins that the format does not know: left out */
  size_t empty_bins;        /* bins with a count of 0 */
  size_t odd_zero_bins;     /* zero bins with an exponent */
  size_t duplicate_bins;    /* bins that were there already: added */
  size_t unsorted_bins;     /* bins below the one before */
  size_t wide_counts;       /* counts of more bytes than they need */
  size_t missing_bins;      /* declared, and behind the end */
  size_t trailing_bytes;    /* behind the last bin */
  uint64_t invalid_samples; /* in the bins that were left out */
  bool loose_base64;        /* white space, or padding that is missing */
} ogive_repairs;

/* The canonical byte form. Returns its length, and writes when that is at most capacity. */
size_t ogive_hist_encode(const ogive_hist *hist, uint8_t *bytes, size_t capacity);
/* The byte form in base64, with padding and a 0 at the end. Returns its length without that, and writes when it fits. */
size_t ogive_hist_encode_base64(const ogive_hist *hist, char *text, size_t capacity);
/* Reads the byte form: more than a canonical writer writes; repairs, if given, then says what was mended. NULL when it cannot be
 * read: error, if given, then says why. */
ogive_hist *ogive_hist_decode(const uint8_t *bytes, size_t length, ogive_repairs *repairs, const char **error);
/* As above, of a text in base64. */
ogive_hist *ogive_hist_decode_base64(const char *text, size_t length, ogive_repairs *repairs, const char **error);

/* Reads HdrHistogram's encoding of version 2, plain or compressed (docs/formats/hdrhistogram.md). unit is the value of one recorded
 * unit: 1e-9 makes nanoseconds seconds. Each count goes to the bin that holds the middle of its own; sum and extremes are not
 * known. NULL when it cannot be read, or unfolds to more than 16 MiB: error, if given, then says why. */
ogive_hist *ogive_hist_decode_hdr(const uint8_t *bytes, size_t length, double unit, const char **error);
/* As above, of a text in base64: a line of an interval log has it. */
ogive_hist *ogive_hist_decode_hdr_base64(const char *text, size_t length, double unit, const char **error);

/* Where in a foreign bucket its samples are placed. */
typedef enum {
  OGIVE_PLACE_HIGH,         /* at its upper edge */
  OGIVE_PLACE_LOW,          /* at its lower edge */
  OGIVE_PLACE_MID,          /* in the middle */
  OGIVE_PLACE_HARMONIC_MEAN /* at the harmonic mean of its edges */
} ogive_placement;
/* A bucket of another scheme, with its own count. */
typedef struct {
  uint64_t count; /* of this bucket alone */
  double lower;   /* its lower edge */
  double upper;   /* its upper edge */
} ogive_bucket;
/* Places the samples of ascending buckets of another scheme. NULL without memory. */
ogive_hist *ogive_hist_from_buckets(ogive_placement placement, const ogive_bucket *buckets, size_t length);

/* A recorder of durations (16 KiB of counters, and as much for its reader): one writer, any one reader, no lock, no allocation after its making. */
typedef struct ogive_recorder ogive_recorder;
/* A recorder. NULL without memory. */
ogive_recorder *ogive_recorder_new(void);
/* Frees it; NULL is nothing to free. No thread records any more. */
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
