/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Microstates: where each thread's time goes, as a state and the moment of its beginning in the task's own storage.
 * The states partition time, so that their sum is the time since the thread was first seen. An iterator over the tasks
 * writes them, the state that goes on included.
 *
 * A page fault of user code begins at a tracepoint and ends at the event by which perf counts it: its time on a CPU is
 * TRAP, its sleep TEXT_FAULT or DATA_FAULT. One that fails has no such end: a signal follows. Faults of the kernel's own
 * within a system call are part of that call.
 */
#ifndef OGIVE_MICRO_H
#define OGIVE_MICRO_H

#include "clocks.h"
#include "slots.h"
#include "watch.h"

/* Causes of waiting come after WAITS. */
enum state { USER, SYSTEM, READY, TRAP, WAITS, TEXT_FAULT = WAITS + CAUSES, DATA_FAULT, STATES };

/* Whether the ends of page faults are seen. */
const volatile u32 sees_ends SEC(".rodata.ends") = 0;

/* Of the error code of a page fault, on x86-64: the CPU was to read an instruction. */
#define INSTRUCTION_FETCH 0x10

/* Byte for byte what `micro.rs` reads, in memory that it has mapped. */
struct micro {
	/* Odd while it is changed. */
	u32 version;
	u32 state;
	/* `first` is when it was first seen; 0 where no thread is. */
	u64 since, first;
	u64 time[STATES];
	u64 voluntary, involuntary, migrations, calls, signals;
	u64 text_faults, data_faults;
	/* While it had a CPU. */
	u64 stolen;
	/* Page faults as getrusage(2) counts them since it was first seen; with what follows, at its last switch. */
	u64 minor_faults, major_faults;
	s32 tid, tgid;
	u64 cgroup;
	char comm[16];
	/* From here on for programs alone: where its registers are, and what its CPU had lost when it came. */
	u64 registers, lost_before;
	u32 in_call, cpu;
	/* When it came, and what the scheduler had noted of its waits when it was seen last. */
	u64 running_at, run_delay;
	/* The page fault that it is in: TEXT_FAULT, DATA_FAULT or 0, and the instruction. */
	u32 is_known, fault;
	u64 fault_ip;
	/* Page faults until it was first seen. */
	u64 minor_before, major_before;
};
/* A thread that ends. */
struct end {
	u64 now;
	struct micro micro;
};

/* Its slot in `threads`, or 0. */
struct slot_of_micro {
	u32 slot;
	/* It has ended, or found no slot. */
	u32 is_over;
};

/* By slot; user space reads them without a system call. */
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	NUMBER(map_flags, MMAPABLE);
	u32 *key;
	struct micro *value;
} threads SEC(".maps");
FREE_SLOTS(free_threads);

/* Slots that have ever been used, from 1 on: user space reads no others. Free ones among them are taken first. */
#define THREADS_MAX 32768
ARRAY(threads_used, 1, u64);

/* Threads that ended, as they were at their end. */
RING(ended, 1 << 18);
/* Ends that found no room there, and threads that found no slot. */
ARRAY(lost_threads, 2, u64);

/* Forgets a page fault whose end was not seen: the task's last way into the kernel was another. */
INLINE void check_fault(struct task_struct *task, struct micro *thread)
{
	if (!thread->fault)
		return;
	struct pt_regs *registers = registers_of(task);
	if (!registers || (s64)registers->orig_ax >= 0 || registers->ip != thread->fault_ip)
		thread->fault = 0;
}

/*
 * The state of a task that gave up the CPU. User code that is in no system call sleeps uninterruptibly in exceptions alone;
 * where the beginning of a fault is not seen, it counts as one for data.
 */
INLINE u32 wait_of(struct task_struct *task, struct micro *thread, u32 state, s64 call)
{
	bool is_fault = !(task->flags & (KERNEL_THREAD | EXITING)) && !(state & STATE_STOPPED) && call < 0;
	if (is_fault && thread->fault)
		return thread->fault;
	if (is_fault && state & STATE_UNINTERRUPTIBLE)
		return DATA_FAULT;
	return WAITS + (cause_of(state, call) & 7);
}

/* The state that a task is in, of which nothing else is known. */
INLINE u32 state_of(struct task_struct *task, struct micro *thread, s64 call)
{
	u32 state = task->__state;
	if (state != 0)
		return wait_of(task, thread, state, call);
	if (!task->on_cpu)
		return READY;
	return call >= 0 ? SYSTEM : USER;
}

/*
 * Who it is, and what the kernel counts of it. Each way on which the verifier comes to a field that is a pointer takes it 10
 * ms, so that this stands before what branches.
 */
INLINE void describe(struct task_struct *task, struct micro *thread)
{
	thread->tid = task->pid;
	thread->tgid = task->tgid;
	thread->cgroup = cgroup_of(task);
	*(u64 *)&thread->comm[0] = *(u64 *)&task->comm[0];
	*(u64 *)&thread->comm[8] = *(u64 *)&task->comm[8];
	thread->minor_faults = task->min_flt - thread->minor_before;
	thread->major_faults = task->maj_flt - thread->major_before;
}

INLINE struct micro *micro_in(u32 slot)
{
	return slot ? map_lookup(&threads, &slot) : 0;
}

/* A task that was seen since then. */
INLINE struct micro *seen_micro(struct slot_of_micro *of_task, u64 since)
{
	struct micro *thread = micro_in(of_task->slot);
	if (!thread || thread->first < since)
		return 0;
	/* The compiler adds no offset before the comparison. */
	BARRIER();
	return thread;
}

/* The same by its slot, where the registers are those of the task. */
INLINE struct micro *micro_at(u32 slot, u64 registers, u64 since)
{
	struct micro *thread = micro_in(slot);
	if (!thread || thread->first < since || thread->registers != registers)
		return 0;
	BARRIER();
	return thread;
}

/* A slot for a task that has none. */
INLINE u32 take_thread(struct slot_of_micro *of_task)
{
	u32 zero = 0, slot = 0;
	u64 *used = map_lookup(&threads_used, &zero);
	if (of_task->is_over || !used)
		return 0;
	if (map_pop(&free_threads, &slot))
		slot = __sync_fetch_and_add(used, 1) + 1;
	if (slot >= THREADS_MAX) {
		of_task->is_over = 1;
		count_one(&lost_threads, 1);
		return 0;
	}
	/* Another CPU was quicker. */
	if (__sync_val_compare_and_swap(&of_task->slot, 0, slot) != 0)
		map_push(&free_threads, &slot, ANY);
	return of_task->slot;
}

/* A task is seen for the first time, or again after it was not observed for a while. */
INLINE bool begins(struct task_struct *task, struct slot_of_micro *of_task, u64 registers)
{
	struct micro *thread = micro_in(of_task->slot ? of_task->slot : take_thread(of_task));
	if (!thread)
		return 0;
	u32 version = thread->version | 1;
	thread->version = version;
	BARRIER();
	__builtin_memset(&thread->time, 0, sizeof(*thread) - __builtin_offsetof(struct micro, time));
	thread->minor_before = task->min_flt;
	thread->major_before = task->maj_flt;
	describe(task, thread);
	s64 call = call_of(task);
	thread->state = state_of(task, thread, call);
	thread->in_call = call >= 0 || (task->flags & KERNEL_THREAD);
	thread->registers = registers;
	thread->first = thread->since = clock_ns();
	BARRIER();
	thread->version = version + 1;
	return 1;
}

INLINE void enter(struct micro *thread, u32 state, u64 now)
{
	thread->version += 1;
	BARRIER();
	u32 before = thread->state;
	if (now > thread->since && before < STATES)
		thread->time[before] += now - thread->since;
	if (now > thread->since)
		thread->since = now;
	thread->state = state;
	BARRIER();
	thread->version += 1;
}

/* The state of a thread that has a CPU. */
INLINE u32 running_of(struct micro *thread)
{
	if (thread->in_call)
		return SYSTEM;
	return sees_ends && thread->fault ? TRAP : USER;
}

/* What the scheduler noted, from which on its waits are known. */
INLINE void note(struct task_struct *task, struct micro *thread)
{
	if (!HAS_FIELD(task->sched_info))
		return;
	thread->run_delay = task->sched_info.run_delay;
	thread->is_known = 1;
}

/* Where a thread that leaves was not seen to come, the scheduler's notes say when it was ready and when it ran. */
INLINE void was_running(struct task_struct *task, struct micro *thread, u64 now)
{
	if (!HAS_FIELD(task->sched_info))
		return;
	if (thread->state == USER || thread->state == SYSTEM || thread->state == TRAP) {
		if (thread->running_at)
			guess_difference(task, thread->running_at);
		return;
	}
	u64 running_at = noted_by_ours(task->sched_info.last_arrival);
	u64 waited = task->sched_info.run_delay - thread->run_delay;
	/* The difference of the clocks is not exact: a slice of microseconds may seem to begin after its end. */
	if (running_at > now)
		running_at = now;
	if (!thread->is_known || !running_at || waited > running_at)
		return;
	if (thread->state != READY)
		enter(thread, READY, running_at - waited);
	enter(thread, running_of(thread), running_at);
}

/* Of one that comes and was not seen to be woken, when it was ready. */
INLINE void was_ready(struct task_struct *task, struct micro *thread, u64 now)
{
	if (thread->state < WAITS || !HAS_FIELD(task->sched_info))
		return;
	u64 ready_at = noted_by_ours(task->sched_info.last_queued);
	if (ready_at && ready_at < now)
		enter(thread, READY, ready_at);
}

/* What interrupts and the hypervisor took from a task's CPU until now: the kernel has just read its clocks. */
INLINE u64 lost_time(struct task_struct *task)
{
	if (!HAS_FIELD(task->se.cfs_rq) || !HAS_FIELD(task->se.cfs_rq->rq))
		return 0;
	struct rq *queue = task->se.cfs_rq->rq;
	return queue->clock - queue->clock_task;
}

INLINE void stops_running(struct task_struct *task, struct micro *thread, u32 state, bool is_forced, s64 call, u64 lost,
			  u64 now)
{
	describe(task, thread);
	/* One that was not seen to come lost nothing that is known. */
	if (thread->running_at)
		thread->stolen += lost - thread->lost_before;
	if (is_forced)
		thread->involuntary += 1;
	else
		thread->voluntary += 1;
	thread->cpu = this_cpu() + 1;
	was_running(task, thread, now);
	thread->running_at = 0;
	note(task, thread);
	check_fault(task, thread);
	enter(thread, is_forced ? READY : wait_of(task, thread, state, call), now);
}

INLINE void starts_running(struct task_struct *task, struct micro *thread, u64 lost, u64 now)
{
	u32 cpu = this_cpu() + 1;
	if (thread->cpu && thread->cpu != cpu)
		thread->migrations += 1;
	thread->cpu = cpu;
	was_ready(task, thread, now);
	thread->running_at = now;
	thread->lost_before = lost;
	enter(thread, running_of(thread), now);
}

INLINE void waits_no_more(struct task_struct *task, struct micro *thread)
{
	if (thread->state < WAITS)
		return;
	if (!thread->is_known && !task->on_cpu)
		note(task, thread);
	enter(thread, READY, clock_at(task));
}

INLINE void is_made(struct task_struct *task, struct micro *thread)
{
	/* A thread begins within the call that made it. */
	thread->in_call = 1;
	note(task, thread);
	enter(thread, READY, clock_at(task));
}

INLINE void enters_call(struct micro *thread, u64 now)
{
	thread->calls += 1;
	thread->in_call = 1;
	thread->fault = 0;
	enter(thread, SYSTEM, now);
}

INLINE void leaves_call(struct micro *thread, u64 now)
{
	thread->in_call = 0;
	enter(thread, USER, now);
}

INLINE void begins_fault(struct micro *thread, u64 ip, u64 error)
{
	bool is_text = (error & INSTRUCTION_FETCH) != 0;
	if (is_text)
		thread->text_faults += 1;
	else
		thread->data_faults += 1;
	thread->fault = is_text ? TEXT_FAULT : DATA_FAULT;
	thread->fault_ip = ip;
	thread->in_call = 0;
	enter(thread, running_of(thread), clock_ns());
}

INLINE void ends_fault(struct micro *thread)
{
	if (!thread->fault)
		return;
	thread->fault = 0;
	enter(thread, running_of(thread), clock_ns());
}

/* Of the task that ends. */
INLINE void send_end(struct task_struct *task, struct micro *thread)
{
	describe(task, thread);
	struct end *end = ring_reserve(&ended, sizeof(struct end), 0);
	if (!end) {
		count_one(&lost_threads, 0);
		return;
	}
	end->now = clock_ns();
	end->micro = *thread;
	ring_submit(end, 0);
}

/* Its slot is free for another. */
INLINE void forget(struct slot_of_micro *of_task)
{
	u32 slot = of_task->slot;
	struct micro *thread = micro_in(slot);
	of_task->is_over = 1;
	of_task->slot = 0;
	if (!thread)
		return;
	thread->version |= 1;
	BARRIER();
	thread->first = 0;
	thread->registers = 0;
	BARRIER();
	thread->version += 1;
	map_push(&free_threads, &slot, ANY);
}

#endif
