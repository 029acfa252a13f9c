/* Invariants: a batch keeps its number until the server acknowledges it, so that a repeated one is a duplicate; taken is always
 * acknowledged + waiting + rejected + dropped. */
#define _POSIX_C_SOURCE 200809L
#include "outbox.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* 64 MiB: a batch of 100,000 rejected samples with their reasons is 10 MB. */
#define ANSWER_BYTES_MAX ((size_t)64 << 20)
#define ATTEMPT_SECONDS 30L
#define WAIT_MS_MIN 100
#define WAIT_MS_MAX 10000
#define RETRY_AFTER_SECONDS_MAX 3600

int64_t ogive_clock_ns(clockid_t which) {
  struct timespec time;
  clock_gettime(which, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Takes the batch at `place` out. */
static void take_out(ogive_outbox *outbox, ogive_waiting **place) {
  ogive_waiting *gone = *place;
  *place = gone->next;
  if (outbox->end == &gone->next) outbox->end = place;
  outbox->counts.waiting -= gone->samples;
  outbox->counts.waiting_bytes -= gone->length;
  free(gone->frame);
  free(gone);
}

static void make_room(ogive_outbox *outbox) {
  ogive_waiting **oldest = outbox->in_flight ? &outbox->first->next : &outbox->first;
  while (outbox->counts.waiting_bytes > outbox->options.keep_bytes && *oldest != NULL) {
    outbox->counts.dropped_full += (*oldest)->samples;
    take_out(outbox, oldest);
  }
}

/* A batch of as many of the samples as a frame holds; how many they are. */
static size_t encode_some(ogive_outbox *outbox, const ogive_sample *samples, size_t count, ogive_waiting *batch) {
  if (count > OGIVE_SERIES_MAX) count = OGIVE_SERIES_MAX;
  for (;;) {
    batch->frame = ogive_batch_encode(&outbox->head, samples, count, &batch->length);
    if (batch->frame == NULL || batch->length <= OGIVE_FRAME_BYTES_MAX || count == 1) return count;
    free(batch->frame);
    count /= 2;
  }
}

void ogive_outbox_push(ogive_outbox *outbox, const ogive_sample *samples, size_t count) {
  while (count > 0) {
    ogive_waiting *batch = calloc(1, sizeof *batch);
    size_t some = batch == NULL ? count : encode_some(outbox, samples, count, batch);
    bool is_kept = batch != NULL && batch->frame != NULL;
    pthread_mutex_lock(&outbox->mutex);
    outbox->counts.taken += some;
    if (is_kept) {
      outbox->head.sequence++;
      batch->samples = some;
      *outbox->end = batch;
      outbox->end = &batch->next;
      outbox->counts.waiting += some;
      outbox->counts.waiting_bytes += batch->length;
      make_room(outbox);
    } else {
      outbox->counts.dropped_memory += some;
      free(batch);
    }
    pthread_cond_broadcast(&outbox->changed);
    pthread_mutex_unlock(&outbox->mutex);
    samples += some;
    count -= some;
  }
}

void ogive_outbox_drop_rest(ogive_outbox *outbox) {
  pthread_mutex_lock(&outbox->mutex);
  while (outbox->first != NULL) {
    outbox->counts.dropped_shutdown += outbox->first->samples;
    take_out(outbox, &outbox->first);
  }
  pthread_mutex_unlock(&outbox->mutex);
}

typedef struct {
  char *bytes;
  size_t length;
} answer_body;

static size_t keep_body(char *bytes, size_t size, size_t count, void *context) {
  answer_body *body = context;
  size_t length = size * count;
  char *grown;
  if (length > ANSWER_BYTES_MAX - body->length) return 0;
  grown = realloc(body->bytes, body->length + length + 1);
  if (grown == NULL) return 0;
  memcpy(grown + body->length, bytes, length);
  body->bytes = grown;
  body->length += length;
  return length;
}

static bool is_over(ogive_outbox *outbox) {
  bool over;
  pthread_mutex_lock(&outbox->mutex);
  over = outbox->deadline_ns != 0 && ogive_clock_ns(CLOCK_MONOTONIC) >= outbox->deadline_ns;
  pthread_mutex_unlock(&outbox->mutex);
  return over;
}

static int stop_when_over(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return is_over(context);
}

/* What the sender knows beside the outbox. */
typedef struct {
  ogive_outbox *outbox;
  CURL *curl;
  struct curl_slist *headers;
  char reported[300]; /* the last failure */
  uint64_t random;
} sender;

static void report(sender *sender, const char *message) {
  ogive_outbox *outbox = sender->outbox;
  if (strcmp(message, sender->reported) == 0) return;
  snprintf(sender->reported, sizeof sender->reported, "%s", message);
  if (*message != 0 && outbox->options.on_error != NULL) outbox->options.on_error(outbox->options.context, sender->reported);
}

/* The server stored, knew or rejected every sample of the first batch: what it said is counted. False when it did not say so. */
static bool acknowledge(sender *sender, const json_t *verdict) {
  ogive_outbox *outbox = sender->outbox;
  const json_t *accepted = json_object_get(verdict, "accepted"), *duplicate = json_object_get(verdict, "duplicate");
  const json_t *list = json_object_get(verdict, "rejected");
  const char *reason = json_string_value(json_object_get(json_array_get(list, 0), "reason"));
  uint64_t rejected = json_array_size(list), samples;
  char message[sizeof sender->reported];
  pthread_mutex_lock(&outbox->mutex);
  samples = outbox->first->samples;
  if (!json_is_integer(accepted) || !json_is_integer(duplicate)
      || (uint64_t)json_integer_value(accepted) + (uint64_t)json_integer_value(duplicate) + rejected != samples) {
    pthread_mutex_unlock(&outbox->mutex);
    report(sender, "the answer does not speak of every sample of the batch: is this an Ogive server?");
    return false;
  }
  outbox->counts.acknowledged += samples - rejected;
  outbox->counts.rejected += rejected;
  take_out(outbox, &outbox->first);
  outbox->in_flight = false;
  pthread_mutex_unlock(&outbox->mutex);
  snprintf(message, sizeof message, "the server rejected samples: %s", reason != NULL ? reason : "without a reason");
  report(sender, rejected > 0 ? message : "");
  return true;
}

static void give_up(sender *sender, long status, const char *why) {
  ogive_outbox *outbox = sender->outbox;
  char message[sizeof sender->reported];
  pthread_mutex_lock(&outbox->mutex);
  outbox->counts.dropped_refused += outbox->first->samples;
  take_out(outbox, &outbox->first);
  outbox->in_flight = false;
  pthread_mutex_unlock(&outbox->mutex);
  snprintf(message, sizeof message, "a batch was refused with %ld: %s", status, why);
  report(sender, message);
}

/* What the server answered. True when the first batch is done with; else the least wait before the next attempt. */
static bool judge(sender *sender, long status, const answer_body *body, long *wait_ms) {
  json_t *verdict = json_loadb(body->bytes != NULL ? body->bytes : "", body->length, 0, NULL);
  const char *why = json_string_value(json_object_get(verdict, "error"));
  char message[sizeof sender->reported];
  curl_off_t after = 0;
  bool is_done = false;
  if (status == 200) {
    is_done = acknowledge(sender, verdict);
  } else if (status == 413 || (why != NULL && (status == 400 || status == 415 || status == 422))) {
    /* Without the object somebody else answers at that address. */
    give_up(sender, status, why != NULL ? why : "too large");
    is_done = true;
  } else {
    curl_easy_getinfo(sender->curl, CURLINFO_RETRY_AFTER, &after);
    snprintf(message, sizeof message, "the server answers %ld: %s", status, why != NULL ? why : "");
    report(sender, message);
  }
  *wait_ms = 1000 * (long)(after < RETRY_AFTER_SECONDS_MAX ? after : RETRY_AFTER_SECONDS_MAX);
  json_decref(verdict);
  return is_done;
}

static bool attempt(sender *sender, const ogive_waiting *batch, long *wait_ms) {
  answer_body body = {NULL, 0};
  long status = 0;
  bool is_done = false;
  CURLcode code;
  *wait_ms = 0;
  curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDS, batch->frame);
  curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)batch->length);
  curl_easy_setopt(sender->curl, CURLOPT_WRITEDATA, &body);
  code = curl_easy_perform(sender->curl);
  if (code == CURLE_OK) {
    curl_easy_getinfo(sender->curl, CURLINFO_RESPONSE_CODE, &status);
    is_done = judge(sender, status, &body, wait_ms);
  } else {
    report(sender, curl_easy_strerror(code));
  }
  free(body.bytes);
  return is_done;
}

/* The batch to send, or NULL when nothing is left to do. */
static const ogive_waiting *begin(ogive_outbox *outbox) {
  const ogive_waiting *batch = NULL;
  pthread_mutex_lock(&outbox->mutex);
  while (outbox->first == NULL && !outbox->finished) pthread_cond_wait(&outbox->changed, &outbox->mutex);
  if (outbox->first != NULL && (outbox->deadline_ns == 0 || ogive_clock_ns(CLOCK_MONOTONIC) < outbox->deadline_ns)) {
    outbox->in_flight = true;
    batch = outbox->first;
  }
  pthread_mutex_unlock(&outbox->mutex);
  return batch;
}

/* Waits between half of the time and all of it, so that senders do not come back together; not beyond the deadline. */
static void back_off(sender *sender, unsigned failures, long at_least_ms) {
  ogive_outbox *outbox = sender->outbox;
  long most = WAIT_MS_MIN << (failures < 8 ? failures - 1 : 7), wait;
  int64_t end;
  if (most > WAIT_MS_MAX) most = WAIT_MS_MAX;
  sender->random = sender->random * 6364136223846793005u + 1442695040888963407u;
  wait = most / 2 + (long)((sender->random >> 33) % (uint64_t)(most / 2));
  end = ogive_clock_ns(CLOCK_MONOTONIC) + 1000000 * (int64_t)(wait > at_least_ms ? wait : at_least_ms);
  pthread_mutex_lock(&outbox->mutex);
  for (;;) {
    int64_t until = outbox->deadline_ns != 0 && outbox->deadline_ns < end ? outbox->deadline_ns : end;
    struct timespec time = {until / 1000000000, until % 1000000000};
    if (ogive_clock_ns(CLOCK_MONOTONIC) >= until) break;
    pthread_cond_timedwait(&outbox->changed, &outbox->mutex, &time);
  }
  pthread_mutex_unlock(&outbox->mutex);
}

static bool add_header(sender *sender, const char *name, const char *value) {
  size_t length = strlen(name) + strlen(value) + 3;
  char *line = malloc(length);
  struct curl_slist *longer = NULL;
  if (line != NULL) {
    snprintf(line, length, "%s: %s", name, value);
    longer = curl_slist_append(sender->headers, line);
  }
  free(line);
  if (longer != NULL) sender->headers = longer;
  return longer != NULL;
}

static bool prepare(sender *sender) {
  const ogive_export_options *options = &sender->outbox->options;
  bool is_ready = add_header(sender, "Content-Type", "application/x-ogive-batch-flatbuffer") && add_header(sender, "Expect", "");
  if (options->token != NULL) is_ready = is_ready && add_header(sender, "Authorization", options->token);
  if (options->tenant != NULL) is_ready = is_ready && add_header(sender, "X-Scope-OrgID", options->tenant);
  sender->curl = curl_easy_init();
  if (!is_ready || sender->curl == NULL) {
    curl_easy_cleanup(sender->curl);
    curl_slist_free_all(sender->headers);
    sender->curl = NULL, sender->headers = NULL;
    return false;
  }
  curl_easy_setopt(sender->curl, CURLOPT_URL, sender->outbox->url);
  curl_easy_setopt(sender->curl, CURLOPT_HTTPHEADER, sender->headers);
  curl_easy_setopt(sender->curl, CURLOPT_TIMEOUT, ATTEMPT_SECONDS);
  curl_easy_setopt(sender->curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(sender->curl, CURLOPT_WRITEFUNCTION, keep_body);
  curl_easy_setopt(sender->curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(sender->curl, CURLOPT_XFERINFOFUNCTION, stop_when_over);
  curl_easy_setopt(sender->curl, CURLOPT_XFERINFODATA, sender->outbox);
  return true;
}

void *ogive_outbox_send(void *context) {
  sender sender = {context, NULL, NULL, "", 0};
  const ogive_waiting *batch;
  unsigned failures = 0;
  long wait_ms = 0;
  sender.random = sender.outbox->head.source[0];
  /* Without memory for a connection: tried again, and what waits meanwhile is bounded. */
  while (!prepare(&sender) && !is_over(sender.outbox)) back_off(&sender, 8, 0);
  while (sender.curl != NULL && (batch = begin(sender.outbox)) != NULL) {
    failures = attempt(&sender, batch, &wait_ms) ? 0 : failures + 1;
    if (failures > 0) back_off(&sender, failures, wait_ms);
  }
  curl_easy_cleanup(sender.curl);
  curl_slist_free_all(sender.headers);
  return NULL;
}
