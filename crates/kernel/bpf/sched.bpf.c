/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The scheduler, by process, thread or cgroup: how long who was ready waits, runs and stays away, in the bins of Ogive;
 * interrupts, soft interrupts and how late timers are; herds.
 *
 * Some events are not shown to programs: a kernel may run none in the context of a task that it protects, such as process 1
 * of some virtual machines, whose switch to another is the beginning of a slice of that other. The scheduler's own notes
 * of a task say when it was ready and when it ran; they are by another clock, of which the difference is taken at
 * events that are seen.
 *
 * A group takes a slot from a queue that user space fills; without one it counts in slot 0, `other`. A histogram is
 * one value of an array, so that one read takes all of its bins.
 */
#include "slots.h"
#include "snapshot.h"
#include "watch.h"

/* Histograms of a slot, after which come those of the causes. */
enum kind { RUN_QUEUE, WAKE_UP, SLICE, OFF_CPU, KINDS = OFF_CPU + CAUSES };
/* Ten soft interrupts, then these. */
enum interrupt { HARD = 10, LOCAL_TIMER, LATENESS, INTERRUPTS };

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
struct thread {
	u64 ready_at, running_at, away_at;
	u32 slot, is_woken, cause, cpu, has_slot, by_tid;
	char by_comm[16];
	/* Within the system call that it is in. */
	u64 call_at;
	/* What the scheduler had noted of its waits when it was seen last. */
	u64 run_delay;
	u32 woken, is_known;
};
struct herd {
	u64 took;
	s64 call;
	u32 tid, tgid, woken, number;
	char comm[16];
};

TASK_STORAGE(threads, struct thread);
HASH(slots, 64, struct group_key, u32);
ARRAY(groups, 1, struct group);
/* User space writes zeros over what it has read. */
ARRAY(worsts, 1, struct worst);
ARRAY(names, 1, struct slot_name);
ARRAY(interrupt_histograms, INTERRUPTS, struct bins);
struct cpu {
	u64 time[INTERRUPTS];
	u64 count[INTERRUPTS];
	u64 hard_at, timer_at, soft_at;
	/* What the clock of programs is above that of the scheduler. */
	u64 ahead;
};
PERCPU_ARRAY(cpus, 1, struct cpu);
RING(herds, 65536);
ARRAY(lost_herds, 1, u64);
/* By which a herd and its snapshot know each other. */
ARRAY(herd_numbers, 1, u64);
/* Switches and wake-ups that were not shown and are known by the scheduler's notes. */
ARRAY(unseen, 1, u64);

INLINE void add(u64 *counter, u64 more)
{
	__sync_fetch_and_add(counter, more);
}

/* Counts a duration in histogram `kind` of a slot. */
INLINE void count(u32 slot, struct group *group, u32 kind, u64 took)
{
	u32 index = slot * KINDS + kind;
	struct bins *bins = map_lookup(&histograms, &index);
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
	return slot_in(&slots, &key, is_new);
}

INLINE struct thread *thread_of(struct task_struct *task)
{
	if (!is_watched(task))
		return 0;
	struct thread *thread = storage_get(&threads, task, 0, STORAGE_CREATE);
	if (!thread || thread->has_slot)
		return thread;
	u32 is_new = 0;
	u64 id = group_id(task);
	thread->slot = take_slot(id, &is_new);
	/* Without a slot it looks again the next time. */
	thread->has_slot = thread->slot != 0;
	if (is_new)
		name_slot(task, id, thread->slot);
	return thread;
}

INLINE struct cpu *cpu_of(void)
{
	u32 zero = 0;
	return map_lookup(&cpus, &zero);
}

/* It waited for something, and is ready now. */
INLINE void ends_wait(struct thread *thread, struct group *group, u64 now)
{
	add(&group->wake_ups, 1);
	if (thread->away_at && thread->cause < CAUSES && now >= thread->away_at)
		count(thread->slot, group, OFF_CPU + thread->cause, now - thread->away_at);
	thread->away_at = 0;
	thread->is_woken = 1;
	thread->ready_at = now;
}

/* A task that leaves and was not seen to come: when it came, and how long it was ready before, are the scheduler's notes. */
INLINE void came_unseen(struct task_struct *task, struct thread *thread, struct group *group, u64 now)
{
	struct cpu *cpu = cpu_of();
	/* What it did before it was observed is in no histogram. */
	if (!thread->is_known || !cpu || !cpu->ahead || !HAS_FIELD(task->sched_info))
		return;
	u64 running_at = task->sched_info.last_arrival + cpu->ahead;
	u64 waited = task->sched_info.run_delay - thread->run_delay;
	/* The difference of the clocks is not exact: a slice of microseconds may seem to begin after its end. */
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
	count(thread->slot, group, RUN_QUEUE, waited);
	if (thread->is_woken)
		count(thread->slot, group, WAKE_UP, waited);
}

/* What the scheduler has noted until now, and its clock. */
INLINE void note_clock(struct task_struct *task, struct thread *thread)
{
	if (!HAS_FIELD(task->sched_info))
		return;
	struct cpu *cpu = cpu_of();
	if (cpu && thread->running_at > task->sched_info.last_arrival && task->sched_info.last_arrival)
		cpu->ahead = thread->running_at - task->sched_info.last_arrival;
}

INLINE void leaves(struct task_struct *task, struct thread *thread, struct task_struct *next, u32 state, bool preempt, u64 now)
{
	struct group *group = map_lookup(&groups, &thread->slot);
	if (!group)
		return;
	if (thread->running_at)
		note_clock(task, thread);
	else
		came_unseen(task, thread, group, now);
	if (thread->running_at)
		count(thread->slot, group, SLICE, now - thread->running_at);
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
	}
	if (preempt || state == 0)
		add(&group->involuntary, 1);
	else
		add(&group->voluntary, 1);
	if (!preempt && state != 0 && !(state & STATE_DEAD)) {
		thread->away_at = now;
		thread->cause = cause_of(task, state);
	}
}

/* A task that comes and was not seen to be woken. */
INLINE void was_woken_unseen(struct task_struct *task, struct thread *thread, struct group *group, u64 now)
{
	struct cpu *cpu = cpu_of();
	if (!cpu || !cpu->ahead || !HAS_FIELD(task->sched_info) || !task->sched_info.last_queued)
		return;
	u64 ready_at = task->sched_info.last_queued + cpu->ahead;
	count_one(&unseen, 0);
	/* The difference of the clocks is not exact. */
	ends_wait(thread, group, ready_at < now ? ready_at : now);
}

INLINE void runs(struct task_struct *task, struct thread *thread, struct task_struct *prev, u64 now)
{
	struct group *group = map_lookup(&groups, &thread->slot);
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
	if (!ready_at || now < ready_at)
		return;
	u64 waited = now - ready_at;
	count(thread->slot, group, RUN_QUEUE, waited);
	if (thread->is_woken)
		count(thread->slot, group, WAKE_UP, waited);
	struct worst *worst = map_lookup(&worsts, &thread->slot);
	if (!worst || waited <= worst->waited)
		return;
	/* Two at a time may mix their names: it is a hint for people, and no count. */
	worst->waited = waited;
	worst->tid = task->pid;
	worst->cpu = cpu - 1;
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

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 state = ctx[3];
	u64 now = clock_ns();
	struct thread *thread = thread_of(prev);
	if (thread)
		leaves(prev, thread, next, state, preempt, now);
	thread = thread_of(next);
	if (thread)
		runs(next, thread, prev, now);
	return 0;
}

INLINE void becomes_ready(struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	/* One that is still on its CPU, or ready already, has nothing to wait for. */
	if (!thread || thread->running_at || thread->ready_at)
		return;
	if (!thread->is_known && !task->on_cpu && HAS_FIELD(task->sched_info)) {
		thread->run_delay = task->sched_info.run_delay;
		thread->is_known = 1;
	}
	u64 now = clock_ns();
	struct group *group = map_lookup(&groups, &thread->slot);
	if (group)
		ends_wait(thread, group, now);
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
	becomes_ready((void *)ctx[0]);
	return 0;
}

/* The name of a process changes when it begins another program. */
SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread = thread_of(task);
	if (thread && thread->has_slot)
		name_slot(task, group_id(task), thread->slot);
	return 0;
}

INLINE void count_interrupt(struct cpu *cpu, u32 kind, u64 took)
{
	u32 key = kind;
	struct bins *bins = map_lookup(&interrupt_histograms, &key);
	if (bins)
		__sync_fetch_and_add(&bins->count[bin_of(took)], 1);
	/* In a register, where the verifier sees the bound. */
	__asm__ volatile("" : "+r"(kind));
	if (kind >= INTERRUPTS)
		return;
	cpu->time[kind] += took;
	cpu->count[kind] += 1;
}

SEC("tp_btf/irq_handler_entry")
int on_hard_entry(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	if (cpu)
		cpu->hard_at = clock_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int on_hard_exit(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	if (cpu && cpu->hard_at)
		count_interrupt(cpu, HARD, clock_ns() - cpu->hard_at);
	return 0;
}

SEC("tp_btf/local_timer_entry")
int on_timer_entry(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	if (cpu)
		cpu->timer_at = clock_ns();
	return 0;
}

SEC("tp_btf/local_timer_exit")
int on_timer_exit(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	if (cpu && cpu->timer_at)
		count_interrupt(cpu, LOCAL_TIMER, clock_ns() - cpu->timer_at);
	return 0;
}

SEC("tp_btf/softirq_entry")
int on_soft_entry(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	if (cpu)
		cpu->soft_at = clock_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int on_soft_exit(u64 *ctx)
{
	struct cpu *cpu = cpu_of();
	u32 vector = ctx[0];
	if (cpu && cpu->soft_at && vector < HARD)
		count_interrupt(cpu, vector, clock_ns() - cpu->soft_at);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int on_timer_expiry(u64 *ctx)
{
	struct hrtimer *timer = (void *)ctx[0];
	s64 now = 0;
	/* The clock of the timer, as the kernel read it when it found the timer due. */
	if (read_kernel(&now, sizeof(now), (void *)ctx[1]))
		return 0;
	s64 late = now - timer->node.expires;
	struct cpu *cpu = cpu_of();
	if (cpu)
		count_interrupt(cpu, LATENESS, late > 0 ? late : 0);
	return 0;
}

/* Herds: wake-ups within one system call of one thread. */

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *task = current_task();
	struct thread *waker = storage_get(&threads, task, 0, 0);
	if (!waker)
		return 0;
	/*
	 * An interrupt in the midst of the call wakes others: threads of the kernel, and those whose time is over. Futexes that
	 * processes share are rare.
	 */
	struct task_struct *woken = (void *)ctx[0];
	s64 of_woken = call_of(woken);
	if (of_woken < 0 || (call_of(task) == 202 && (of_woken != 202 || woken->tgid != task->tgid)))
		return 0;
	waker->woken += 1;
	return 0;
}

SEC("tp_btf/sys_enter")
int on_call(u64 *ctx)
{
	struct thread *thread = storage_get(&threads, current_task(), 0, 0);
	if (!thread)
		return 0;
	thread->woken = 0;
	/* Only those that can wake many at once: the clock is what costs. */
	thread->call_at = (s64)ctx[1] == 202 ? clock_ns() : 0;
	return 0;
}

SEC("tp_btf/sys_exit")
int on_return(u64 *ctx)
{
	struct task_struct *task = current_task();
	struct thread *thread = storage_get(&threads, task, 0, 0);
	if (!thread || thread->woken < config.herd_min)
		return 0;
	struct herd herd = { .call = call_of(task), .tid = task->pid, .tgid = task->tgid, .woken = thread->woken };
	herd.took = thread->call_at ? clock_ns() - thread->call_at : 0;
	read_kernel(herd.comm, sizeof(herd.comm), task->comm);
	thread->woken = 0;
	u32 zero = 0;
	u64 *numbers = map_lookup(&herd_numbers, &zero);
	if (numbers)
		herd.number = (u32)__sync_fetch_and_add(numbers, 1);
	if (ring_output(&herds, &herd, sizeof(herd), 0))
		count_one(&lost_herds, 0);
	else
		send_stack((void *)ctx[0], herd.number, current_ids());
	return 0;
}

LICENSE;
