/* The timers' macros, compiled as C and as C++. */
#ifndef __cplusplus
#define _POSIX_C_SOURCE 200809L
#endif
#include <ogive_timer.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* At least that many nanoseconds by the same clock. */
static void work(uint64_t ns) {
  uint64_t start = ogive_now_ns();
  while (ogive_now_ns() - start < ns) {
  }
}

static int left_early(ogive_recorder *recorder, int early) {
  OGIVE_TIME_SCOPE(recorder);
  OGIVE_TIME_SCOPE_SHARED(recorder); /* two in one scope have names of their own */
  if (early) return 1;
  work(1000);
  return 0;
}

/* What was counted since the last call; each sample took at least a number of nanoseconds. */
static uint64_t counted(ogive_recorder *recorder, double least_ns) {
  ogive_hist *taken = ogive_recorder_take(recorder);
  uint64_t count = ogive_hist_count(taken);
  double value, lo, hi;
  if (count > 0) CHECK(ogive_hist_quantile(taken, 0, &value, &lo, &hi) && hi > least_ns / 1e9);
  ogive_hist_free(taken);
  return count;
}

int main(void) {
  ogive_recorder *recorder = ogive_recorder_new();
  int done = 0;
  OGIVE_TIME(recorder) work(2000000);
  CHECK(counted(recorder, 2000000) == 1);
  for (int at = 0; at < 10; at++)
    OGIVE_TIME_SHARED(recorder) {
      work(1000);
      done++;
    }
  CHECK(done == 10);
  CHECK(counted(recorder, 1000) == 10);
  CHECK(left_early(recorder, 1) == 1 && left_early(recorder, 0) == 0);
  CHECK(counted(recorder, 0) == 4);
  CHECK(counted(recorder, 0) == 0);
#ifdef __cplusplus
  try {
    OGIVE_TIME_SCOPE(recorder);
    throw 1;
  } catch (int) {
  }
  CHECK(counted(recorder, 0) == 1);
#endif
  ogive_recorder_free(recorder);
  puts("timer: fine");
  return 0;
}
