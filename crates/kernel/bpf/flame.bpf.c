/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stacks: of those on a CPU at the ticks of a clock, or of those that leave it, with the time until they are back.
 * Each kind is counted by process, name of the thread, and both halves of the stack. A stack that finds its place in the map
 * taken is counted without frames: the sums stay exact.
 */
#include "kernel.h"
#include "watch.h"

#define USER_STACK (1 << 8)
#define MAP_STACK_TRACE 7
#define FRAMES 127
#define NO_STACK -1

struct place {
	u32 tgid;
	s32 user, kernel;
	u32 reserved;
	char comm[16];
};
struct away {
	/* When it went, until it is back; and when it came. */
	u64 since, came_at;
	struct place place;
};

struct {
	NUMBER(type, MAP_STACK_TRACE);
	NUMBER(max_entries, 16384);
	NUMBER(key_size, sizeof(u32));
	NUMBER(value_size, FRAMES * sizeof(u64));
} stacks SEC(".maps");

HASH(places, 16384, struct place, u64);

/* What found no room in `places`, as a number of its own: samples, or nanoseconds. */
ARRAY(lost, 1, u64);

TASK_STORAGE(aways, struct away);

/* How far our clock is ahead of the scheduler's, by CPU. */
PERCPU_ARRAY(clocks, 1, u64);

static s32 (*const stack_id)(void *context, void *map, u64 flags) = (void *)27;

INLINE void find_place(void *ctx, struct task_struct *task, struct place *place)
{
	place->tgid = task->tgid;
	place->kernel = stack_id(ctx, &stacks, 0);
	/* A thread of the kernel has no other half. */
	place->user = task->flags & KERNEL_THREAD ? NO_STACK : stack_id(ctx, &stacks, USER_STACK);
	read_kernel(place->comm, sizeof(place->comm), task->comm);
}

INLINE void count(struct place *place, u64 value)
{
	u64 *known = map_lookup(&places, place);
	if (!known) {
		u64 zero = 0;
		map_update(&places, place, &zero, NOEXIST);
		known = map_lookup(&places, place);
	}
	u32 only = 0;
	if (!known)
		known = map_lookup(&lost, &only);
	if (known)
		__sync_fetch_and_add(known, value);
}

SEC("perf_event")
int on_tick(void *ctx)
{
	struct task_struct *task = current_task();
	if (!is_watched(task))
		return 0;
	struct place place = {};
	find_place(ctx, task, &place);
	count(&place, 1);
	return 0;
}

/*
 * A task that leaves and was not seen to come: some kernels run no program in the context of process 1, and so not when
 * another follows it. The scheduler has noted when it came.
 */
INLINE void came_unseen(struct task_struct *task, struct away *away, u64 ahead, u64 now)
{
	u64 came_at = task->sched_info.last_arrival + ahead;
	struct place place = away->place;
	if (ahead && came_at > away->since && came_at <= now)
		count(&place, came_at - away->since);
	away->since = 0;
}

INLINE void leaves(struct task_struct *task, struct away *away, u64 now)
{
	u32 only = 0;
	u64 *ahead = map_lookup(&clocks, &only);
	if (!ahead || !HAS_FIELD(task->sched_info))
		return;
	u64 noted = task->sched_info.last_arrival;
	if (away->since)
		came_unseen(task, away, *ahead, now);
	else if (noted && away->came_at > noted)
		*ahead = away->came_at - noted;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3];
	u64 now = clock_ns();
	struct away *away = storage_get(&aways, prev, 0, 0);
	if (away)
		leaves(prev, away, now);
	/* One that could go on is not away, it is ready: run-queue latency. */
	if (!preempt && state != 0 && !(state & STATE_DEAD) && is_watched(prev)) {
		if (!away)
			away = storage_get(&aways, prev, 0, STORAGE_CREATE);
		if (away) {
			find_place(ctx, prev, &away->place);
			away->since = now;
		}
	}
	struct away *back = storage_get(&aways, next, 0, 0);
	if (!back)
		return 0;
	back->came_at = now;
	u64 since = back->since;
	if (since) {
		back->since = 0;
		struct place place = back->place;
		if (now > since)
			count(&place, now - since);
	}
	return 0;
}

LICENSE;
