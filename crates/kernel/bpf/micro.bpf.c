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
#include "kernel.h"
#include "watch.h"

/* Causes of waiting come after WAITS. */
enum state { USER, SYSTEM, READY, TRAP, WAITS, TEXT_FAULT = WAITS + CAUSES, DATA_FAULT, STATES };

/* Whether the ends of page faults are seen. */
const volatile u32 sees_ends SEC(".rodata.ends") = 0;

/* Of the error code of a page fault, on x86-64: the CPU was to read an instruction. */
#define INSTRUCTION_FETCH 0x10

struct thread {
	/* Odd while it is changed. */
	u32 version;
	u32 state;
	u64 since, first;
	u64 time[STATES];
	u64 voluntary, involuntary, migrations, calls, signals;
	u64 text_faults, data_faults;
	/* While it had a CPU, and what its CPU had lost when it came. */
	u64 stolen, lost_before;
	u32 in_call, cpu;
	/* When it came, and what the scheduler had noted of its waits when it was seen last. */
	u64 running_at, run_delay;
	/* The page fault that it is in: TEXT_FAULT, DATA_FAULT or 0, and the instruction. */
	u32 is_known, fault;
	u64 fault_ip;
	/* Page faults until it was first seen. */
	u64 minor_before, major_before;
};
/* What the iterator writes; user space knows its form. */
struct record {
	s32 tid, tgid;
	char comm[16];
	u64 now, cgroup;
	u64 minor_faults, major_faults;
	struct thread thread;
};

TASK_STORAGE(threads, struct thread);

/* What the clock of programs is above that of the scheduler. */
PERCPU_ARRAY(ahead, 1, u64);

/* Threads that ended, as they were at their end. */
RING(ended, 1 << 18);
ARRAY(lost_ends, 1, u64);

/* Forgets a page fault whose end was not seen: the task's last way into the kernel was another. */
INLINE void check_fault(struct task_struct *task, struct thread *thread)
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
INLINE u32 wait_of(struct task_struct *task, struct thread *thread, u32 state)
{
	bool is_fault = !(task->flags & (KERNEL_THREAD | EXITING)) && !(state & STATE_STOPPED) && call_of(task) < 0;
	if (is_fault && thread->fault)
		return thread->fault;
	if (is_fault && state & STATE_UNINTERRUPTIBLE)
		return DATA_FAULT;
	return WAITS + (cause_of(task, state) & 7);
}

/* The state that a task is in, of which nothing else is known. */
INLINE u32 state_of(struct task_struct *task, struct thread *thread)
{
	u32 state = task->__state;
	if (state != 0)
		return wait_of(task, thread, state);
	if (!task->on_cpu)
		return READY;
	return call_of(task) >= 0 ? SYSTEM : USER;
}

INLINE struct thread *thread_of(struct task_struct *task)
{
	struct thread *thread = storage_get(&threads, task, 0, 0);
	if (thread)
		return thread;
	if (!is_watched(task))
		return 0;
	thread = storage_get(&threads, task, 0, STORAGE_CREATE);
	if (!thread)
		return 0;
	thread->state = state_of(task, thread);
	thread->minor_before = task->min_flt;
	thread->major_before = task->maj_flt;
	thread->in_call = call_of(task) >= 0 || (task->flags & KERNEL_THREAD);
	thread->first = thread->since = clock_ns();
	return thread;
}

/* The compiler keeps the order of what stands before and after. */
#define BARRIER() __asm__ volatile("" ::: "memory")

INLINE void enter(struct thread *thread, u32 state, u64 now)
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
INLINE u32 running_of(struct thread *thread)
{
	if (thread->in_call)
		return SYSTEM;
	return sees_ends && thread->fault ? TRAP : USER;
}

/* What the scheduler noted, from which on its waits are known. */
INLINE void note(struct task_struct *task, struct thread *thread)
{
	if (!HAS_FIELD(task->sched_info))
		return;
	thread->run_delay = task->sched_info.run_delay;
	thread->is_known = 1;
}

/*
 * Some events are not shown, as in `sched.bpf.c`: of a thread that leaves and was not seen to come, the scheduler's notes say when it
 * was ready and when it ran.
 */
INLINE void was_running(struct task_struct *task, struct thread *thread, u64 now)
{
	u32 zero = 0;
	u64 *difference = map_lookup(&ahead, &zero);
	if (!difference || !HAS_FIELD(task->sched_info))
		return;
	u64 arrival = task->sched_info.last_arrival;
	if (thread->state == USER || thread->state == SYSTEM || thread->state == TRAP) {
		if (thread->running_at > arrival && arrival)
			*difference = thread->running_at - arrival;
		return;
	}
	u64 running_at = arrival + *difference;
	u64 waited = task->sched_info.run_delay - thread->run_delay;
	/* The difference of the clocks is not exact: a slice of microseconds may seem to begin after its end. */
	if (running_at > now)
		running_at = now;
	if (!thread->is_known || !*difference || waited > running_at)
		return;
	if (thread->state != READY)
		enter(thread, READY, running_at - waited);
	enter(thread, running_of(thread), running_at);
}

/* Of one that comes and was not seen to be woken, when it was ready. */
INLINE void was_ready(struct task_struct *task, struct thread *thread, u64 now)
{
	u32 zero = 0;
	u64 *difference = map_lookup(&ahead, &zero);
	if (thread->state < WAITS || !difference || !*difference || !HAS_FIELD(task->sched_info))
		return;
	u64 ready_at = task->sched_info.last_queued + *difference;
	if (task->sched_info.last_queued && ready_at < now)
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

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3];
	u64 now = clock_ns(), lost = lost_time(prev);
	struct thread *thread = thread_of(prev);
	if (thread) {
		/* One that was not seen to come lost nothing that is known. */
		if (thread->running_at)
			thread->stolen += lost - thread->lost_before;
		bool is_forced = preempt || state == 0;
		if (is_forced)
			thread->involuntary += 1;
		else
			thread->voluntary += 1;
		thread->cpu = this_cpu() + 1;
		was_running(prev, thread, now);
		thread->running_at = 0;
		note(prev, thread);
		check_fault(prev, thread);
		enter(thread, is_forced ? READY : wait_of(prev, thread, state), now);
	}
	thread = thread_of(next);
	if (thread) {
		u32 cpu = this_cpu() + 1;
		if (thread->cpu && thread->cpu != cpu)
			thread->migrations += 1;
		thread->cpu = cpu;
		was_ready(next, thread, now);
		thread->running_at = now;
		thread->lost_before = lost;
		enter(thread, running_of(thread), now);
	}
	return 0;
}

INLINE void becomes_ready(struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	if (!thread || thread->state < WAITS)
		return;
	if (!thread->is_known && !task->on_cpu)
		note(task, thread);
	enter(thread, READY, clock_ns());
}

SEC("tp_btf/sched_wakeup")
int on_wakeup(u64 *ctx)
{
	becomes_ready((void *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(u64 *ctx)
{
	struct thread *thread = thread_of((void *)ctx[0]);
	if (thread) {
		/* A thread begins within the call that made it. */
		thread->in_call = 1;
		note((struct task_struct *)ctx[0], thread);
		enter(thread, READY, clock_ns());
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int on_call(u64 *ctx)
{
	struct thread *thread = thread_of(current_task());
	if (thread) {
		thread->calls += 1;
		thread->in_call = 1;
		thread->fault = 0;
		enter(thread, SYSTEM, clock_ns());
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int on_return(u64 *ctx)
{
	struct thread *thread = storage_get(&threads, current_task(), 0, 0);
	if (thread) {
		thread->in_call = 0;
		enter(thread, USER, clock_ns());
	}
	return 0;
}

INLINE void ends_fault(struct thread *thread)
{
	if (!thread->fault)
		return;
	thread->fault = 0;
	enter(thread, running_of(thread), clock_ns());
}

SEC("tp_btf/signal_deliver")
int on_signal(u64 *ctx)
{
	struct thread *thread = storage_get(&threads, current_task(), 0, 0);
	if (thread) {
		thread->signals += 1;
		/* One that failed. */
		ends_fault(thread);
	}
	return 0;
}

SEC("tp_btf/page_fault_user")
int on_fault(u64 *ctx)
{
	/* No page of a program's is at the kernel's addresses: a signal follows, or a call of the page "vsyscall". */
	if ((s64)ctx[0] < 0)
		return 0;
	struct thread *thread = thread_of(current_task());
	if (!thread)
		return 0;
	struct pt_regs *registers = (void *)ctx[1];
	bool is_text = (ctx[2] & INSTRUCTION_FETCH) != 0;
	if (is_text)
		thread->text_faults += 1;
	else
		thread->data_faults += 1;
	thread->fault = is_text ? TEXT_FAULT : DATA_FAULT;
	thread->fault_ip = registers->ip;
	thread->in_call = 0;
	enter(thread, running_of(thread), clock_ns());
	return 0;
}

/* At the count of a minor or major fault of user code, which is the last that the kernel does for it. */
SEC("perf_event")
int on_fault_end(void *ctx)
{
	struct thread *thread = storage_get(&threads, current_task(), 0, 0);
	if (thread)
		ends_fault(thread);
	return 0;
}

INLINE void describe(struct task_struct *task, struct thread *thread, struct record *record)
{
	record->tid = task->pid;
	record->tgid = task->tgid;
	record->cgroup = cgroup_of(task);
	read_kernel(record->comm, sizeof(record->comm), task->comm);
#pragma clang loop unroll(disable)
	for (int attempt = 0; attempt < 16; attempt++) {
		u32 version = *(volatile u32 *)&thread->version;
		BARRIER();
		record->thread = *thread;
		BARRIER();
		record->now = clock_ns();
		if (!(version & 1) && version == *(volatile u32 *)&thread->version)
			break;
	}
	record->minor_faults = task->min_flt - thread->minor_before;
	record->major_faults = task->maj_flt - thread->major_before;
}

/* What it does from here to its end is in no record, unless somebody reads before that: a few microseconds. */
SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread = storage_get(&threads, task, 0, 0);
	if (!thread)
		return 0;
	struct record record = {};
	describe(task, thread, &record);
	if (ring_output(&ended, &record, sizeof(record), 0))
		count_one(&lost_ends, 0);
	return 0;
}

SEC("iter/task")
int read_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct thread *thread = thread_of(task);
	if (!thread)
		return 0;
	struct record record = {};
	describe(task, thread, &record);
	seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

LICENSE;
