/* What do a record, a merge and four quantiles cost beside HdrHistogram_c, and what does a second writer add?
 *
 * All contenders run in turn, round after round, by the CPU time of the thread. A ratio is taken within
 * a round and is how many times our time another takes. ROUNDS=n for more rounds. */
#define _GNU_SOURCE
#include <hdr_histogram.h>
#include <malloc.h>
#include <math.h>
#include <ogive_hist.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { VALUES = 1 << 17, ROUNDS_MAX = 1000, CONTENDERS_MAX = 8, MERGES = 1000, HDR_MERGES = 20 };
static const int64_t HOUR_NS = 3600000000000;
static const double QUANTILES[] = {0.5, 0.9, 0.99, 0.999};

typedef struct {
  const char *name;
  int operations;
  void (*run)(void *);
  void *state;
} contender;

static int rounds = 15;
static uint64_t log_normal[VALUES], mixed[VALUES];
static const uint64_t *stream = mixed;

static double now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint64_t next_random(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state >> 8;
}

/* Twelve uniform numbers less six: normal enough for a load. */
static double normal(void) {
  double sum = -6;
  for (int at = 0; at < 12; at++) sum += (double)next_random() / 72057594037927936.0;
  return sum;
}

/* Latencies of one regime, and of three that take turns with every eighth value tiny. */
static void fill_streams(void) {
  static const double CENTRES[] = {2e3, 3e5, 4e7};
  double centre = CENTRES[0];
  for (int at = 0; at < VALUES; at++) {
    log_normal[at] = (uint64_t)(250000 * exp(normal()));
    if (next_random() % 64 == 0) centre = CENTRES[next_random() % 3];
    mixed[at] = at % 8 == 0 ? next_random() % 100 : (uint64_t)(centre * exp(0.3 * normal()));
  }
}

static int ascending(const void *a, const void *b) {
  double one = *(const double *)a, other = *(const double *)b;
  return (one > other) - (one < other);
}

static void print(const char *name, double *costs, double *ratios) {
  qsort(costs, (size_t)rounds, sizeof *costs, ascending);
  qsort(ratios, (size_t)rounds, sizeof *ratios, ascending);
  printf("%-38s %9.2f %9.2f %9.2f %8.2f\n", name, costs[rounds / 2], costs[0], costs[rounds - 1], ratios[rounds / 2]);
}

static void times(const char *group, const contender *contenders, int count) {
  static double costs[CONTENDERS_MAX][ROUNDS_MAX], ratios[CONTENDERS_MAX][ROUNDS_MAX];
  for (int round = -1; round < rounds; round++)
    for (int at = 0; at < count; at++) {
      double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
      contenders[at].run(contenders[at].state);
      double cost = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / contenders[at].operations;
      if (round >= 0) costs[at][round] = cost, ratios[at][round] = cost / costs[0][round];
    }
  printf("\n%s: %d rounds\n%-38s %9s %9s %9s %8s\n", group, rounds, "", "median ns", "least", "greatest", "ratio");
  for (int at = 0; at < count; at++) print(contenders[at].name, costs[at], ratios[at]);
}

static void record(void *recorder) {
  for (int at = 0; at < VALUES; at++) ogive_recorder_record(recorder, stream[at]);
}
static void record_called(void *recorder) {
  for (int at = 0; at < VALUES; at++) (ogive_recorder_record)(recorder, stream[at]);
}
static void record_shared(void *recorder) {
  for (int at = 0; at < VALUES; at++) ogive_recorder_record_shared(recorder, stream[at]);
}
static void record_double(void *hist) {
  for (int at = 0; at < VALUES; at++) ogive_hist_record(hist, (double)stream[at] / 1e9, 1);
}
static void record_hdr(void *hdr) {
  for (int at = 0; at < VALUES; at++) hdr_record_value(hdr, (int64_t)stream[at]);
}
static void record_hdr_atomic(void *hdr) {
  for (int at = 0; at < VALUES; at++) hdr_record_value_atomic(hdr, (int64_t)stream[at]);
}

static struct hdr_histogram *hdr(int digits) {
  struct hdr_histogram *made;
  if (hdr_init(1, HOUR_NS, digits, &made) != 0) abort();
  return made;
}

static void records(const char *name, const uint64_t *values) {
  stream = values;
  contender contenders[] = {
      {"ogive_recorder_record", VALUES, record, ogive_recorder_new()},
      {"ogive_recorder_record, a call", VALUES, record_called, ogive_recorder_new()},
      {"ogive_recorder_record_shared", VALUES, record_shared, ogive_recorder_new()},
      {"ogive_hist_record, a double", VALUES, record_double, ogive_hist_new()},
      {"hdr_record_value, 2 digits", VALUES, record_hdr, hdr(2)},
      {"hdr_record_value, 3 digits", VALUES, record_hdr, hdr(3)},
      {"hdr_record_value_atomic, 3 digits", VALUES, record_hdr_atomic, hdr(3)},
  };
  times(name, contenders, sizeof contenders / sizeof *contenders);
  /* A record allocates nothing. */
  struct mallinfo2 before = mallinfo2();
  record(contenders[0].state), record_called(contenders[1].state), record_shared(contenders[2].state);
  if (mallinfo2().uordblks != before.uordblks) abort();
}

static ogive_hist *left, *right;
static struct hdr_histogram *hdr_left, *hdr_right;

static void merge(void *unused) {
  (void)unused;
  for (int at = 0; at < MERGES; at++)
    if (!ogive_hist_merge(left, right)) abort();
}
static void merge_hdr(void *unused) {
  (void)unused;
  for (int at = 0; at < HDR_MERGES; at++) hdr_add(hdr_left, hdr_right);
}
static void quantiles(void *unused) {
  double value, lo, hi;
  (void)unused;
  for (int at = 0; at < 4 * MERGES; at++)
    if (!ogive_hist_quantile(right, QUANTILES[at % 4], &value, &lo, &hi)) abort();
}
static volatile int64_t kept;
static void quantiles_hdr(void *unused) {
  (void)unused;
  for (int at = 0; at < 4 * HDR_MERGES; at++) kept = hdr_value_at_percentile(hdr_right, 100 * QUANTILES[at % 4]);
}

static void merges(void) {
  ogive_recorder *recorder = ogive_recorder_new();
  hdr_left = hdr(3), hdr_right = hdr(3);
  for (int at = 0; at < VALUES; at++) {
    if (at == VALUES / 2) left = ogive_recorder_take(recorder);
    ogive_recorder_record(recorder, mixed[at]);
    hdr_record_value(at < VALUES / 2 ? hdr_left : hdr_right, (int64_t)mixed[at]);
  }
  right = ogive_recorder_take(recorder);
  contender merging[] = {{"ogive_hist_merge", MERGES, merge, NULL}, {"hdr_add, 3 digits", HDR_MERGES, merge_hdr, NULL}};
  times("merge of a histogram of mixed values", merging, 2);
  contender asking[] = {{"ogive_hist_quantile, four", MERGES, quantiles, NULL},
                        {"hdr_value_at_percentile, four, 3 digits", HDR_MERGES, quantiles_hdr, NULL}};
  times("four quantiles", asking, 2);
}

enum { TURNS = 8 };

/* What one writer does, and the CPU time that it took. */
typedef struct {
  void (*run)(void *);
  void *state;
  double ns;
} writer;

static void *write_all(void *argument) {
  writer *one = argument;
  double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
  for (int turn = 0; turn < TURNS; turn++) one->run(one->state);
  one->ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  return NULL;
}

/* What a record costs of CPU time when two threads record at once, into one recorder and into one each. The ratio is to the first line, in
 * the same round. On a machine that does more the two do not always run at once. */
static void writers(void) {
  static const struct {
    const char *name;
    int writers;
    bool shared, hdr;
  } KINDS[] = {{"a recorder each, 1 writer", 1, false, false}, {"a recorder each, 2 writers", 2, false, false},
               {"one recorder, 1 writer", 1, true, false},     {"one recorder, 2 writers", 2, true, false},
               {"hdr_record_value_atomic, 1 writer", 1, true, true}, {"hdr_record_value_atomic, 2 writers", 2, true, true}};
  enum { COUNT = sizeof KINDS / sizeof *KINDS };
  static double costs[COUNT][ROUNDS_MAX], ratios[COUNT][ROUNDS_MAX];
  for (int round = 0; round < rounds; round++)
    for (int kind = 0; kind < COUNT; kind++) {
      bool shared = KINDS[kind].shared, is_hdr = KINDS[kind].hdr;
      pthread_t threads[2];
      writer all[2];
      ogive_recorder *recorders[] = {ogive_recorder_new(), ogive_recorder_new()};
      struct hdr_histogram *other = hdr(3);
      double sum = 0;
      for (int at = 0; at < KINDS[kind].writers; at++) {
        all[at].run = is_hdr ? record_hdr_atomic : shared ? record_shared : record;
        all[at].state = is_hdr ? (void *)other : recorders[shared ? 0 : at];
        if (pthread_create(&threads[at], NULL, write_all, &all[at])) abort();
      }
      for (int at = 0; at < KINDS[kind].writers; at++) pthread_join(threads[at], NULL), sum += all[at].ns;
      costs[kind][round] = sum / KINDS[kind].writers / ((double)TURNS * VALUES);
      ratios[kind][round] = costs[kind][round] / costs[0][round];
      ogive_recorder_free(recorders[0]), ogive_recorder_free(recorders[1]), hdr_close(other);
    }
  printf("\nwriters at once: %d rounds, CPU time a record of each\n%-38s %9s %9s %9s %8s\n", rounds, "", "median ns", "least", "greatest", "ratio");
  for (int kind = 0; kind < COUNT; kind++) print(KINDS[kind].name, costs[kind], ratios[kind]);
}

int main(void) {
  const char *text = getenv("ROUNDS");
  if (text != NULL && atoi(text) > 0 && atoi(text) <= ROUNDS_MAX) rounds = atoi(text);
  fill_streams();
  records("record, log-normal around 250 us", log_normal);
  records("record, mixed: 2 us, 300 us, 40 ms, tiny", mixed);
  merges();
  writers();
  size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  ogive_recorder_new();
  size_t ours = mallinfo2().uordblks + mallinfo2().hblkhd;
  hdr(2);
  size_t two = mallinfo2().uordblks + mallinfo2().hblkhd;
  hdr(3);
  size_t three = mallinfo2().uordblks + mallinfo2().hblkhd;
  printf("\nmemory: ogive_recorder %zu bytes, HdrHistogram_c of 2 digits %zu, of 3 digits %zu\n", ours - before, two - ours, three - two);
  return 0;
}
