/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Interrupts, soft interrupts, the local timer, and how late timers are: by CPU, in the bins of Ogive. */
#ifndef OGIVE_INTERRUPTS_H
#define OGIVE_INTERRUPTS_H

#include "kernel.h"
#include "bins.h"

/* Ten soft interrupts, then these. */
enum interrupt { HARD = 10, LOCAL_TIMER, LATENESS, INTERRUPTS };

struct cpu {
	u64 time[INTERRUPTS];
	u64 count[INTERRUPTS];
	u64 hard_at, timer_at, soft_at;
};
PERCPU_ARRAY(cpus, 1, struct cpu);
ARRAY(interrupt_histograms, INTERRUPTS, struct bins);

INLINE struct cpu *cpu_of(void)
{
	u32 zero = 0;
	return map_lookup(&cpus, &zero);
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

#endif
