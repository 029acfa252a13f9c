/* Reads a clock page as a C program does.
 *   reader convert PAGE TICKS...   prints the line at each of the ticks, or "none"
 *   reader live PAGE COUNT         reads in brackets of the system's clock; prints: first ns, last ns, fell, beyond their bound, mode
 */
#define _POSIX_C_SOURCE 200809L
#include "ogive_clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int convert(const og_clock *clock, int count, char **ticks)
{
    int at;
    for (at = 0; at < count; at++) {
        og_segment segment = og_load(clock, 1);
        uint64_t ns;
        segment.ticks = strtoull(ticks[at], NULL, 10);
        if (og_line(&segment, &ns)) {
            printf("%llu %lld\n", (unsigned long long)ns, (long long)(ns + segment.words[OG_S_WALL]));
        } else {
            printf("none\n");
        }
    }
    return 0;
}

static int live(const og_clock *clock, long count)
{
    uint64_t first = og_clock_now(clock), last = first, fell = 0, beyond = 0;
    uint64_t from = og_clock_ticks_ordered(clock), to, outer = (uint64_t)og_system_ns(CLOCK_MONOTONIC);
    long at;
    og_clock_state state;
    for (at = 0; at < count; at++) {
        uint64_t before = (uint64_t)og_system_ns(CLOCK_MONOTONIC), after;
        og_clock_bounded bounded = og_clock_now_bounded(clock);
        after = (uint64_t)og_system_ns(CLOCK_MONOTONIC);
        beyond += bounded.ns + bounded.err_ns < before || bounded.ns > after + bounded.err_ns;
        fell += bounded.ns < last;
        last = bounded.ns;
    }
    to = og_clock_ticks_ordered(clock);
    outer = (uint64_t)og_system_ns(CLOCK_MONOTONIC) - outer;
    /* The stamps enclose the loop: ticks must say what the system's clock says, give or take a thousandth and a microsecond. */
    beyond += og_clock_ns_between(clock, from, to) + outer / 1000 + 1000 < outer;
    beyond += og_clock_ns_between(clock, to, from) != 0;
    beyond += llabs(og_clock_wall(clock) - og_system_ns(CLOCK_REALTIME)) > 1000000000;
    beyond += og_clock_now_unordered(clock) + 1000 < last || og_clock_ticks(clock) < from;
    state = og_clock_status(clock);
    printf("%llu %llu %llu %llu %u %u\n", (unsigned long long)first, (unsigned long long)last, (unsigned long long)fell,
        (unsigned long long)beyond, state.mode, state.process);
    return 0;
}

int main(int count, char **words)
{
    og_clock clock;
    int error;
    if (count < 4) {
        return 2;
    }
    error = og_clock_open(&clock, words[2]);
    if (error != 0) {
        fprintf(stderr, "cannot open %s: %s\n", words[2], strerror(error));
        if (strcmp(words[1], "live") != 0) {
            return 1;
        }
    }
    error = strcmp(words[1], "live") == 0 ? live(&clock, atol(words[3])) : convert(&clock, count - 3, words + 3);
    og_clock_close(&clock);
    return error;
}
