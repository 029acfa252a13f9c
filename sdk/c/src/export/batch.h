/* The native batch (docs/formats/batch.md): every series declared, all samples at one time, in a checksummed frame. */
#ifndef OGIVE_BATCH_H
#define OGIVE_BATCH_H

#include "../../ogive_hist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frame is at most this long: the server's limit. */
#define OGIVE_FRAME_BYTES_MAX ((size_t)32 << 20)
/* Series of one batch: the server's limit. */
#define OGIVE_SERIES_MAX ((size_t)100000)

typedef enum { OGIVE_HISTOGRAM, OGIVE_GAUGE, OGIVE_COUNTER } ogive_series_kind;

typedef struct {
  char **labels; /* name, value, ...: ascending by name */
  size_t label_count;
  ogive_series_kind kind;
} ogive_series;

typedef struct {
  const ogive_series *series;
  double number;    /* of a gauge or counter */
  ogive_hist *cell; /* of a histogram, else NULL */
} ogive_sample;

/* What all samples of a batch have in common. */
typedef struct {
  uint64_t source[2];
  uint64_t sequence;
  int64_t end_ns;
  uint32_t width_ms;
} ogive_batch_head;

/* The frame, for free(), or NULL without memory. */
uint8_t *ogive_batch_encode(const ogive_batch_head *head, const ogive_sample *samples, size_t count, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
