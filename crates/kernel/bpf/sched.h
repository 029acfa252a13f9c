/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The scheduler, by process, thread or cgroup: how long who was ready waits, runs and stays away, in the bins of Ogive.
 *
 * Time is that of the scheduler's own clock. Where an event is not shown, its notes fill the gap: see `clocks.h`.
 *
 * A group takes a slot from a queue that user space fills; without one it counts in slot 0, `other`. A histogram is
 * one value of an array, so that one read takes all of its bins.
 */
#ifndef OGIVE_SCHED_H
#define OGIVE_SCHED_H

#include "clocks.h"
#include "slots.h"
#include "watch.h"

/*
 * Histograms of a slot, after which come those of the causes. Waits for a CPU of those that were woken and of those that
 * were preempted are counted apart: each wait once.
 */
enum kind { PREEMPTED, WOKEN, SLICE, OFF_CPU, KINDS = OFF_CPU + CAUSES };

/* The longest wait on the run queue since user space looked. */
struct worst {
	u64 waited;
	u32 tid, by_tid, cpu, reserved;
	char comm[16], by_comm[16];
};
struct group {
	u64 sum[KINDS];
	u64 voluntary, involuntary, migrations, wake_ups;
};
struct group_key {
	u64 id;
};
struct slot_name {
	u64 id;
	char comm[16];
};
struct scheduled {
	u64 ready_at, running_at, away_at;
	/* What the scheduler had noted of its waits when it was seen last. */
	u64 run_delay;
	u32 slot, is_woken, cause, cpu, has_slot, is_known;
	/* `is_midway`: `running_at` is later than when it came. */
	u32 by_tid, is_midway;
	char by_comm[16];
};

HASH(group_slots, 1, struct group_key, u32);
FREE_SLOTS(free_groups);
ARRAY(group_histograms, 1, struct bins);
ARRAY(groups, 1, struct group);
/* User space writes zeros over what it has read. */
ARRAY(worsts, 1, struct worst);
ARRAY(names, 1, struct slot_name);
/* Switches and wake-ups that were not shown and are known by the scheduler's notes. */
ARRAY(unseen, 1, u64);

/* The clocks of two CPUs may differ. */
INLINE u64 between(u64 from, u64 to)
{
	return to > from ? to - from : 0;
}

INLINE void add(u64 *counter, u64 more)
{
	__sync_fetch_and_add(counter, more);
}

/* Counts a duration in histogram `kind` of a slot. */
INLINE void count_time(u32 slot, struct group *group, u32 kind, u64 took)
{
	u32 index = slot * KINDS + kind;
	struct bins *bins = map_lookup(&group_histograms, &index);
	if (!bins || kind >= KINDS)
		return;
	__sync_fetch_and_add(&bins->count[bin_of(took)], 1);
	add(&group->sum[kind], took);
}

INLINE u64 group_id(struct task_struct *task)
{
	if (config.grouping == BY_THREAD)
		return task->pid;
	return config.grouping == BY_CGROUP ? cgroup_of(task) : task->tgid;
}

INLINE void name_slot(struct task_struct *task, u64 id, u32 slot)
{
	struct slot_name *name = map_lookup(&names, &slot);
	if (!name || slot == 0)
		return;
	name->id = id;
	if (config.grouping == BY_THREAD)
		read_kernel(name->comm, sizeof(name->comm), task->comm);
	else
		read_kernel(name->comm, sizeof(name->comm), task->group_leader->comm);
}

/* The slot of a task's group, taken from the queue when the group is new. */
static __attribute__((noinline)) u32 take_slot(u64 id, u32 *is_new)
{
	struct group_key key = { .id = id };
	return slot_in(&group_slots, &free_groups, &key, is_new);
}

/* The counters of a task's group. Without a slot it looks for one again the next time. */
INLINE struct group *group_of(struct task_struct *task, struct scheduled *thread)
{
	if (!thread->has_slot) {
		u32 is_new = 0;
		u64 id = group_id(task);
		thread->slot = take_slot(id, &is_new);
		thread->has_slot = thread->slot != 0;
		if (is_new)
			name_slot(task, id, thread->slot);
	}
	return map_lookup(&groups, &thread->slot);
}

/* It waited for something, and is ready now. */
INLINE void ends_wait(struct scheduled *thread, struct group *group, u64 now)
{
	add(&group->wake_ups, 1);
	if (thread->away_at && thread->cause < CAUSES)
		count_time(thread->slot, group, OFF_CPU + thread->cause, between(thread->away_at, now));
	thread->away_at = 0;
	thread->is_woken = 1;
	thread->ready_at = now;
}

/* A task that leaves and was not seen to come: when it came, and how long it was ready before, are the scheduler's notes. */
INLINE void came_unseen(struct task_struct *task, struct scheduled *thread, struct group *group, u64 now)
{
	/* What it did before it was observed is in no histogram. */
	if (!thread->is_known || !HAS_FIELD(task->sched_info))
		return;
	u64 running_at = noted_at(task, task->sched_info.last_arrival);
	if (!running_at)
		return;
	u64 waited = task->sched_info.run_delay - thread->run_delay;
	/* Where the difference of the clocks is not exact, a slice of microseconds may seem to begin after its end. */
	if (running_at > now)
		running_at = now;
	if (waited > running_at)
		return;
	count_one(&unseen, 0);
	if (thread->cpu && thread->cpu != this_cpu() + 1)
		add(&group->migrations, 1);
	if (!thread->ready_at)
		ends_wait(thread, group, running_at - waited);
	thread->ready_at = 0;
	thread->away_at = 0;
	thread->running_at = running_at;
	count_time(thread->slot, group, thread->is_woken ? WOKEN : PREEMPTED, waited);
}

/* A task that runs has just got the name by which it is observed: its slice counts from now on. */
INLINE void begins_midway(struct task_struct *task, struct scheduled *thread, u64 now)
{
	if (thread->is_known || thread->running_at)
		return;
	thread->running_at = now;
	thread->is_midway = 1;
	thread->is_known = 1;
	thread->cpu = this_cpu() + 1;
	if (HAS_FIELD(task->sched_info))
		thread->run_delay = task->sched_info.run_delay;
}

INLINE void leaves(struct task_struct *task, struct scheduled *thread, struct task_struct *next, u32 state, bool preempt,
		   s64 call, u64 now)
{
	struct group *group = group_of(task, thread);
	if (!group)
		return;
	if (!thread->running_at)
		came_unseen(task, thread, group, now);
	else if (!thread->is_midway)
		guess_difference(task, thread->running_at);
	thread->is_midway = 0;
	if (thread->running_at)
		count_time(thread->slot, group, SLICE, between(thread->running_at, now));
	thread->running_at = 0;
	if (HAS_FIELD(task->sched_info))
		thread->run_delay = task->sched_info.run_delay;
	thread->is_known = 1;
	thread->cpu = this_cpu() + 1;
	if (preempt || state == 0) {
		thread->ready_at = now;
		thread->is_woken = 0;
		thread->by_tid = next->pid;
		read_kernel(thread->by_comm, sizeof(thread->by_comm), next->comm);
		add(&group->involuntary, 1);
		return;
	}
	add(&group->voluntary, 1);
	if (!(state & STATE_DEAD)) {
		thread->away_at = now;
		thread->cause = cause_of(state, call);
	}
}

/* A task that comes and was not seen to be woken. */
INLINE void was_woken_unseen(struct task_struct *task, struct scheduled *thread, struct group *group, u64 now)
{
	if (!HAS_FIELD(task->sched_info))
		return;
	u64 ready_at = noted_at(task, task->sched_info.last_queued);
	if (!ready_at)
		return;
	count_one(&unseen, 0);
	/* Where the difference of the clocks is not exact. */
	ends_wait(thread, group, ready_at < now ? ready_at : now);
}

INLINE void note_worst(struct task_struct *task, struct scheduled *thread, struct task_struct *prev, u64 waited)
{
	struct worst *worst = map_lookup(&worsts, &thread->slot);
	if (!worst || waited <= worst->waited)
		return;
	/* Two at a time may mix their names: it is a hint for people, and no count. */
	worst->waited = waited;
	worst->tid = task->pid;
	worst->cpu = thread->cpu - 1;
	read_kernel(worst->comm, sizeof(worst->comm), task->comm);
	/* Who was woken waited for the one that had the CPU until now. */
	if (thread->is_woken) {
		worst->by_tid = prev->pid;
		read_kernel(worst->by_comm, sizeof(worst->by_comm), prev->comm);
	} else {
		worst->by_tid = thread->by_tid;
		__builtin_memcpy(worst->by_comm, thread->by_comm, sizeof(thread->by_comm));
	}
}

INLINE void comes(struct task_struct *task, struct scheduled *thread, struct task_struct *prev, u64 now)
{
	struct group *group = group_of(task, thread);
	if (!group)
		return;
	u32 cpu = this_cpu() + 1;
	if (thread->cpu && thread->cpu != cpu)
		add(&group->migrations, 1);
	thread->cpu = cpu;
	thread->running_at = now;
	if (thread->is_known && !thread->ready_at)
		was_woken_unseen(task, thread, group, now);
	thread->is_known = 1;
	thread->away_at = 0;
	u64 ready_at = thread->ready_at;
	thread->ready_at = 0;
	if (!ready_at)
		return;
	u64 waited = between(ready_at, now);
	count_time(thread->slot, group, thread->is_woken ? WOKEN : PREEMPTED, waited);
	note_worst(task, thread, prev, waited);
}

INLINE void is_woken(struct task_struct *task, struct scheduled *thread)
{
	/* One that is still on its CPU, or ready already, has nothing to wait for. */
	if (thread->running_at || thread->ready_at)
		return;
	if (!thread->is_known && !task->on_cpu && HAS_FIELD(task->sched_info)) {
		thread->run_delay = task->sched_info.run_delay;
		thread->is_known = 1;
	}
	struct group *group = group_of(task, thread);
	if (group)
		ends_wait(thread, group, queue_clock(task));
}

#endif
