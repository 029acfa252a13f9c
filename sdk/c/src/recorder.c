/* A recorder of durations. Counters only grow and the reader keeps what it saw of each: what it takes is the difference, so
 * that nothing is lost or taken twice whatever the writer does meanwhile. */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FLAT_BINS 2048
/* What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
#define FLAT_TO_KEY ((128 - 9) * 90)
#define CELL_BITS 7
#define CELLS (64 << CELL_BITS)
#define MANTISSA_BITS 52
/* Integers from here on are not all doubles: 104 days. */
#define EXACT_END (UINT64_C(1) << 53)

struct ogive_recorder {
  _Atomic uint64_t counts[FLAT_BINS];
  _Atomic uint64_t sum;
  uint64_t seen[FLAT_BINS]; /* the reader's */
  uint64_t seen_sum;
};

/* The leading bits of a number as a double (exponent and seven more) name a cell of 1/128 of it, in which lies one edge at most.
 * Its entry holds that edge, as the mantissa moved to the top, and in the eleven bits below the flat bin that begins there. A cell
 * without an edge has edge 0, which every number reaches. Filled once, and then only read. */
static uint64_t TABLE[CELLS];
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

/* The entry of the numbers with that highest bit whose leading bits are these. They are one more than what is counted: a double
 * has no exponent for zero that would name a cell. */
static uint64_t entry_of(unsigned exponent, uint64_t leading) {
  uint64_t first = exponent < CELL_BITS ? leading >> (CELL_BITS - exponent) : leading << (exponent - CELL_BITS);
  uint64_t last = exponent < CELL_BITS ? first : first + (UINT64_C(1) << (exponent - CELL_BITS)) - 1;
  uint64_t below = (uint64_t)flat_of(first - 1), bin = (uint64_t)flat_of(last - 1);
  /* 0 has its cell alone: an edge that its mantissa does not reach. */
  if (bin == 0) return FLAT_BINS + 1;
  return below == bin ? bin : (edge_above((int)below) + 1) << (63 - exponent) << 1 | bin;
}

static void fill_table(void) {
  for (unsigned exponent = 0; exponent <= 53; exponent++)
    for (uint64_t part = 0; part < 1 << CELL_BITS; part++)
      TABLE[(((uint64_t)exponent + 1023) << CELL_BITS | part) & (CELLS - 1)] = entry_of(exponent, 1 << CELL_BITS | part);
}

ogive_recorder *ogive_recorder_new(void) {
  pthread_once(&FILLED, fill_table);
  return calloc(1, sizeof(ogive_recorder));
}

void ogive_recorder_free(ogive_recorder *recorder) { free(recorder); }

/* The flat bin of a number below EXACT_END. */
static inline uint64_t near_bin(uint64_t nanoseconds) {
  double number = (double)(int64_t)(nanoseconds + 1);
  uint64_t bits, entry;
  memcpy(&bits, &number, sizeof bits);
  entry = TABLE[bits >> (MANTISSA_BITS - CELL_BITS) & (CELLS - 1)];
  /* With its lowest bits set, a number that reaches the edge is not below the entry, whatever bin stands in it. */
  return (entry - ((bits << (64 - MANTISSA_BITS) | (FLAT_BINS - 1)) < entry)) & (FLAT_BINS - 1);
}

static inline uint64_t flat_bin(uint64_t nanoseconds) {
  /* Beyond, the bin of a millionth, six decades up: both have the same leading digits, cut off at the same place. */
  if (__builtin_expect(nanoseconds >= EXACT_END, 0)) return near_bin(nanoseconds / 1000000) + 6 * 90;
  return near_bin(nanoseconds);
}

void ogive_recorder_record(ogive_recorder *recorder, uint64_t nanoseconds) {
  _Atomic uint64_t *count = &recorder->counts[flat_bin(nanoseconds)];
  /* Loads are relaxed: the one writer alone changes them. The count is released behind the sum; its partner is the acquire
   * of a take, which so never sees a sample counted that is not in the sum. */
  uint64_t sum = atomic_load_explicit(&recorder->sum, memory_order_relaxed);
  atomic_store_explicit(&recorder->sum, sum + nanoseconds, memory_order_relaxed);
  atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_release);
}

void ogive_recorder_record_shared(ogive_recorder *recorder, uint64_t nanoseconds) {
  atomic_fetch_add_explicit(&recorder->sum, nanoseconds, memory_order_relaxed);
  atomic_fetch_add_explicit(&recorder->counts[flat_bin(nanoseconds)], 1, memory_order_release);
}

ogive_hist *ogive_recorder_take(ogive_recorder *recorder) {
  ogive_hist *taken = ogive_hist_new();
  if (taken == NULL) return NULL;
  /* All memory first: a take that failed in between would lose what it had seen. */
  taken->entries = malloc(FLAT_BINS * sizeof *taken->entries);
  if (taken->entries == NULL) {
    free(taken);
    return NULL;
  }
  taken->capacity = FLAT_BINS;
  for (int bin = 0; bin < FLAT_BINS; bin++) {
    uint64_t count = atomic_load_explicit(&recorder->counts[bin], memory_order_acquire);
    if (count != recorder->seen[bin])
      taken->entries[taken->length++] = (ogive_entry){bin == 0 ? 0 : FLAT_TO_KEY + bin, count - recorder->seen[bin]};
    recorder->seen[bin] = count;
  }
  if (taken->length == 0) return taken;
  /* A sample in the sum that is not counted yet is counted in a later take: over all takes the sum is exact. */
  uint64_t sum = atomic_load_explicit(&recorder->sum, memory_order_relaxed);
  taken->sum = (double)(sum - recorder->seen_sum) / 1e9;
  taken->sum_known = true;
  recorder->seen_sum = sum;
  return taken;
}
