/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * System calls: each counted, with its errors, its time and a histogram in the bins of Ogive. A thread's call that goes
 * on is in the task's own storage; what is counted is per CPU, and histograms are shared by some CPUs.
 */
#include "kernel.h"
#include "bins.h"
#include "watch.h"

#define CALLS 512

struct call {
	u64 count, errors, time;
};
struct thread {
	u64 began;
	u32 is_active, has_begun;
};

TASK_STORAGE(threads, struct thread);
PERCPU_ARRAY(calls, CALLS, struct call);
ARRAY(histograms, CALLS, struct bins);

INLINE struct thread *thread_of(struct task_struct *task)
{
	if (config.filter == COMMAND) {
		struct thread *thread = storage_get(&threads, task, 0, 0);
		return thread && thread->is_active ? thread : 0;
	}
	return is_watched(task) ? storage_get(&threads, task, 0, STORAGE_CREATE) : 0;
}

SEC("tp_btf/sys_enter")
int on_call(u64 *ctx)
{
	struct thread *thread = thread_of(current_task());
	if (!thread)
		return 0;
	u32 number = ctx[1];
	struct call *call = map_lookup(&calls, &number);
	/* Counted where it begins, so that one that never returns is there. */
	if (call)
		__sync_fetch_and_add(&call->count, 1);
	thread->has_begun = 1;
	thread->began = clock_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int on_return(u64 *ctx)
{
	/* One that has begun was observed at its beginning. */
	struct thread *thread = storage_get(&threads, current_task(), 0, 0);
	if (!thread || !thread->has_begun)
		return 0;
	u64 took = clock_ns() - thread->began;
	thread->has_begun = 0;
	struct pt_regs *registers = (void *)ctx[0];
	u32 number = registers->orig_ax;
	s64 result = ctx[1];
	struct call *call = map_lookup(&calls, &number);
	if (!call || number >= CALLS)
		return 0;
	if (result < 0 && result >= -4095)
		__sync_fetch_and_add(&call->errors, 1);
	__sync_fetch_and_add(&call->time, took);
	u32 index = (this_cpu() & config.shard_mask) * CALLS + number;
	struct bins *bins = map_lookup(&histograms, &index);
	if (bins)
		__sync_fetch_and_add(&bins->count[bin_of(took)], 1);
	return 0;
}

/* With COMMAND: children of one thread of the observer from their exec on, and theirs. */
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct thread *thread = storage_get(&threads, parent, 0, 0);
	bool is_active = thread && thread->is_active;
	/* A new thread of the observer is no child. */
	if (!is_active && (parent->pid != (s32)config.tgid || child->tgid == parent->tgid))
		return 0;
	thread = storage_get(&threads, child, 0, STORAGE_CREATE);
	if (thread)
		thread->is_active = is_active;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct thread *thread = storage_get(&threads, (struct task_struct *)ctx[0], 0, 0);
	if (thread)
		thread->is_active = 1;
	return 0;
}

LICENSE;
