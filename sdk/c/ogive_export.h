/* Sends what a C or C++ program measures to an Ogive server: one histogram cell a second for each recorder, in numbered
 * batches that are kept until the server acknowledges them, so that each sample is stored exactly once.
 *
 *     const char *error;
 *     ogive_exporter *exporter = ogive_exporter_start("http://127.0.0.1:6448", NULL, &error);
 *     const char *labels[] = {"route", "/login", NULL};
 *     ogive_recorder *logins = ogive_exporter_recorder(exporter, "login_seconds", labels, &error);
 *     ogive_recorder_record_shared(logins, nanoseconds);
 *     ogive_exporter_shutdown(exporter, 5000, NULL);
 *
 * Threads: an exporter has two of its own. All functions but shutdown may be called from any thread. After a fork, only the
 * parent may use the exporter. A program that uses libcurl itself calls curl_global_init first.
 * Failure: functions that take `error` return NULL or false and set it to a sentence that stays valid.
 */
#ifndef OGIVE_EXPORT_H
#define OGIVE_EXPORT_H

#include "ogive_hist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What measures and sends. */
typedef struct ogive_exporter ogive_exporter;

/* Zeros, or no options at all, are what most programs want. Everything is copied. */
typedef struct {
  const char *const *labels; /* on every series: name, value, name, value, NULL */
  const char *token;         /* for a server with logins */
  const char *tenant;        /* whose data it is; the server's default when NULL */
  unsigned interval_ms;      /* the width of a cell: 1000 when 0, at least 100 */
  size_t keep_bytes;         /* for batches that wait: 16 MiB when 0. The oldest then make room, counted */
  /* Called from the exporter's thread, once for each kind of failure until the server takes a batch again. */
  void (*on_error)(void *context, const char *message);
  void *context; /* for on_error */
} ogive_export_options;

/* In samples: taken is acknowledged + waiting + rejected + all that was dropped. */
typedef struct {
  uint64_t taken;            /* from the recorders */
  uint64_t acknowledged;     /* stored by the server */
  uint64_t waiting;          /* in batches that are kept */
  uint64_t rejected;         /* the server said why, and so did on_error */
  uint64_t dropped_full;     /* older than what keep_bytes holds */
  uint64_t dropped_refused;  /* of batches that the server would never take */
  uint64_t dropped_shutdown; /* not acknowledged before the shutdown ended */
  uint64_t dropped_memory;   /* there was no memory for the batch */
  size_t waiting_bytes;      /* of the batches that are kept */
} ogive_export_status;

/* Begins to export to a server such as http://127.0.0.1:6448. */
ogive_exporter *ogive_exporter_start(const char *server, const ogive_export_options *options, const char **error);

/* A histogram of durations, in seconds; name it ..._seconds. Labels are as in the options, or NULL. The recorder belongs to the
 * exporter: no thread may record any more when shutdown is called. */
ogive_recorder *ogive_exporter_recorder(ogive_exporter *exporter, const char *name, const char *const *labels,
                                        const char **error);
/* A number that read gives at the end of each interval. */
bool ogive_exporter_gauge(ogive_exporter *exporter, const char *name, const char *const *labels,
                          double (*read)(void *context), void *context, const char **error);
/* A number that only grows; name it ..._total. */
bool ogive_exporter_counter(ogive_exporter *exporter, const char *name, const char *const *labels,
                            double (*read)(void *context), void *context, const char **error);

/* What has become of the samples so far. */
void ogive_exporter_status(ogive_exporter *exporter, ogive_export_status *status);

/* Takes the cell that has begun, sends what waits for at most so many milliseconds, and frees the exporter with its recorders.
 * False when samples were not acknowledged by then; `last`, if given, says how many. */
bool ogive_exporter_shutdown(ogive_exporter *exporter, unsigned timeout_ms, ogive_export_status *last);

#ifdef __cplusplus
}
#endif
#endif
