/* A recorder against the rule of integers, and takes beside writers that never stop. */
#include <ogive_hist.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static void bin_is_the_rules(uint64_t nanoseconds) {
  static ogive_recorder *recorder;
  if (recorder == NULL) recorder = ogive_recorder_new();
  /* Compiled in here, and called. */
  ogive_recorder_record(recorder, nanoseconds);
  (ogive_recorder_record)(recorder, nanoseconds);
  ogive_hist *taken = ogive_recorder_take(recorder);
  ogive_bin found, expected;
  uint64_t count;
  CHECK(ogive_hist_bins(taken) == 1);
  ogive_hist_bin_at(taken, 0, &found, &count);
  CHECK(count == 2);
  expected = nanoseconds > INT64_MAX ? ogive_bin_of_integer((int64_t)(nanoseconds / 1000), -6)
                                     : ogive_bin_of_integer((int64_t)nanoseconds, -9);
  if (found.val != expected.val || found.exp != expected.exp) {
    fprintf(stderr, "%llu ns: found (%d, %d), expected (%d, %d)\n", (unsigned long long)nanoseconds, found.val, found.exp,
            expected.val, expected.exp);
    exit(1);
  }
  ogive_hist_free(taken);
}

enum { EACH = 200000, WRITERS = 3 };

static void *write_shared(void *recorder) {
  for (uint64_t at = 1; at <= EACH; at++) ogive_recorder_record_shared(recorder, at);
  return NULL;
}

static void *write_alone(void *recorder) {
  for (uint64_t at = 1; at <= EACH / 2; at++) ogive_recorder_record(recorder, at);
  for (uint64_t at = EACH / 2 + 1; at <= EACH; at++) (ogive_recorder_record)(recorder, at);
  return NULL;
}

/* What is taken beside writers is everything that they wrote, each once. */
static void takes_add_up(int writers, void *(*writer)(void *)) {
  ogive_recorder *recorder = ogive_recorder_new();
  pthread_t threads[WRITERS];
  for (int at = 0; at < writers; at++) CHECK(pthread_create(&threads[at], NULL, writer, recorder) == 0);
  ogive_hist *all = ogive_hist_new();
  for (int joined = 0; joined < writers;) {
    ogive_hist *taken = ogive_recorder_take(recorder);
    CHECK(ogive_hist_merge(all, taken));
    ogive_hist_free(taken);
    if (ogive_hist_count(all) >= (uint64_t)EACH * (uint64_t)(joined + 1)) CHECK(pthread_join(threads[joined++], NULL) == 0);
  }
  ogive_hist *taken = ogive_recorder_take(recorder);
  CHECK(ogive_hist_merge(all, taken));
  CHECK(ogive_hist_count(all) == (uint64_t)EACH * (uint64_t)writers);
  double sum;
  CHECK(ogive_hist_exact_sum(all, &sum));
  double expected = writers * (EACH * (EACH + 1.0) / 2) / 1e9;
  CHECK(sum > expected * (1 - 1e-12) && sum < expected * (1 + 1e-12));
  ogive_hist_free(taken);
  ogive_hist_free(all);
  ogive_recorder_free(recorder);
}

int main(void) {
  for (uint64_t at = 0; at < 20000; at++) bin_is_the_rules(at);
  for (uint64_t power = 1; power < UINT64_MAX / 100; power *= 10)
    for (uint64_t digits = 10; digits < 100; digits++)
      for (uint64_t beside = 0; beside < 3; beside++) bin_is_the_rules(power * digits + beside - 1);
  uint64_t random = 88172645463325252u;
  for (int at = 0; at < 20000; at++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    bin_is_the_rules(random >> (random & 63));
  }
  bin_is_the_rules(UINT64_MAX);
  takes_add_up(1, write_alone);
  takes_add_up(WRITERS, write_shared);
  puts("recorder: fine");
  return 0;
}
