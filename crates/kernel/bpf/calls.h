/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * System calls: each counted, with its errors, its time and a histogram in the bins of Ogive. What is counted is per CPU,
 * and histograms are shared by some CPUs.
 */
#ifndef OGIVE_CALLS_H
#define OGIVE_CALLS_H

#include "kernel.h"
#include "bins.h"
#include "watch.h"

#define CALLS_MAX 512

/* Those that never return: exit and exit_group. x86-64's numbers. */
INLINE bool is_end(s64 call)
{
	return call == 60 || call == 231;
}

struct call {
	u64 count, errors, time;
};
/* What is known of the system call that a task is in. */
struct in_call {
	/* For `calls`: when it began, until it returns. */
	u64 began;
	/* For herds: when it began, of a futex, and how many it woke. */
	u64 call_at;
	u32 woken;
	/* For microstates: the slot of the thread, in a call or not. */
	u32 thread;
};

PERCPU_ARRAY(calls, CALLS_MAX, struct call);
ARRAY(call_histograms, 1, struct bins);

/* Counted where it begins, so that one that never returns is there. */
INLINE void call_begins(u32 number)
{
	struct call *call = map_lookup(&calls, &number);
	if (call)
		__sync_fetch_and_add(&call->count, 1);
}

INLINE void call_returns(u32 number, s64 result, u64 took)
{
	struct call *call = map_lookup(&calls, &number);
	if (!call || number >= CALLS_MAX)
		return;
	if (result < 0 && result >= -4095)
		__sync_fetch_and_add(&call->errors, 1);
	__sync_fetch_and_add(&call->time, took);
	u32 index = (this_cpu() & config.shard_mask) * CALLS_MAX + number;
	struct bins *bins = map_lookup(&call_histograms, &index);
	if (bins)
		__sync_fetch_and_add(&bins->count[bin_of(took)], 1);
}

#endif
