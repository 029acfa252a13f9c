/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One program of each family that a kernel may let in, to try which it does. None of them does anything. */
#include "kernel.h"
#include "bins.h"

TASK_STORAGE(storage, u64);
RING(ring, 4096);

SEC("tp_btf/sched_switch")
int try_tp_btf(u64 *ctx) { return 0; }

SEC("tp_btf/sched_switch")
int try_task_storage(u64 *ctx)
{
	storage_get(&storage, current_task(), 0, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int try_ring(u64 *ctx)
{
	u64 nothing = 0;
	if (ctx[0] == 0)
		ring_output(&ring, &nothing, sizeof(nothing), 0);
	return 0;
}

SEC("iter/task")
int try_iter(struct bpf_iter__task *ctx) { return 0; }

SEC("tp_btf/page_fault_user")
int try_page_faults(u64 *ctx) { return 0; }

SEC("perf_event")
int try_perf_events(void *ctx) { return 0; }

SEC("raw_tp/sched_switch")
int try_raw_tp(u64 *ctx) { return 0; }

SEC("tracepoint/sched/sched_switch")
int try_tracepoint(u64 *ctx) { return 0; }

SEC("uprobe")
int try_uprobe(void *ctx) { return 0; }

SEC("uprobe.multi")
int try_uprobe_multi(void *ctx) { return 0; }

SEC("kprobe/do_nanosleep")
int try_kprobe(void *ctx) { return 0; }

SEC("fentry/do_nanosleep")
int try_fentry(u64 *ctx) { return 0; }

/* No trial: the bin of a number, as the kernel finds it. It is run by itself and attached to nothing. */
SEC("raw_tp/sched_switch")
int find_bin(u64 *ctx) { return bin_of(ctx[0]); }

LICENSE;
