/* Ogive's clock for C and C++: reads a clock page that a process publishes with ogive_probe::Clock::share.
 *
 * One header, C11 or C++11 with GCC or Clang, Linux, x86-64 or aarch64. The page's bytes are in docs/formats/clock-page.md.
 *
 *     og_clock clock;
 *     int error = og_clock_open(&clock, "/dev/shm/ogive-clock");  // 0, or an errno; the clock works either way
 *     uint64_t start = og_clock_ticks(&clock);
 *     work();
 *     uint64_t ns = og_clock_ns_between(&clock, start, og_clock_ticks(&clock));
 *
 * Nothing here blocks or allocates, and every function but open and close may be called from any thread. When the publisher
 * is gone, or when no page could be opened (an og_clock of zeros is such a clock), the operating system's clock answers. A clock
 * whose publisher was started anew is to be opened anew. In a process that forbids itself to read the counter
 * (prctl PR_SET_TSC) reading any clock is fatal, the C library's clock_gettime included.
 */
#ifndef OGIVE_CLOCK_H
#define OGIVE_CLOCK_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_MONOTONIC
#error "ogive_clock.h needs POSIX: define _POSIX_C_SOURCE as 200809L before the first include, or compile with -std=gnu11"
#endif
#if !defined(__GNUC__) || !defined(__SIZEOF_INT128__)
#error "ogive_clock.h needs GCC or Clang on a 64-bit machine"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The size of a clock page. */
#define OG_CLOCK_PAGE_BYTES 4096
/* The first word of a clock page, "OGIVECLK". */
#define OG_CLOCK_MAGIC UINT64_C(0x4b4c43455649474f)
/* The version of the page that is read here. */
#define OG_CLOCK_VERSION 1

/* What ticks are ticks of. */
enum {
    OG_CLOCK_TSC_LFENCE = 1, /* an ordered read is lfence; rdtsc */
    OG_CLOCK_TSC_RDTSCP = 2, /* an ordered read is rdtscp */
    OG_CLOCK_CNTVCT = 3,     /* an ordered read is isb; mrs cntvct_el0 */
    OG_CLOCK_OS = 4          /* ticks are nanoseconds of CLOCK_MONOTONIC */
};

/* Where readings come from. */
enum {
    OG_CLOCK_MODE_OS = 0,     /* the operating system's clock */
    OG_CLOCK_MODE_COUNTER = 1 /* the processor's counter */
};

/* A clock; zeros are the operating system's. */
typedef struct og_clock {
    const uint64_t *words; /* the page, or NULL */
    uint32_t source;       /* one of the above; 0 is taken for OG_CLOCK_OS */
} og_clock;

/* A reading with its bound. */
typedef struct og_clock_bounded {
    uint64_t ns;     /* on the CLOCK_MONOTONIC line */
    uint64_t err_ns; /* CLOCK_MONOTONIC was within this of it */
    uint16_t epoch;  /* an interval between two epochs means nothing */
    uint8_t mode;    /* OG_CLOCK_MODE_OS or OG_CLOCK_MODE_COUNTER */
} og_clock_bounded;

/* What a clock and its publisher report. */
typedef struct og_clock_state {
    uint8_t mode;           /* OG_CLOCK_MODE_OS or OG_CLOCK_MODE_COUNTER */
    uint32_t source;        /* as of og_clock */
    uint32_t process;       /* the publisher */
    uint16_t epoch;         /* an interval between two epochs means nothing */
    uint64_t err_ns;        /* CLOCK_MONOTONIC is within this */
    uint64_t frequency_hz;  /* 0 before it is known */
    uint64_t quantum_ticks; /* the least step of the counter */
    uint64_t published;     /* segments so far */
    uint64_t age_ns;        /* since the last calibration sample */
    uint64_t calibrations;  /* samples so far */
    uint64_t fallbacks;     /* changes to the operating system's clock */
    uint64_t backsteps;     /* publications that came late */
    uint64_t cpu_offset_ns; /* how far the counters of two processors differ at most */
} og_clock_state;

/* Words of the page, and of a slot. */
enum { OG_W_MAGIC = 0, OG_W_FORM = 1, OG_W_WHO = 2, OG_W_MADE = 3, OG_W_INDEX = 8, OG_W_SHIFT = 9, OG_W_SLOTS = 16 };
enum { OG_S_BASE_TICKS, OG_S_BASE_NS, OG_S_RATE, OG_S_RATE_SLEWED, OG_S_SLEW_TICKS, OG_S_MAX_AGE, OG_S_WALL, OG_S_PACKED };
enum { OG_W_TICK_RATE = 32, OG_W_FREQUENCY, OG_W_QUANTUM, OG_W_CALIBRATIONS, OG_W_FALLBACKS, OG_W_BACKSTEPS, OG_W_CPU_OFFSET, OG_W_CALIBRATED_AT };

__extension__ typedef unsigned __int128 og_u128;

typedef struct og_segment {
    uint64_t words[8];
    uint64_t ticks;
    uint32_t shift;
} og_segment;

static inline uint64_t og_word(const uint64_t *words, unsigned at)
{
    return __atomic_load_n(&words[at], __ATOMIC_RELAXED);
}

static inline int64_t og_system_ns(clockid_t which)
{
    struct timespec time;
    clock_gettime(which, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The counter, not ordered; 0 where there is none. */
static inline uint64_t og_counter(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* The counter after every earlier instruction is done. */
static inline uint64_t og_counter_ordered(uint32_t source)
{
#if defined(__x86_64__)
    uint32_t low, high, cpu;
    if (source == OG_CLOCK_TSC_RDTSCP) {
        __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu) : : "memory");
    } else {
        __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    }
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    (void)source;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#else
    (void)source;
    return 0;
#endif
}

static inline int og_has_counter(const og_clock *clock)
{
    return clock->words != NULL && clock->source >= OG_CLOCK_TSC_LFENCE && clock->source <= OG_CLOCK_CNTVCT;
}

/* The segment in force and the counter while it was. */
static inline og_segment og_load(const og_clock *clock, int ordered)
{
    og_segment segment;
    uint64_t index;
    do {
        unsigned at;
        index = og_word(clock->words, OG_W_INDEX);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        for (at = 0; at < 8; at++) {
            segment.words[at] = og_word(clock->words, OG_W_SLOTS + 8 * (unsigned)(index & 1) + at);
        }
        segment.ticks = ordered ? og_counter_ordered(clock->source) : og_counter();
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (og_word(clock->words, OG_W_INDEX) != index);
    segment.shift = (uint32_t)og_word(clock->words, OG_W_SHIFT) & 31;
    return segment;
}

/* Nanoseconds since the segment's start, 64.64 fixed point. */
static inline og_u128 og_product(const og_segment *segment, uint64_t age)
{
    uint64_t slewed = age < segment->words[OG_S_SLEW_TICKS] ? age : segment->words[OG_S_SLEW_TICKS];
    return (og_u128)(slewed << segment->shift) * segment->words[OG_S_RATE_SLEWED]
        + (og_u128)((age - slewed) << segment->shift) * segment->words[OG_S_RATE];
}

/* 1 and the line at the segment's ticks, or 0 outside of its validity. */
static inline int og_line(const og_segment *segment, uint64_t *ns)
{
    uint64_t age = segment->ticks - segment->words[OG_S_BASE_TICKS];
    if (age >= segment->words[OG_S_MAX_AGE]) {
        return 0;
    }
    *ns = segment->words[OG_S_BASE_NS] + (uint64_t)(og_product(segment, age) >> 64);
    return 1;
}

/* The system's clock, not below what the segment can have shown before. */
static inline uint64_t og_system_floored(const og_segment *segment)
{
    uint64_t system_ns = (uint64_t)og_system_ns(CLOCK_MONOTONIC);
    uint64_t base_ticks = segment->words[OG_S_BASE_TICKS], base_ns = segment->words[OG_S_BASE_NS], floor_ns;
    uint64_t early = base_ticks > segment->ticks ? base_ticks - segment->ticks : 0;
    og_u128 product;
    if ((segment->words[OG_S_PACKED] >> 56 & 1) == OG_CLOCK_MODE_OS) {
        return system_ns > base_ns ? system_ns : base_ns;
    }
    if (early > 0 && early <= 4096) {
        return base_ns; /* another CPU's counter, a little behind */
    }
    product = og_product(segment, early > 0 ? 0 : segment->words[OG_S_MAX_AGE]);
    floor_ns = base_ns + (uint64_t)(product >> 64) + ((uint64_t)product != 0);
    return floor_ns > system_ns && floor_ns - system_ns < 100000 ? floor_ns : system_ns;
}

/* Takes a page that is mapped already. 0, or EINVAL when it is not a clock page. */
static inline int og_clock_page(og_clock *clock, const void *page, size_t length)
{
    const uint64_t *words = (const uint64_t *)page;
    clock->words = NULL;
    clock->source = OG_CLOCK_OS;
    if (page == NULL || length < 320 || og_word(words, OG_W_MAGIC) != OG_CLOCK_MAGIC
        || (uint32_t)og_word(words, OG_W_FORM) != OG_CLOCK_VERSION || og_word(words, OG_W_FORM) >> 32 < 320) {
        return EINVAL;
    }
    clock->words = words;
    clock->source = (uint32_t)og_word(words, OG_W_WHO);
#if defined(__x86_64__)
    if (clock->source == OG_CLOCK_CNTVCT) {
        clock->source = OG_CLOCK_OS;
    }
#else
    if (clock->source != OG_CLOCK_CNTVCT) {
        clock->source = OG_CLOCK_OS;
    }
#endif
    return 0;
}

/* Maps the page at `path` read-only. 0, or an errno; without a page the clock is the operating system's. */
static inline int og_clock_open(og_clock *clock, const char *path)
{
    struct stat status;
    void *page;
    int result, descriptor = open(path, O_RDONLY);
    clock->words = NULL;
    clock->source = OG_CLOCK_OS;
    if (descriptor < 0) {
        return errno;
    }
    if (fstat(descriptor, &status) != 0 || status.st_size < OG_CLOCK_PAGE_BYTES) {
        close(descriptor);
        return EINVAL;
    }
    page = mmap(NULL, OG_CLOCK_PAGE_BYTES, PROT_READ, MAP_SHARED, descriptor, 0);
    result = page == MAP_FAILED ? errno : 0;
    close(descriptor);
    if (result != 0) {
        return result;
    }
    result = og_clock_page(clock, page, OG_CLOCK_PAGE_BYTES);
    if (result != 0) {
        munmap(page, OG_CLOCK_PAGE_BYTES);
    }
    return result;
}

/* Unmaps what og_clock_open mapped; no thread may read the clock any more. */
static inline void og_clock_close(og_clock *clock)
{
    if (clock->words != NULL) {
        munmap((void *)(uintptr_t)clock->words, OG_CLOCK_PAGE_BYTES);
        clock->words = NULL;
        clock->source = OG_CLOCK_OS;
    }
}

/* The cheapest stamp: not ordered with the instructions around it. For intervals above 200 ns in one thread. */
static inline uint64_t og_clock_ticks(const og_clock *clock)
{
    return og_has_counter(clock) ? og_counter() : (uint64_t)og_system_ns(CLOCK_MONOTONIC);
}

/* A stamp that is taken after every earlier instruction of this thread is done. */
static inline uint64_t og_clock_ticks_ordered(const og_clock *clock)
{
    return og_has_counter(clock) ? og_counter_ordered(clock->source) : (uint64_t)og_system_ns(CLOCK_MONOTONIC);
}

/* Nanoseconds from one stamp to a later one; 0 when it is earlier. */
static inline uint64_t og_clock_ns_between(const og_clock *clock, uint64_t from, uint64_t to)
{
    uint64_t ticks = to > from ? to - from : 0;
    return og_has_counter(clock) ? (uint64_t)((og_u128)ticks * og_word(clock->words, OG_W_TICK_RATE) >> 32) : ticks;
}

static inline uint64_t og_now(const og_clock *clock, int ordered)
{
    int turn;
    uint64_t ns = 0;
    if (!og_has_counter(clock)) {
        return (uint64_t)og_system_ns(CLOCK_MONOTONIC);
    }
    for (turn = 0; turn < 8; turn++) { /* each turn means that a publication came in between */
        uint64_t index = og_word(clock->words, OG_W_INDEX);
        og_segment segment = og_load(clock, ordered);
        if (og_line(&segment, &ns)) {
            return ns;
        }
        ns = og_system_floored(&segment);
        if (og_word(clock->words, OG_W_INDEX) == index) {
            return ns;
        }
    }
    return ns;
}

/* Nanoseconds on the CLOCK_MONOTONIC line, after every earlier instruction of this thread is done. */
static inline uint64_t og_clock_now(const og_clock *clock)
{
    return og_now(clock, 1);
}

/* The same, not ordered: cheaper, and up to some 150 ns early as another thread sees it. */
static inline uint64_t og_clock_now_unordered(const og_clock *clock)
{
    return og_now(clock, 0);
}

/* Nanoseconds since the Unix epoch. It steps when somebody sets the wall clock, at most 100 ms after that. */
static inline int64_t og_clock_wall(const og_clock *clock)
{
    if (og_has_counter(clock)) {
        og_segment segment = og_load(clock, 1);
        uint64_t ns;
        if (og_line(&segment, &ns)) {
            return (int64_t)(ns + segment.words[OG_S_WALL]);
        }
    }
    return og_system_ns(CLOCK_REALTIME);
}

/* A reading with a bound on its error. */
static inline og_clock_bounded og_clock_now_bounded(const og_clock *clock)
{
    og_clock_bounded bounded = {0, 0, 0, OG_CLOCK_MODE_OS};
    uint64_t system_ns;
    if (og_has_counter(clock)) {
        og_segment segment = og_load(clock, 1);
        uint64_t packed = segment.words[OG_S_PACKED];
        bounded.epoch = (uint16_t)(packed >> 40);
        if (og_line(&segment, &bounded.ns)) {
            uint64_t age_ns = bounded.ns - segment.words[OG_S_BASE_NS], drift_ppb = packed >> 24 & 0xffff;
            bounded.err_ns = (packed & 0xffffff) + (age_ns * drift_ppb + 999999999) / 1000000000 + 1;
            bounded.mode = OG_CLOCK_MODE_COUNTER;
            return bounded;
        }
    }
    bounded.ns = og_now(clock, 1);
    system_ns = (uint64_t)og_system_ns(CLOCK_MONOTONIC);
    bounded.err_ns = system_ns > bounded.ns ? system_ns - bounded.ns : bounded.ns - system_ns;
    return bounded;
}

/* The state of the clock and of its publisher. */
static inline og_clock_state og_clock_status(const og_clock *clock)
{
    og_clock_bounded bounded = og_clock_now_bounded(clock);
    og_clock_state state = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint64_t *words = clock->words;
    state.mode = bounded.mode;
    state.source = og_has_counter(clock) ? clock->source : (uint32_t)OG_CLOCK_OS;
    state.epoch = bounded.epoch;
    state.err_ns = bounded.err_ns;
    if (words == NULL) {
        state.frequency_hz = 1000000000;
        state.quantum_ticks = 1;
        return state;
    }
    state.process = (uint32_t)(og_word(words, OG_W_WHO) >> 32);
    state.frequency_hz = og_word(words, OG_W_FREQUENCY);
    state.quantum_ticks = og_word(words, OG_W_QUANTUM);
    state.published = og_word(words, OG_W_INDEX);
    state.calibrations = og_word(words, OG_W_CALIBRATIONS);
    state.fallbacks = og_word(words, OG_W_FALLBACKS);
    state.backsteps = og_word(words, OG_W_BACKSTEPS);
    state.cpu_offset_ns = og_word(words, OG_W_CPU_OFFSET);
    {
        uint64_t made = og_word(words, OG_W_MADE), calibrated = og_word(words, OG_W_CALIBRATED_AT);
        uint64_t last = calibrated > made ? calibrated : made;
        state.age_ns = bounded.ns > last ? bounded.ns - last : 0;
    }
    return state;
}

#ifdef __cplusplus
}
#endif
#endif
