/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What tasks do: one program at each event for all parts that want it. Every program at an event costs the kernel some
 * 70 ns before its first instruction, a reading of the clock 50 ns and a look-up of the task 20 ns: parts that are
 * observed together share them. Code of parts that are not is removed while the programs are loaded; a part can be switched
 * off for a while.
 */
#include "calls.h"
#include "herds.h"
#include "interrupts.h"
#include "locks.h"
#include "micro.h"
#include "sched.h"
#include "watch.h"

/* From when on each part is observed, by the clock of programs: what began before is not counted. OFF while it is not. */
#define OFF (~0ull)
struct since {
	u64 sched, herds, micro, calls, locks;
};
volatile struct since since SEC(".data.since") = { OFF, OFF, OFF, OFF, OFF };

#define IS_ON(part, field) (HAS(part) && since.field != OFF)

struct task {
	struct scheduled scheduled;
	struct slot_of_micro micro;
	struct locking locking;
	/* Of one that has no entry of its own in `in_calls`. */
	struct in_call call;
	/* With COMMAND. */
	u32 is_active, reserved;
};
TASK_STORAGE(tasks, struct task);

/*
 * System calls by where the kernel has the registers of the task that makes them: at the top of its stack. So neither the
 * beginning nor the return of a call looks for the task. Stacks are 16 KiB or more apart. The first task keeps the
 * entry, which the next one on that stack inherits: an end of a call is never counted for another task, since each
 * call that returns is seen to. A task whose entry another has uses its storage.
 */
#define STACK_SHIFT 14
#define IN_CALLS 32768
struct owned_call {
	u64 owner;
	struct in_call call;
	/* A cache line. */
	u64 unused[4];
};
ARRAY(in_calls, IN_CALLS, struct owned_call);

INLINE struct owned_call *entry_of(u64 registers)
{
	/* Half a pointer is a number, with which the verifier lets us calculate. */
	u32 low;
	__asm__ volatile("%0 = %1" : "=w"(low) : "w"((u32)registers));
	u32 index = (low >> STACK_SHIFT) & (IN_CALLS - 1);
	return map_lookup(&in_calls, &index);
}

INLINE bool takes(struct owned_call *entry, u64 registers)
{
	return entry->owner == registers ||
	       (entry->owner == 0 && __sync_val_compare_and_swap(&entry->owner, 0, registers) == 0);
}

/* Of the task that runs. */
INLINE struct in_call *in_call_of(u64 registers, bool create)
{
	struct owned_call *entry = entry_of(registers);
	if (!entry || (entry->owner == 0 && !create))
		return 0;
	if (takes(entry, registers))
		return &entry->call;
	struct task *task = storage_get(&tasks, current_task(), 0, create ? STORAGE_CREATE : 0);
	if (!task)
		return 0;
	/* The compiler adds no offset before the comparison. */
	BARRIER();
	return &task->call;
}

/* A task is seen for the first time: from now on its calls find its microstates. */
static __attribute__((noinline)) int is_first_seen(struct task_struct *task, struct task *known)
{
	u64 registers = task->flags & KERNEL_THREAD ? 0 : (u64)registers_of(task);
	if (!begins(task, &known->micro, registers))
		return 0;
	struct owned_call *entry = registers ? entry_of(registers) : 0;
	if (entry && takes(entry, registers))
		entry->call.thread = known->micro.slot;
	else
		known->call.thread = known->micro.slot;
	return 1;
}

/* The microstates of a task that is known, seen for the first time where they were not since the part is on. */
INLINE struct micro *micro_of(struct task_struct *task, struct task *known, bool is_watched)
{
	struct micro *micro = seen_micro(&known->micro, since.micro);
	if (micro || !is_watched || !is_first_seen(task, known))
		return micro;
	return seen_micro(&known->micro, since.micro);
}

INLINE bool is_active(struct task_struct *task)
{
	struct task *known = storage_get(&tasks, task, 0, 0);
	return known && known->is_active;
}

/* What is known of a task that is watched; of others, microstates go on where the name has changed. */
INLINE struct task *task_of(struct task_struct *task, bool is_watched)
{
	if (is_watched)
		return storage_get(&tasks, task, 0, STORAGE_CREATE);
	return HAS(MICRO) ? storage_get(&tasks, task, 0, 0) : 0;
}

/* Of the task that runs, in events that begin nothing. */
INLINE struct micro *current_micro(void)
{
	if (!IS_ON(MICRO, micro))
		return 0;
	struct task *known = storage_get(&tasks, current_task(), 0, 0);
	return known ? seen_micro(&known->micro, since.micro) : 0;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3];
	bool with_sched = IS_ON(SCHED, sched), with_micro = IS_ON(MICRO, micro), is_forced = preempt || state == 0;
	u64 at = with_sched ? queue_clock(prev) : 0;
	u64 now = with_micro ? clock_at(prev) : 0, lost = with_micro ? lost_time(prev) : 0;
	bool is_known = is_watched(prev);
	struct task *task = task_of(prev, is_known);
	if (task) {
		s64 call = is_forced ? -1 : call_of(prev);
		struct micro *micro = with_micro ? micro_of(prev, task, is_known) : 0;
		if (micro)
			stops_running(prev, micro, state, is_forced, call, lost, now);
		if (with_sched && is_known)
			leaves(prev, &task->scheduled, next, state, preempt, call, at);
	}
	is_known = is_watched(next);
	task = task_of(next, is_known);
	if (task) {
		if (with_sched && is_known)
			comes(next, &task->scheduled, prev, at);
		struct micro *micro = with_micro ? micro_of(next, task, is_known) : 0;
		if (micro)
			starts_running(next, micro, lost, now);
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(u64 *ctx)
{
	struct task_struct *woken = (void *)ctx[0];
	bool is_known = is_watched(woken);
	struct task *task = task_of(woken, is_known);
	if (!task)
		return 0;
	if (IS_ON(SCHED, sched) && is_known)
		is_woken(woken, &task->scheduled);
	struct micro *micro = IS_ON(MICRO, micro) ? micro_of(woken, task, is_known) : 0;
	if (micro)
		waits_no_more(woken, micro);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(u64 *ctx)
{
	struct task_struct *made = (void *)ctx[0];
	bool is_known = is_watched(made);
	struct task *task = task_of(made, is_known);
	if (!task)
		return 0;
	if (IS_ON(SCHED, sched) && is_known)
		is_woken(made, &task->scheduled);
	struct micro *micro = IS_ON(MICRO, micro) ? micro_of(made, task, is_known) : 0;
	if (micro)
		is_made(made, micro);
	return 0;
}

/* A task of which something is known was watched by a name that it had before. */
INLINE bool was_watched(struct task_struct *task)
{
	return is_watched(task) || storage_get(&tasks, task, 0, 0);
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *waker = current_task(), *woken = (void *)ctx[0];
	struct pt_regs *registers = waker->flags & KERNEL_THREAD ? 0 : registers_of(waker);
	s64 call = registers ? (s64)registers->orig_ax : -1;
	if (call < 0)
		return 0;
	if (IS_ON(LOCKS, locks) && is_futex(call)) {
		struct task *by = storage_get(&tasks, waker, 0, 0);
		struct task *task = by && by->locking.is_waking ? storage_get(&tasks, woken, 0, 0) : 0;
		if (task)
			notes_waker(waker, &task->locking);
	}
	if (IS_ON(HERDS, herds) && was_watched(waker) && is_of_herd(waker, call, woken)) {
		struct in_call *in_call = in_call_of((u64)registers, 1);
		if (in_call)
			in_call->woken += 1;
	}
	return 0;
}

INLINE void futex_call(struct pt_regs *registers, s64 call)
{
	u32 use = use_of(call, registers->si);
	struct task *task = use != NOTHING ? storage_get(&tasks, current_task(), 0, STORAGE_CREATE) : 0;
	if (task)
		futex_begins(&task->locking, use, registers->di, clock_ns(), since.locks);
}

/* Whether the running task is watched, with a look at it only where that is not known without. */
INLINE bool is_current_watched(void)
{
	if (config.filter == EVERY_TASK)
		return 1;
	struct task_struct *task = current_task();
	return config.filter == COMMAND ? is_active(task) : is_watched(task);
}

/* Microstates of a task that makes a call and has not been seen. */
INLINE struct micro *new_micro(void)
{
	struct task_struct *task = current_task();
	struct task *known = storage_get(&tasks, task, 0, STORAGE_CREATE);
	return known ? micro_of(task, known, 1) : 0;
}

SEC("tp_btf/sys_enter")
int on_call(u64 *ctx)
{
	struct pt_regs *registers = (void *)ctx[0];
	s64 number = ctx[1];
	struct in_call *call = HAS(CALLS | HERDS | MICRO) ? in_call_of((u64)registers, 0) : 0;
	struct micro *micro = IS_ON(MICRO, micro) && call ? micro_at(call->thread, (u64)registers, since.micro) : 0;
	bool is_known = HAS(CALLS | HERDS | LOCKS) || !micro ? is_current_watched() : 0;
	bool may_wake_many = IS_ON(HERDS, herds) && number == 202 && (is_known || was_watched(current_task()));
	if (!is_known && !micro && !call && !may_wake_many)
		return 0;
	if (IS_ON(MICRO, micro) && !micro && is_known)
		micro = new_micro();
	bool is_counted = is_known && IS_ON(CALLS, calls);
	if (is_counted)
		call_begins(number);
	bool is_timed = (is_counted && !is_end(number)) || may_wake_many;
	if (!call && is_timed)
		call = in_call_of((u64)registers, 1);
	u64 now = micro || is_timed ? clock_ns() : 0;
	if (call) {
		if (HAS(CALLS))
			call->began = is_counted && !is_end(number) ? now : 0;
		if (HAS(HERDS)) {
			call->call_at = may_wake_many ? now : 0;
			call->woken = 0;
		}
	}
	if (micro)
		enters_call(micro, now);
	if (IS_ON(LOCKS, locks) && is_known && is_futex(number))
		futex_call(registers, number);
	return 0;
}

SEC("tp_btf/sys_exit")
int on_return(u64 *ctx)
{
	struct pt_regs *registers = (void *)ctx[0];
	struct in_call *call = HAS(CALLS | HERDS | MICRO) ? in_call_of((u64)registers, 0) : 0;
	if (call) {
		struct micro *micro = IS_ON(MICRO, micro) ? micro_at(call->thread, (u64)registers, since.micro) : 0;
		/* One that has begun was observed at its beginning. */
		u64 began = HAS(CALLS) ? call->began : 0;
		u64 now = micro || began ? clock_ns() : 0;
		if (micro)
			leaves_call(micro, now);
		if (began) {
			call->began = 0;
			if (began >= since.calls)
				call_returns(registers->orig_ax, ctx[1], now - began);
		}
		if (IS_ON(HERDS, herds) && call->woken >= config.herd_min) {
			send_herd(registers, call);
			call->woken = 0;
		}
	}
	if (IS_ON(LOCKS, locks) && is_futex(registers->orig_ax)) {
		struct task_struct *task = current_task();
		struct task *known = storage_get(&tasks, task, 0, 0);
		if (known)
			futex_returns(ctx, task, &known->locking, clock_ns(), since.locks);
	}
	return 0;
}

/* With COMMAND: children of one thread of the observer from their exec on, and theirs. */
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	bool is_known = is_active(parent);
	/* A new thread of the observer is no child. */
	if (!is_known && (parent->pid != (s32)config.tgid || child->tgid == parent->tgid))
		return 0;
	struct task *task = storage_get(&tasks, child, 0, STORAGE_CREATE);
	if (task)
		task->is_active = is_known;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	if (config.filter == COMMAND) {
		struct task *known = storage_get(&tasks, task, 0, 0);
		if (known)
			known->is_active = 1;
		return 0;
	}
	/* The name of a process changes when it begins another program. */
	struct micro *micro = current_micro();
	if (micro)
		describe(task, micro);
	struct task *known = IS_ON(SCHED, sched) && is_watched(task) ? storage_get(&tasks, task, 0, STORAGE_CREATE) : 0;
	if (!known)
		return 0;
	if (group_of(task, &known->scheduled) && known->scheduled.has_slot)
		name_slot(task, group_id(task), known->scheduled.slot);
	begins_midway(task, &known->scheduled, queue_clock(task));
	return 0;
}

SEC("tp_btf/signal_deliver")
int on_signal(u64 *ctx)
{
	struct micro *micro = current_micro();
	if (micro) {
		micro->signals += 1;
		/* One that failed. */
		ends_fault(micro);
	}
	return 0;
}

SEC("tp_btf/page_fault_user")
int on_fault(u64 *ctx)
{
	/* No page of a program's is at the kernel's addresses: a signal follows, or a call of the page "vsyscall". */
	if ((s64)ctx[0] < 0 || !IS_ON(MICRO, micro))
		return 0;
	struct pt_regs *registers = (void *)ctx[1];
	struct task_struct *task = current_task();
	bool is_known = is_watched(task);
	struct task *known = task_of(task, is_known);
	struct micro *micro = known ? micro_of(task, known, is_known) : 0;
	if (micro)
		begins_fault(micro, registers->ip, ctx[2]);
	return 0;
}

/* At the count of a minor or major fault of user code, which is the last that the kernel does for it. */
SEC("perf_event")
int on_fault_end(void *ctx)
{
	struct micro *micro = current_micro();
	if (micro)
		ends_fault(micro);
	return 0;
}

/* What it does from here to its end is in no record, unless somebody reads before that: a few microseconds. */
SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct task *known = storage_get(&tasks, task, 0, STORAGE_CREATE);
	if (!known)
		return 0;
	struct micro *micro = IS_ON(MICRO, micro) ? seen_micro(&known->micro, since.micro) : 0;
	if (micro)
		send_end(task, micro);
	forget(&known->micro);
	return 0;
}

/* Notes the tasks that are there; what they do is seen without. */
SEC("iter/task")
int note_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task || !IS_ON(MICRO, micro) || task->flags & EXITING || !is_watched(task))
		return 0;
	struct task *known = storage_get(&tasks, task, 0, STORAGE_CREATE);
	if (known)
		micro_of(task, known, 1);
	return 0;
}

LICENSE;
