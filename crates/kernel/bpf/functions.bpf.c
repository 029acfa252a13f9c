/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of functions of a process, each counted: those from another file of the process and those from its own. One program is
 * attached to all of them at once; the cookie says which function it is.
 */
#include "kernel.h"

/* Where a function is in its file's addresses, and which of them the file has. */
struct function {
	u64 address, low, high;
};
struct count {
	u64 outside, inside;
};
/* The registers of a user's program at a probe, as far as they are read. */
struct user_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

ARRAY(functions, 1, struct function);
PERCPU_ARRAY(counts, 1, struct count);
/* Calls whose caller could not be read: the top of the stack was not in memory. */
ARRAY(unknown_callers, 1, u64);

SEC("uprobe.multi")
int on_function(struct user_regs *ctx)
{
	u32 index = attach_cookie(ctx);
	struct function *function = map_lookup(&functions, &index);
	struct count *count = map_lookup(&counts, &index);
	u64 caller = 0;
	if (!function || !count)
		return 0;
	/* What a call leaves on the top of the stack, and at which distance the file is from its own addresses. */
	if (read_user(&caller, sizeof(caller), (void *)ctx->sp))
		count_one(&unknown_callers, 0);
	u64 begin = ctx->ip - function->address;
	bool is_inside = caller - begin >= function->low && caller - begin < function->high;
	__sync_fetch_and_add(is_inside ? &count->inside : &count->outside, 1);
	return 0;
}

LICENSE;
