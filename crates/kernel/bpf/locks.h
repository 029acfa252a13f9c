/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Waits within futex, which is where a contended mutex, a read-write lock, a condition or a semaphore of user space waits:
 * by address and place in the code, in the bins of Ogive, with who woke whom, and how long those that had waited held it.
 *
 * A place is the address with what the frame pointers lead to. It takes a slot from a queue that user space fills; without
 * one it counts in slot 0, `other`. A copy of the stack goes to user space when a slot is taken, to be unwound there.
 */
#ifndef OGIVE_LOCKS_H
#define OGIVE_LOCKS_H

#include "slots.h"
#include "snapshot.h"
#include "watch.h"

#define FRAMES 16
#define USER_STACK (1 << 8)
/* Locks that one thread holds at a time and has waited for; more overwrite the oldest. */
#define HOLDS 4

enum lock_kind { WAIT, HOLD, LOCK_KINDS };

struct lock {
	u64 sum[LOCK_KINDS];
	u64 timeouts;
};
struct place {
	u64 address;
	u32 tgid, frames;
};
struct pair {
	u32 slot, waiter, waker, reserved;
};
struct pair_sum {
	u64 count, waited;
	char waiter_comm[16], waker_comm[16];
};
struct held {
	u64 address, since;
	u32 slot, reserved;
};
struct locking {
	/* A wait that goes on. */
	u64 began, address;
	u32 by_tid, is_waking;
	char by_comm[16];
	u32 next_held, reserved;
	struct held held[HOLDS];
};

HASH(place_slots, 1, struct place, u32);
FREE_SLOTS(free_places);
ARRAY(lock_histograms, 1, struct bins);
ARRAY(locks, 1, struct lock);
HASH(pairs, 4096, struct pair, struct pair_sum);
/* Pairs and snapshots that found no room. */
ARRAY(lost_of_locks, 2, u64);

/* What a system call does with a futex. x86-64's numbers. */
enum use { NOTHING, TO_WAIT, TO_WAKE };

INLINE bool is_futex(s64 call)
{
	return call == 202 || (call >= 454 && call <= 456);
}

INLINE u32 use_of(s64 call, u64 operation)
{
	if (call == 455)
		return TO_WAIT;
	if (call == 454 || call == 456)
		return TO_WAKE;
	if (call != 202)
		return NOTHING;
	switch (operation & 127) {
	case 0: case 6: case 9: case 11: case 13: /* WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2 */
		return TO_WAIT;
	case 1: case 3: case 4: case 5: case 7: case 10: case 12: /* WAKE, REQUEUEs, WAKE_OP, UNLOCK_PI, WAKE_BITSET */
		return TO_WAKE;
	}
	return NOTHING;
}

INLINE void count_lock(u32 slot, u32 kind, u64 took)
{
	u32 index = slot * LOCK_KINDS + kind;
	struct bins *bins = map_lookup(&lock_histograms, &index);
	struct lock *lock = map_lookup(&locks, &slot);
	if (!bins || !lock || kind >= LOCK_KINDS)
		return;
	__sync_fetch_and_add(&bins->count[bin_of(took)], 1);
	__sync_fetch_and_add(&lock->sum[kind], took);
}

/* The end of holding what was waited for. */
INLINE void releases(struct locking *thread, u64 address, u64 now, u64 since)
{
#pragma clang loop unroll(full)
	for (int at = 0; at < HOLDS; at++) {
		struct held *held = &thread->held[at];
		if (held->since && held->address == address) {
			if (held->since >= since)
				count_lock(held->slot, HOLD, now - held->since);
			held->since = 0;
		}
	}
}

/* A system call of futex begins. */
INLINE void futex_begins(struct locking *thread, u32 use, u64 address, u64 now, u64 since)
{
	thread->is_waking = use == TO_WAKE;
	if (use == TO_WAKE) {
		releases(thread, address, now, since);
		return;
	}
	/* Another was quicker the last time, and it never had it. */
#pragma clang loop unroll(full)
	for (int at = 0; at < HOLDS; at++)
		if (thread->held[at].address == address)
			thread->held[at].since = 0;
	thread->address = address;
	thread->by_tid = 0;
	thread->began = now;
}

/* A task that is in a system call of futex wakes another that may wait in one. */
INLINE void notes_waker(struct task_struct *waker, struct locking *thread)
{
	if (!thread->began)
		return;
	thread->by_tid = waker->pid;
	read_kernel(thread->by_comm, sizeof(thread->by_comm), waker->comm);
}

/* The slot of an address and the frames that lead there. */
INLINE u32 slot_of(u64 *ctx, struct task_struct *task, struct pt_regs *registers, u64 address)
{
	u64 frames[FRAMES] = {};
	long length = user_stack(ctx, frames, sizeof(frames), USER_STACK);
	u64 hash = 0xcbf29ce484222325ull;
#pragma clang loop unroll(full)
	for (int at = 0; at < FRAMES; at++)
		if (length > at * 8)
			hash = (hash ^ frames[at]) * 0x100000001b3ull;
	struct place place = { .address = address, .tgid = task->tgid, .frames = (u32)(hash ^ (hash >> 32)) };
	u32 is_new = 0, slot = slot_in(&place_slots, &free_places, &place, &is_new);
	if (is_new && !send_stack(registers, slot, current_ids()))
		count_one(&lost_of_locks, 1);
	return slot;
}

INLINE void count_pair(struct task_struct *task, struct locking *thread, u32 slot, u64 took)
{
	struct pair pair = { .slot = slot, .waiter = task->pid, .waker = thread->by_tid };
	struct pair_sum *sum = map_lookup(&pairs, &pair);
	if (!sum) {
		struct pair_sum first = {};
		read_kernel(first.waiter_comm, sizeof(first.waiter_comm), task->comm);
		__builtin_memcpy(first.waker_comm, thread->by_comm, sizeof(first.waker_comm));
		map_update(&pairs, &pair, &first, NOEXIST);
		sum = map_lookup(&pairs, &pair);
	}
	if (!sum) {
		count_one(&lost_of_locks, 0);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->waited, took);
}

/* A system call of futex returns. */
INLINE void futex_returns(u64 *ctx, struct task_struct *task, struct locking *thread, u64 now, u64 since)
{
	thread->is_waking = 0;
	u64 began = thread->began;
	thread->began = 0;
	s64 result = ctx[1];
	/* The value had changed before anything waited: EAGAIN. */
	if (began < since || began == 0 || result == -11)
		return;
	struct pt_regs *registers = (void *)ctx[0];
	u64 took = now - began;
	u32 slot = slot_of(ctx, task, registers, thread->address);
	count_lock(slot, WAIT, took);
	if (result == -110) {
		struct lock *lock = map_lookup(&locks, &slot);
		if (lock)
			__sync_fetch_and_add(&lock->timeouts, 1);
	}
	if (result < 0)
		return;
	if (thread->by_tid)
		count_pair(task, thread, slot, took);
	struct held *held = &thread->held[thread->next_held++ & (HOLDS - 1)];
	held->address = thread->address;
	held->slot = slot;
	held->since = now;
}

#endif
