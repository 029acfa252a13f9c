/* A recorder of durations. Counters only grow and the reader keeps what it saw of each: what it takes is the difference, so
 * that nothing is lost or taken twice whatever the writer does meanwhile. */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FLAT_BINS 2048
/* What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
#define FLAT_TO_KEY ((128 - 9) * 90)
#define CELLS (64 * 128)

typedef struct {
  uint64_t edge; /* the least value of the bin above */
  uint64_t bin;
} cell;

struct ogive_recorder {
  _Atomic uint64_t counts[FLAT_BINS];
  _Atomic uint64_t sum;
  uint64_t seen[FLAT_BINS]; /* the reader's */
  uint64_t seen_sum;
};

/* Filled once, and then only read. */
static cell TABLE[CELLS];
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
  uint64_t digits = (uint64_t)((bin - 1) % 90 + 11);
  int exponent = (bin - 1) / 90;
  if (exponent == 0) return (digits + 9) / 10;
  for (; exponent > 1; exponent--) {
    if (digits > UINT64_MAX / 10) return 0;
    digits *= 10;
  }
  return digits;
}

static void fill_table(void) {
  for (int at = 0; at < CELLS; at++) {
    int lead = at >> 7;
    uint64_t digits = (uint64_t)(at & 127) | 128;
    uint64_t start = lead < 7 ? digits >> (7 - lead) : digits << (lead - 7);
    int bin = flat_of(start);
    uint64_t edge = edge_above(bin);
    /* Where no integer is above, every one is above the bin before. */
    TABLE[at] = (cell){edge, (uint64_t)(edge == 0 ? bin - 1 : bin)};
  }
  /* The first cell holds 0 and 1, whose bins are neighbours. */
  TABLE[0] = (cell){1, 0};
}

ogive_recorder *ogive_recorder_new(void) {
  pthread_once(&FILLED, fill_table);
  return calloc(1, sizeof(ogive_recorder));
}

void ogive_recorder_free(ogive_recorder *recorder) { free(recorder); }

static unsigned flat_bin(uint64_t nanoseconds) {
  unsigned lead = 63u - (unsigned)__builtin_clzll(nanoseconds | 1);
  const cell *at = &TABLE[(lead << 7 | (unsigned)(nanoseconds << (63 - lead) >> 56 & 127)) & (CELLS - 1)];
  return (unsigned)(at->bin + (nanoseconds >= at->edge)) & (FLAT_BINS - 1);
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
