/* Timers for C and C++: how long a statement or a scope takes, into a recorder of ogive_hist.h.
 *
 *     OGIVE_TIME(logins) login(name);             // a statement or a block; leaving it by break, return or goto counts nothing
 *
 *     int login(const char *name) {
 *         OGIVE_TIME_SCOPE(logins);               // to the end of the scope, however it is left; GCC and Clang, and any C++
 *         ...
 *     }
 *
 * With _SHARED any number of threads record into the recorder at once. The clock is CLOCK_MONOTONIC, some 23 ns a reading; where that
 * is too much, see ogive_clock.h.
 */
#ifndef OGIVE_TIMER_H
#define OGIVE_TIMER_H

#include "ogive_hist.h"

#include <time.h>

#ifndef CLOCK_MONOTONIC
#error "ogive_timer.h needs POSIX: define _POSIX_C_SOURCE as 200809L before the first include, or compile with -std=gnu11"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t ogive_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Counts the time since a reading of ogive_now_ns. */
static inline void ogive_recorder_since(ogive_recorder *recorder, uint64_t start) {
  ogive_recorder_record(recorder, ogive_now_ns() - start);
}
/* As above, of any number of threads. */
static inline void ogive_recorder_since_shared(ogive_recorder *recorder, uint64_t start) {
  ogive_recorder_record_shared(recorder, ogive_now_ns() - start);
}

/* A time that has begun. */
typedef struct {
  ogive_recorder *recorder; /* NULL when it has counted */
  uint64_t start;           /* of ogive_now_ns */
} ogive_timer;

/* Begins a time. */
static inline ogive_timer ogive_timer_begin(ogive_recorder *recorder) {
  ogive_timer timer;
  timer.recorder = recorder;
  timer.start = ogive_now_ns();
  return timer;
}
/* Counts it. */
static inline void ogive_timer_end(ogive_timer *timer) {
  ogive_recorder_since(timer->recorder, timer->start);
  timer->recorder = NULL;
}
/* Counts it, of any number of threads. */
static inline void ogive_timer_end_shared(ogive_timer *timer) {
  ogive_recorder_since_shared(timer->recorder, timer->start);
  timer->recorder = NULL;
}

#ifdef __cplusplus
}
#endif

#define OGIVE_TIMER_NAME_(line) ogive_timer_of_line_##line
#define OGIVE_TIMER_NAME(line) OGIVE_TIMER_NAME_(line)
#define OGIVE_TIME_BY_(recorder_, end, name) \
  for (ogive_timer name = ogive_timer_begin(recorder_); name.recorder != NULL; end(&name))

/* Times the statement or the block behind it. */
#define OGIVE_TIME(recorder) OGIVE_TIME_BY_(recorder, ogive_timer_end, OGIVE_TIMER_NAME(__LINE__))
/* As above, of any number of threads. */
#define OGIVE_TIME_SHARED(recorder) OGIVE_TIME_BY_(recorder, ogive_timer_end_shared, OGIVE_TIMER_NAME(__LINE__))

#ifdef __cplusplus
/* A timer that ends with its scope, also when an exception leaves it. */
template <void (*End)(ogive_timer *)>
class ogive_scope_timer {
 public:
  explicit ogive_scope_timer(ogive_recorder *recorder) : timer_(ogive_timer_begin(recorder)) {}
  ~ogive_scope_timer() { End(&timer_); }
  ogive_scope_timer(const ogive_scope_timer &) = delete;
  ogive_scope_timer &operator=(const ogive_scope_timer &) = delete;

 private:
  ogive_timer timer_;
};
/* Times the rest of the scope, however it is left. */
#define OGIVE_TIME_SCOPE(recorder) ogive_scope_timer<ogive_timer_end> OGIVE_TIMER_NAME(__LINE__)(recorder)
/* As above, of any number of threads. */
#define OGIVE_TIME_SCOPE_SHARED(recorder) ogive_scope_timer<ogive_timer_end_shared> OGIVE_TIMER_NAME(__LINE__)(recorder)
#elif defined(__GNUC__)
/* Times the rest of the scope, however it is left. */
#define OGIVE_TIME_SCOPE(recorder) \
  __attribute__((cleanup(ogive_timer_end))) ogive_timer OGIVE_TIMER_NAME(__LINE__) = ogive_timer_begin(recorder)
/* As above, of any number of threads. */
#define OGIVE_TIME_SCOPE_SHARED(recorder) \
  __attribute__((cleanup(ogive_timer_end_shared))) ogive_timer OGIVE_TIMER_NAME(__LINE__) = ogive_timer_begin(recorder)
#endif

#endif
