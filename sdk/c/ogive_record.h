/* The part of a recorder that is compiled into what records: a call costs as much again as the record itself. ogive_hist.h
 * includes it; with OGIVE_NO_INLINE defined, and with compilers other than GCC and Clang, every record is a call. */
#ifndef OGIVE_RECORD_H
#define OGIVE_RECORD_H

#include <stdint.h>
#include <string.h>

#define OGIVE_FLAT_BINS 2048
/* Integers from 2^53 on (104 days) are not all doubles. */
#define OGIVE_EXACT_BITS 53
#define OGIVE_CELL_BITS 7
#define OGIVE_CELLS (64 << OGIVE_CELL_BITS)

/* The beginning of an ogive_recorder. */
struct ogive_counters {
  /* The leading bits of a number as a double (exponent and seven more) name a cell of 1/128 of it, in which lies one edge at
   * most. Its entry holds the greatest number below that edge, as the mantissa moved to the top, and in the eleven bits below
   * the flat bin of that number. The entry of a cell without an edge is above every number. */
  const uint64_t *cells;
  uint64_t sum;
  uint64_t counts[OGIVE_FLAT_BINS];
};

/* The flat bin of a number below 2^53. */
static inline uint64_t ogive_near_bin(const uint64_t *cells, uint64_t nanoseconds) {
  /* One more than what is counted: a double has no exponent for zero that would name a cell. */
  double number = (double)(int64_t)(nanoseconds + 1);
  uint64_t bits, mantissa, entry;
  memcpy(&bits, &number, sizeof bits);
  mantissa = bits << 12;
  entry = cells[bits >> (52 - OGIVE_CELL_BITS) & (OGIVE_CELLS - 1)];
  return (entry + (entry < mantissa)) & (OGIVE_FLAT_BINS - 1);
}

#if defined(__GNUC__)
/* Adds to a counter that only this thread changes. Others may read it meanwhile, and see additions in the order in which they
 * were made. */
static inline void ogive_add_alone(uint64_t *counter, uint64_t number) {
#if defined(__x86_64__) && defined(__LP64__) && !defined(__SANITIZE_THREAD__)
  /* One instruction, for which the compiler's atomic load and store are three. Not locked, so no other thread may add; its store
   * is of eight aligned bytes at once, and the processor makes stores visible in their order. */
  __asm__ __volatile__("addq %1, %0" : "+m"(*counter) : "er"(number) : "cc");
#else
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + number, __ATOMIC_RELEASE);
#endif
}

static inline void ogive_recorder_record_inline(ogive_recorder *recorder, uint64_t nanoseconds) {
  struct ogive_counters *counters = (struct ogive_counters *)recorder;
  if (__builtin_expect(nanoseconds >> OGIVE_EXACT_BITS != 0, 0)) {
    (ogive_recorder_record)(recorder, nanoseconds);
    return;
  }
  /* The sum first: a take, which acquires a count, so never sees a sample counted that is not in the sum. */
  ogive_add_alone(&counters->sum, nanoseconds);
  ogive_add_alone(&counters->counts[ogive_near_bin(counters->cells, nanoseconds)], 1);
}

#if !defined(OGIVE_NO_INLINE)
/* The record, compiled into its caller; (ogive_recorder_record)(recorder, nanoseconds) is the call. */
#define ogive_recorder_record(recorder, nanoseconds) ogive_recorder_record_inline(recorder, nanoseconds)
#endif
#endif
#endif
