/* The exporter: a thread that takes a cell of each series at the end of every interval, and one that sends. */
#define _POSIX_C_SOURCE 200809L
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "outbox.h"

#define INTERVAL_MS 1000
#define INTERVAL_MS_MIN 100
#define KEEP_BYTES ((size_t)16 << 20)

static const char NO_MEMORY[] = "there is no memory";
static const char NO_LABELS[] = "labels are pairs of a name and a value, each name once and none __name__";
static const char NO_SERVER[] = "the server's address is http://HOST:PORT or https://HOST:PORT";
static const char EXISTS[] = "the series exists already";
static const char NO_START[] = "the exporter's threads cannot be started";

typedef struct {
  ogive_series series;
  ogive_recorder *recorder;
  double (*read)(void *context);
  void *context;
} source;

struct ogive_exporter {
  ogive_outbox outbox;
  char **labels; /* of every series */
  size_t label_count;
  pthread_t taker, sender;

  pthread_mutex_t mutex;
  pthread_cond_t stopping; /* of CLOCK_REALTIME, as intervals are */
  bool is_stopping;
  source **sources; /* never moved, so that a recorder's owner may keep it */
  size_t source_count, source_capacity;
};

static void free_labels(char **labels, size_t count) {
  for (size_t at = 0; labels != NULL && at < count; at++) free(labels[at]);
  free(labels);
}

static size_t length_of(const char *const *labels) {
  size_t count = 0;
  while (labels != NULL && labels[count] != NULL) count++;
  return count;
}

/* Puts a pair where its name belongs; a name that is there already gets the value. */
static bool put(char **labels, size_t *count, const char *name, const char *value) {
  size_t at = 0;
  char *key, *text = strdup(value);
  while (at < *count && strcmp(labels[at], name) < 0) at += 2;
  if (text != NULL && at < *count && strcmp(labels[at], name) == 0) {
    free(labels[at + 1]);
    labels[at + 1] = text;
    return true;
  }
  key = strdup(name);
  if (text == NULL || key == NULL) {
    free(key);
    free(text);
    return false;
  }
  memmove(labels + at + 2, labels + at, (*count - at) * sizeof *labels);
  labels[at] = key, labels[at + 1] = text;
  *count += 2;
  return true;
}

static const char *check_labels(const char *const *labels) {
  size_t count = length_of(labels);
  if (count % 2 != 0) return NO_LABELS;
  for (size_t at = 0; at < count; at += 2) {
    if (*labels[at] == 0 || strcmp(labels[at], "__name__") == 0) return NO_LABELS;
    for (size_t other = 0; other < at; other += 2)
      if (strcmp(labels[at], labels[other]) == 0) return NO_LABELS;
  }
  return NULL;
}

static void free_source(source *gone) {
  if (gone == NULL) return;
  free_labels(gone->series.labels, gone->series.label_count);
  ogive_recorder_free(gone->recorder);
  free(gone);
}

static void free_exporter(ogive_exporter *exporter) {
  ogive_outbox_drop_rest(&exporter->outbox);
  for (size_t at = 0; at < exporter->source_count; at++) free_source(exporter->sources[at]);
  free(exporter->sources);
  free_labels(exporter->labels, exporter->label_count);
  free(exporter->outbox.url);
  free((char *)exporter->outbox.options.token);
  free((char *)exporter->outbox.options.tenant);
  pthread_mutex_destroy(&exporter->mutex);
  pthread_cond_destroy(&exporter->stopping);
  pthread_mutex_destroy(&exporter->outbox.mutex);
  pthread_cond_destroy(&exporter->outbox.changed);
  free(exporter);
}

/* The values of all series at the end of an interval. */
static void take_all(ogive_exporter *exporter, int64_t end_ns) {
  ogive_sample *samples;
  size_t count = 0;
  pthread_mutex_lock(&exporter->mutex);
  samples = malloc((exporter->source_count + 1) * sizeof *samples);
  for (size_t at = 0; samples != NULL && at < exporter->source_count; at++) {
    source *from = exporter->sources[at];
    ogive_sample sample = {&from->series, 0, NULL};
    if (from->recorder == NULL) {
      sample.number = from->read(from->context);
    } else {
      /* Without memory, or without samples, there is nothing: what was recorded is in a later cell. */
      sample.cell = ogive_recorder_take(from->recorder);
      if (sample.cell == NULL || ogive_hist_count(sample.cell) == 0) {
        ogive_hist_free(sample.cell);
        continue;
      }
    }
    samples[count++] = sample;
  }
  pthread_mutex_unlock(&exporter->mutex);
  exporter->outbox.head.end_ns = end_ns;
  ogive_outbox_push(&exporter->outbox, samples, count);
  for (size_t at = 0; at < count; at++) ogive_hist_free(samples[at].cell);
  free(samples);
}

static void *take_cells(void *context) {
  ogive_exporter *exporter = context;
  int64_t width_ns = 1000000 * (int64_t)exporter->outbox.head.width_ms;
  bool is_over = false;
  while (!is_over) {
    int64_t end_ns = (ogive_clock_ns(CLOCK_REALTIME) / width_ns + 1) * width_ns;
    struct timespec end = {end_ns / 1000000000, end_ns % 1000000000};
    pthread_mutex_lock(&exporter->mutex);
    while (!exporter->is_stopping && ogive_clock_ns(CLOCK_REALTIME) < end_ns)
      pthread_cond_timedwait(&exporter->stopping, &exporter->mutex, &end);
    is_over = exporter->is_stopping;
    pthread_mutex_unlock(&exporter->mutex);
    take_all(exporter, end_ns);
  }
  pthread_mutex_lock(&exporter->outbox.mutex);
  exporter->outbox.finished = true;
  pthread_cond_broadcast(&exporter->outbox.changed);
  pthread_mutex_unlock(&exporter->outbox.mutex);
  return NULL;
}

static char *joined(const char *first, const char *second) {
  size_t length = strlen(first) + strlen(second) + 1;
  char *out = malloc(length);
  if (out != NULL) snprintf(out, length, "%s%s", first, second);
  return out;
}

static char *url_of(const char *server) {
  size_t length = strlen(server);
  bool is_http = (strncmp(server, "http://", 7) == 0 && length > 7) || (strncmp(server, "https://", 8) == 0 && length > 8);
  return is_http ? joined(server, server[length - 1] == '/' ? "v1/batch" : "/v1/batch") : NULL;
}

static bool random_source(uint64_t id[2]) {
  int descriptor = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t count = descriptor < 0 ? -1 : read(descriptor, id, 16);
  if (descriptor >= 0) close(descriptor);
  return count == 16;
}

/* Copies the options. NULL, or what is wrong. */
static const char *fill(ogive_exporter *exporter, const char *server, const ogive_export_options *options) {
  ogive_outbox *outbox = &exporter->outbox;
  size_t count = length_of(options->labels);
  const char *wrong = check_labels(options->labels);
  if (wrong != NULL) return wrong;
  outbox->options = *options;
  outbox->options.labels = NULL;
  outbox->options.keep_bytes = options->keep_bytes != 0 ? options->keep_bytes : KEEP_BYTES;
  outbox->options.token = options->token != NULL ? joined("Bearer ", options->token) : NULL;
  outbox->options.tenant = options->tenant != NULL ? strdup(options->tenant) : NULL;
  outbox->head.width_ms = options->interval_ms == 0 ? INTERVAL_MS : options->interval_ms;
  if (outbox->head.width_ms < INTERVAL_MS_MIN) outbox->head.width_ms = INTERVAL_MS_MIN;
  outbox->head.sequence = 1;
  exporter->labels = calloc(count + 2, sizeof *exporter->labels);
  for (size_t at = 0; exporter->labels != NULL && at < count; at += 2)
    if (!put(exporter->labels, &exporter->label_count, options->labels[at], options->labels[at + 1])) return NO_MEMORY;
  outbox->url = url_of(server);
  if (outbox->url == NULL) return NO_SERVER;
  if (exporter->labels == NULL || (options->token != NULL && outbox->options.token == NULL)
      || (options->tenant != NULL && outbox->options.tenant == NULL))
    return NO_MEMORY;
  return random_source(outbox->head.source) ? NULL : "/dev/urandom cannot be read";
}

static void make_locks(ogive_exporter *exporter) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&exporter->mutex, NULL);
  pthread_cond_init(&exporter->stopping, NULL);
  pthread_mutex_init(&exporter->outbox.mutex, NULL);
  pthread_cond_init(&exporter->outbox.changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void stop_taking(ogive_exporter *exporter) {
  pthread_mutex_lock(&exporter->mutex);
  exporter->is_stopping = true;
  pthread_cond_signal(&exporter->stopping);
  pthread_mutex_unlock(&exporter->mutex);
  pthread_join(exporter->taker, NULL);
}

ogive_exporter *ogive_exporter_start(const char *server, const ogive_export_options *options, const char **error) {
  static const ogive_export_options none = {0};
  ogive_exporter *exporter = calloc(1, sizeof *exporter);
  *error = NO_MEMORY;
  if (exporter == NULL) return NULL;
  exporter->outbox.end = &exporter->outbox.first;
  make_locks(exporter);
  *error = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? fill(exporter, server, options != NULL ? options : &none) : NO_START;
  if (*error == NULL && pthread_create(&exporter->taker, NULL, take_cells, exporter) != 0) *error = NO_START;
  if (*error != NULL) {
    free_exporter(exporter);
    return NULL;
  }
  if (pthread_create(&exporter->sender, NULL, ogive_outbox_send, &exporter->outbox) != 0) {
    stop_taking(exporter);
    free_exporter(exporter);
    *error = NO_START;
    return NULL;
  }
  return exporter;
}

static bool is_same(const ogive_series *a, const ogive_series *b) {
  if (a->label_count != b->label_count) return false;
  for (size_t at = 0; at < a->label_count; at++)
    if (strcmp(a->labels[at], b->labels[at]) != 0) return false;
  return true;
}

/* Labels of the exporter, of the series, and its name. */
static bool label(const ogive_exporter *exporter, source *added, const char *name, const char *const *labels) {
  ogive_series *series = &added->series;
  size_t count = length_of(labels);
  series->labels = calloc(exporter->label_count + count + 2, sizeof *series->labels);
  if (series->labels == NULL) return false;
  for (size_t at = 0; at < exporter->label_count; at += 2)
    if (!put(series->labels, &series->label_count, exporter->labels[at], exporter->labels[at + 1])) return false;
  for (size_t at = 0; at < count; at += 2)
    if (!put(series->labels, &series->label_count, labels[at], labels[at + 1])) return false;
  return put(series->labels, &series->label_count, "__name__", name);
}

/* Appends under the lock. NULL, or what is wrong. */
static const char *append(ogive_exporter *exporter, source *added) {
  for (size_t at = 0; at < exporter->source_count; at++)
    if (is_same(&exporter->sources[at]->series, &added->series)) return EXISTS;
  if (exporter->source_count == exporter->source_capacity) {
    size_t capacity = 2 * exporter->source_capacity + 8;
    source **grown = realloc(exporter->sources, capacity * sizeof *grown);
    if (grown == NULL) return NO_MEMORY;
    exporter->sources = grown, exporter->source_capacity = capacity;
  }
  exporter->sources[exporter->source_count++] = added;
  return NULL;
}

static bool add(ogive_exporter *exporter, source *added, const char *name, const char *const *labels, const char **error) {
  *error = check_labels(labels);
  if (*error == NULL && *name == 0) *error = NO_LABELS;
  if (*error == NULL && (added == NULL || !label(exporter, added, name, labels))) *error = NO_MEMORY;
  if (*error == NULL) {
    pthread_mutex_lock(&exporter->mutex);
    *error = append(exporter, added);
    pthread_mutex_unlock(&exporter->mutex);
  }
  if (*error != NULL) free_source(added);
  return *error == NULL;
}

ogive_recorder *ogive_exporter_recorder(ogive_exporter *exporter, const char *name, const char *const *labels,
                                        const char **error) {
  source *added = calloc(1, sizeof *added);
  if (added != NULL) {
    added->series.kind = OGIVE_HISTOGRAM;
    added->recorder = ogive_recorder_new();
    if (added->recorder == NULL) {
      free(added);
      added = NULL;
    }
  }
  return add(exporter, added, name, labels, error) ? added->recorder : NULL;
}

static bool number(ogive_exporter *exporter, ogive_series_kind kind, const char *name, const char *const *labels,
                   double (*read)(void *context), void *context, const char **error) {
  source *added = calloc(1, sizeof *added);
  if (added != NULL) {
    added->series.kind = kind;
    added->read = read, added->context = context;
  }
  return add(exporter, added, name, labels, error);
}

bool ogive_exporter_gauge(ogive_exporter *exporter, const char *name, const char *const *labels,
                          double (*read)(void *context), void *context, const char **error) {
  return number(exporter, OGIVE_GAUGE, name, labels, read, context, error);
}

bool ogive_exporter_counter(ogive_exporter *exporter, const char *name, const char *const *labels,
                            double (*read)(void *context), void *context, const char **error) {
  return number(exporter, OGIVE_COUNTER, name, labels, read, context, error);
}

void ogive_exporter_status(ogive_exporter *exporter, ogive_export_status *status) {
  pthread_mutex_lock(&exporter->outbox.mutex);
  *status = exporter->outbox.counts;
  pthread_mutex_unlock(&exporter->outbox.mutex);
}

bool ogive_exporter_shutdown(ogive_exporter *exporter, unsigned timeout_ms, ogive_export_status *last) {
  ogive_outbox *outbox = &exporter->outbox;
  ogive_export_status status;
  uint64_t before;
  pthread_mutex_lock(&outbox->mutex);
  outbox->deadline_ns = ogive_clock_ns(CLOCK_MONOTONIC) + 1000000 * (int64_t)timeout_ms;
  pthread_cond_broadcast(&outbox->changed);
  pthread_mutex_unlock(&outbox->mutex);
  stop_taking(exporter);
  pthread_join(exporter->sender, NULL);
  before = outbox->counts.dropped_shutdown;
  ogive_outbox_drop_rest(outbox);
  ogive_exporter_status(exporter, &status);
  if (last != NULL) *last = status;
  free_exporter(exporter);
  return status.dropped_shutdown == before;
}
