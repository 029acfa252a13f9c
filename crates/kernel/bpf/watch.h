/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which tasks are observed, and what one waits for. Configured before the programs are loaded, and constant from then on. */
#ifndef OGIVE_WATCH_H
#define OGIVE_WATCH_H

#include "kernel.h"

enum filter { EVERY_TASK, PROCESS, COMM, CGROUP, COMMAND };
/* What programs of tasks observe; stacks of herds are an addition to herds. */
enum part { SCHED = 1, HERDS = 2, MICRO = 4, CALLS = 8, LOCKS = 16, HERD_STACKS = 32 };
enum grouping { BY_PROCESS, BY_THREAD, BY_CGROUP };

/* Byte for byte what `filter.rs` writes. */
struct config {
	u32 filter;
	/* The process; with COMMAND, the thread whose children are observed from their exec on. */
	u32 tgid;
	u64 cgroup;
	/* The name, and which of its bytes count: those up to the zero byte at its end. */
	u64 comm[2], comm_mask[2];
	u32 grouping;
	u32 herd_min;
	/* Parts of the histograms of calls, less one: CPUs share one when there are more. */
	u32 shard_mask;
	/* Bits of `enum part`: what else there is of these programs is removed while they are loaded. */
	u32 parts;
};
const volatile struct config config SEC(".rodata.config") = {};

INLINE u64 cgroup_of(struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->kn->id;
}

/* As two numbers that are fields of the task: without a helper or a loop, in each event of an observer by name. */
INLINE bool has_comm(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	u64 differs = (*(u64 *)&leader->comm[0] & config.comm_mask[0]) ^ config.comm[0];
	differs |= (*(u64 *)&leader->comm[8] & config.comm_mask[1]) ^ config.comm[1];
	return differs == 0;
}

/* Whether a task is observed; one without a storage is not, when COMMAND. */
INLINE bool is_watched(struct task_struct *task)
{
	switch (config.filter) {
	case EVERY_TASK:
		return task->pid != 0;
	case PROCESS:
		return task->tgid == (s32)config.tgid;
	case COMM:
		return task->pid != 0 && has_comm(task);
	case CGROUP:
		return task->pid != 0 && cgroup_of(task) == config.cgroup;
	default:
		return 0;
	}
}

#define HAS(part) ((config.parts & (part)) != 0)

/* The system call that a task is in, or below zero. A task that the kernel runs for itself is in none. */
INLINE s64 call_of(struct task_struct *task)
{
	if (task->flags & KERNEL_THREAD)
		return -1;
	struct pt_regs *registers = registers_of(task);
	return registers ? (s64)registers->orig_ax : -1;
}

/* What a task that gives up the CPU waits for. */
enum cause { LOCK, DISK, NETWORK, SLEEP, PIPE, CHILD, STOP, OTHER, CAUSES };

/* By its state, and the system call that it is in. */
INLINE u32 cause_of(u32 state, s64 call)
{
	if (state & STATE_STOPPED)
		return STOP;
	/* An uninterruptible wait within futex is none of a disk. x86-64's numbers. */
	switch (call) {
	case 202: case 449: case 454: case 455: case 456: /* futex and its kin */
		return LOCK;
	}
	if (state & STATE_UNINTERRUPTIBLE)
		return DISK;
	switch (call) {
	case 35: case 230: case 34: /* nanosleep, clock_nanosleep, pause */
		return SLEEP;
	case 7: case 23: case 232: case 270: case 271: case 281: case 441: /* poll, select, epoll and theirs */
	case 42: case 43: case 44: case 45: case 46: case 47: case 288: case 299: case 307: /* sockets */
		return NETWORK;
	case 0: case 1: case 17: case 18: case 19: case 20: case 295: case 296: /* read, write: a pipe, a terminal, a socket */
		return PIPE;
	case 61: case 247: /* wait4, waitid */
		return CHILD;
	}
	return OTHER;
}

#endif
