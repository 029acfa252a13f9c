/* A recorder of durations. Counters only grow and the reader keeps what it saw of each: what it takes is the difference, so
 * that nothing is lost or taken twice whatever the writer does meanwhile. The functions that ogive_record.h compiles into their users
 * are defined here. */
#define OGIVE_NO_INLINE
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>

/* What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
#define FLAT_TO_KEY ((128 - 9) * 90)

struct ogive_recorder {
  struct ogive_counters counters;
  uint64_t seen[OGIVE_FLAT_BINS]; /* the reader's */
  uint64_t seen_sum;
};

/* Filled once, and then only read. */
static uint64_t CELLS[OGIVE_CELLS];
static pthread_once_t FILLED = PTHREAD_ONCE_INIT;

static int flat_of(uint64_t nanoseconds) {
  int exponent = 1;
  if (nanoseconds == 0) return 0;
  if (nanoseconds < 10) nanoseconds *= 10, exponent = 0;
  while (nanoseconds >= 100) nanoseconds /= 10, exponent++;
  return exponent * 90 + (int)nanoseconds - 9;
}

/* The least number of nanoseconds above a flat bin, or 0 when there is none. */
static uint64_t edge_above(int bin) {
  if (bin == 0) return 1;
  uint64_t digits = (uint64_t)((bin - 1) % 90 + 11);
  int exponent = (bin - 1) / 90;
  if (exponent == 0) return (digits + 9) / 10;
  for (; exponent > 1; exponent--) {
    if (digits > UINT64_MAX / 10) return 0;
    digits *= 10;
  }
  return digits;
}

/* The entry of the numbers with that highest bit whose leading bits are these. They are one more than what is counted. */
static uint64_t entry_of(unsigned exponent, uint64_t leading) {
  unsigned low_bits = exponent < OGIVE_CELL_BITS ? 0 : exponent - OGIVE_CELL_BITS;
  uint64_t first = exponent < OGIVE_CELL_BITS ? leading >> (OGIVE_CELL_BITS - exponent) : leading << low_bits;
  uint64_t last = first + (UINT64_C(1) << low_bits) - 1;
  uint64_t below = (uint64_t)flat_of(first - 1);
  uint64_t before = UINT64_MAX;
  if ((uint64_t)flat_of(last - 1) != below) before = edge_above((int)below) << (63 - exponent) << 1;
  return (before & ~(uint64_t)(OGIVE_FLAT_BINS - 1)) | below;
}

static void fill_cells(void) {
  for (unsigned exponent = 0; exponent <= OGIVE_EXACT_BITS; exponent++)
    for (uint64_t part = 0; part < 1 << OGIVE_CELL_BITS; part++)
      CELLS[(((uint64_t)exponent + 1023) << OGIVE_CELL_BITS | part) & (OGIVE_CELLS - 1)] = entry_of(exponent, 1 << OGIVE_CELL_BITS | part);
}

ogive_recorder *ogive_recorder_new(void) {
  ogive_recorder *recorder = calloc(1, sizeof *recorder);
  pthread_once(&FILLED, fill_cells);
  if (recorder != NULL) recorder->counters.cells = CELLS;
  return recorder;
}

void ogive_recorder_free(ogive_recorder *recorder) { free(recorder); }

static inline uint64_t flat_bin(uint64_t nanoseconds) {
  /* Beyond, the bin of a millionth, six decades up: both have the same leading digits, cut off at the same place. */
  if (__builtin_expect(nanoseconds >> OGIVE_EXACT_BITS != 0, 0)) return ogive_near_bin(CELLS, nanoseconds / 1000000) + 6 * 90;
  return ogive_near_bin(CELLS, nanoseconds);
}

void ogive_recorder_record(ogive_recorder *recorder, uint64_t nanoseconds) {
  /* As ogive_recorder_record_inline, of any number. */
  ogive_add_alone(&recorder->counters.sum, nanoseconds);
  ogive_add_alone(&recorder->counters.counts[flat_bin(nanoseconds)], 1);
}

void ogive_recorder_record_shared(ogive_recorder *recorder, uint64_t nanoseconds) {
  __atomic_fetch_add(&recorder->counters.sum, nanoseconds, __ATOMIC_RELAXED);
  __atomic_fetch_add(&recorder->counters.counts[flat_bin(nanoseconds)], 1, __ATOMIC_RELEASE);
}

ogive_hist *ogive_recorder_take(ogive_recorder *recorder) {
  ogive_hist *taken = ogive_hist_new();
  if (taken == NULL) return NULL;
  /* All memory first: a take that failed in between would lose what it had seen. */
  taken->entries = malloc(OGIVE_FLAT_BINS * sizeof *taken->entries);
  if (taken->entries == NULL) {
    free(taken);
    return NULL;
  }
  taken->capacity = OGIVE_FLAT_BINS;
  for (int bin = 0; bin < OGIVE_FLAT_BINS; bin++) {
    uint64_t count = __atomic_load_n(&recorder->counters.counts[bin], __ATOMIC_ACQUIRE);
    if (count != recorder->seen[bin])
      taken->entries[taken->length++] = (ogive_entry){bin == 0 ? 0 : FLAT_TO_KEY + bin, count - recorder->seen[bin]};
    recorder->seen[bin] = count;
  }
  if (taken->length == 0) return taken;
  /* A sample in the sum that is not counted yet is counted in a later take: over all takes the sum is exact. */
  uint64_t sum = __atomic_load_n(&recorder->counters.sum, __ATOMIC_RELAXED);
  taken->sum = (double)(sum - recorder->seen_sum) / 1e9;
  taken->sum_known = true;
  recorder->seen_sum = sum;
  return taken;
}
