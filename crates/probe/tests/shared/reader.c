/* Reads a clock page as a C program does.
 *   reader convert PAGE TICKS...   prints the line at each of the ticks, or "none"
 *   reader live PAGE COUNT         reads in brackets of the system's clock; prints: first ns, last ns, fell, beyond their bound, mode
 *   reader turns PAGE              for each line of its input: "at TICKS" is converted as above; any other is answered with
 *                                  ns, bound of its error, mode, epoch, wall clock, ordered ticks (0 where it reads no counter)
 */
#define _POSIX_C_SOURCE 200809L
#include "ogive_clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void convert_one(const og_clock *clock, const char *ticks)
{
    og_segment segment = og_load(clock, 1);
    uint64_t ns;
    segment.ticks = strtoull(ticks, NULL, 10);
    if (og_line(&segment, &ns)) {
        printf("%llu %lld\n", (unsigned long long)ns, (long long)(ns + segment.words[OG_S_WALL]));
    } else {
        printf("none\n");
    }
}

static int convert(const og_clock *clock, int count, char **ticks)
{
    int at;
    for (at = 0; at < count; at++) {
        convert_one(clock, ticks[at]);
    }
    return 0;
}

static int turns(const og_clock *clock)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "at ", 3) == 0) {
            convert_one(clock, line + 3);
        } else {
            og_clock_bounded bounded = og_clock_now_bounded(clock);
            printf("%llu %llu %u %u %lld %llu\n", (unsigned long long)bounded.ns, (unsigned long long)bounded.err_ns, bounded.mode,
                bounded.epoch, (long long)og_clock_wall(clock), (unsigned long long)og_clock_ticks_ordered(clock));
        }
        fflush(stdout);
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
    if (count < 3) {
        return 2;
    }
    error = og_clock_open(&clock, words[2]);
    if (error != 0) {
        fprintf(stderr, "cannot open %s: %s\n", words[2], strerror(error));
        if (strcmp(words[1], "live") != 0) {
            return 1;
        }
    }
    if (strcmp(words[1], "turns") == 0) {
        error = turns(&clock);
    } else if (strcmp(words[1], "live") == 0 && count > 3) {
        error = live(&clock, atol(words[3]));
    } else {
        error = convert(&clock, count - 3, words + 3);
    }
    og_clock_close(&clock);
    return error;
}
