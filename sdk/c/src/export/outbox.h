/* Numbered batches, oldest first, until the server has them. */
#ifndef OGIVE_OUTBOX_H
#define OGIVE_OUTBOX_H

#include <pthread.h>

#include "../../ogive_export.h"
#include "batch.h"

typedef struct ogive_waiting {
  struct ogive_waiting *next;
  uint8_t *frame;
  size_t length;
  uint64_t samples;
} ogive_waiting;

/* Everything from `counts` on is guarded by `mutex`. */
typedef struct {
  ogive_export_options options; /* without labels */
  char *url;
  ogive_batch_head head; /* of the next batch: of the one thread that pushes */

  pthread_mutex_t mutex;
  pthread_cond_t changed; /* of CLOCK_MONOTONIC */
  ogive_export_status counts;
  ogive_waiting *first, **end;
  bool in_flight; /* the server may have the first */
  bool finished;  /* nothing is pushed any more */
  int64_t deadline_ns; /* of a shutdown, on CLOCK_MONOTONIC; 0 before one */
} ogive_outbox;

int64_t ogive_clock_ns(clockid_t which);
/* Keeps samples as batches; the oldest that is not in flight makes room. */
void ogive_outbox_push(ogive_outbox *outbox, const ogive_sample *samples, size_t count);
/* Sends until the outbox is finished and empty, or the deadline is over. The body of a thread. */
void *ogive_outbox_send(void *outbox);
/* Counts what is left as dropped. */
void ogive_outbox_drop_rest(ogive_outbox *outbox);

#endif
