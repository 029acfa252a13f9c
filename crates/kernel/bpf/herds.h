/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Herds: wake-ups within one system call of one thread. */
#ifndef OGIVE_HERDS_H
#define OGIVE_HERDS_H

#include "calls.h"
#include "snapshot.h"
#include "watch.h"

struct herd {
	u64 took;
	s64 call;
	u32 tid, tgid, woken, number;
	char comm[16];
};

RING(herds, 65536);
ARRAY(lost_herds, 1, u64);
/* By which a herd and its snapshot know each other. */
ARRAY(herd_numbers, 1, u64);

/*
 * Whether a wake-up is one that the system call `call` of `waker` asked for. An interrupt in the midst of it wakes others:
 * threads of the kernel, and those whose time is over. Futexes that processes share are rare. The end of a process wakes
 * its threads, and does not return.
 */
INLINE bool is_of_herd(struct task_struct *waker, s64 call, struct task_struct *woken)
{
	s64 of_woken = call_of(woken);
	if (of_woken < 0 || is_end(call))
		return 0;
	return call != 202 || (of_woken == 202 && woken->tgid == waker->tgid);
}

INLINE void send_herd(struct pt_regs *registers, struct in_call *call)
{
	struct task_struct *task = current_task();
	struct herd herd = { .call = registers->orig_ax, .tid = task->pid, .tgid = task->tgid, .woken = call->woken };
	herd.took = call->call_at ? clock_ns() - call->call_at : 0;
	read_kernel(herd.comm, sizeof(herd.comm), task->comm);
	u32 zero = 0;
	u64 *numbers = map_lookup(&herd_numbers, &zero);
	if (numbers)
		herd.number = (u32)__sync_fetch_and_add(numbers, 1);
	if (ring_output(&herds, &herd, sizeof(herd), 0))
		count_one(&lost_herds, 0);
	else if (HAS(HERD_STACKS))
		send_stack(registers, herd.number, current_ids());
}

#endif
