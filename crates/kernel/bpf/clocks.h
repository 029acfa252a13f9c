/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two clocks. Ours, `clock_ns`, is that of user space; a reading takes 50 ns. The scheduler's has just been read at each
 * event of a CPU's queue, and a look at it takes a tenth of that: so the scheduler's histograms are by that one. Of
 * microstates, events of the queue are by that one as well, and by the difference of both, which is taken again after a
 * millisecond: until then they drift apart by half a microsecond at most, where a clock is being set.
 *
 * Some events are not shown to programs: a kernel may run none in the context of a task that it protects, such as process
 * 1 of some virtual machines, whose switch to another is the beginning of a slice of that other. The scheduler's notes
 * of a task, by its clock, say when it was ready and when it ran. A kernel without CONFIG_FAIR_GROUP_SCHED has no way to
 * the clock itself: ours takes its place, and the difference is guessed at events that are seen.
 */
#ifndef OGIVE_CLOCKS_H
#define OGIVE_CLOCKS_H

#include "kernel.h"

#define MILLISECOND 1000000

struct clocks {
	/* What our clock is above that of the scheduler, and when that was so. */
	u64 ahead, compared_at;
};
PERCPU_ARRAY(clocks, 1, struct clocks);

#define HAS_QUEUE_CLOCK(task) (HAS_FIELD(task->se.cfs_rq) && HAS_FIELD(task->se.cfs_rq->rq) && HAS_FIELD(task->se.cfs_rq->rq->cpu))

INLINE struct clocks *clocks_of(void)
{
	u32 zero = 0;
	return map_lookup(&clocks, &zero);
}

/* The scheduler's clock at an event of the queue of a task's CPU. */
INLINE u64 queue_clock(struct task_struct *task)
{
	return HAS_QUEUE_CLOCK(task) ? task->se.cfs_rq->rq->clock : clock_ns();
}

/* Our clock at such an event. */
INLINE u64 clock_at(struct task_struct *task)
{
	if (!HAS_QUEUE_CLOCK(task))
		return clock_ns();
	struct rq *queue = task->se.cfs_rq->rq;
	struct clocks *both = clocks_of();
	if (!both || queue->cpu != (s32)this_cpu())
		return clock_ns();
	u64 at = queue->clock;
	if (at - both->compared_at < MILLISECOND)
		return at + both->ahead;
	u64 now = clock_ns();
	both->ahead = now - at;
	both->compared_at = at;
	return now;
}

/* What the scheduler noted as `noted`, by the clock that has the place of its own; 0 where that is not known. */
INLINE u64 noted_at(struct task_struct *task, u64 noted)
{
	if (HAS_QUEUE_CLOCK(task) || !noted)
		return noted;
	struct clocks *both = clocks_of();
	return both && both->ahead ? noted + both->ahead : 0;
}

/* The same by our clock. */
INLINE u64 noted_by_ours(u64 noted)
{
	struct clocks *both = clocks_of();
	return noted && both && both->ahead ? noted + both->ahead : 0;
}

/* Of a task that is seen to leave, when it came by our clock: the scheduler noted that as well. */
INLINE void guess_difference(struct task_struct *task, u64 came_at)
{
	if (HAS_QUEUE_CLOCK(task) || !HAS_FIELD(task->sched_info))
		return;
	struct clocks *both = clocks_of();
	if (both && task->sched_info.last_arrival && came_at > task->sched_info.last_arrival)
		both->ahead = came_at - task->sched_info.last_arrival;
}

#endif
