/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies of user stacks, with the registers from which user space unwinds them. */
#ifndef OGIVE_SNAPSHOT_H
#define OGIVE_SNAPSHOT_H

#include "kernel.h"

#define STACK_BYTES 8192

struct snapshot {
	u32 number, tgid, tid, length;
	u64 ip, sp, bp;
	char stack[STACK_BYTES];
};
/* User space makes it smaller than a snapshot where it wants none. */
RING(snapshots, 1 << 20);

/* Sends the stack of the current task under a number; false when there is no room. */
static __attribute__((noinline)) int send_stack(struct pt_regs *registers, u32 number, u64 ids)
{
	struct snapshot *snapshot = ring_reserve(&snapshots, sizeof(struct snapshot), 0);
	if (!snapshot)
		return 0;
	snapshot->number = number;
	snapshot->tgid = ids >> 32;
	snapshot->tid = (u32)ids;
	snapshot->ip = registers->ip;
	snapshot->sp = registers->sp;
	snapshot->bp = registers->bp;
	/* The stack may end before. */
	snapshot->length = STACK_BYTES;
	if (read_user(snapshot->stack, STACK_BYTES, (void *)snapshot->sp)) {
		snapshot->length = STACK_BYTES / 4;
		if (read_user(snapshot->stack, STACK_BYTES / 4, (void *)snapshot->sp)) {
			snapshot->length = STACK_BYTES / 16;
			if (read_user(snapshot->stack, STACK_BYTES / 16, (void *)snapshot->sp))
				snapshot->length = 0;
		}
	}
	ring_submit(snapshot, 0);
	return 1;
}

#endif
