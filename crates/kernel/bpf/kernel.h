/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the programs need of the kernel: its types by the few fields that are read (found in the running kernel by their
 * names, through BTF), its helpers by number, and the macros that declare maps.
 */
#ifndef OGIVE_KERNEL_H
#define OGIVE_KERNEL_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u8 bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KEY_AND_VALUE(key_type, value_type) \
	key_type *key;                      \
	value_type *value
#define NUMBER(name, number) int(*name)[number]

/* Maps. */
#define MAP(kind, name, entries, key_type, value_type) \
	struct {                                       \
		NUMBER(type, kind);                    \
		NUMBER(max_entries, entries);          \
		KEY_AND_VALUE(key_type, value_type);   \
	} name SEC(".maps")
#define ARRAY(name, entries, value_type) MAP(MAP_ARRAY, name, entries, u32, value_type)
#define PERCPU_ARRAY(name, entries, value_type) MAP(MAP_PERCPU_ARRAY, name, entries, u32, value_type)
#define HASH(name, entries, key_type, value_type) MAP(MAP_HASH, name, entries, key_type, value_type)
#define TASK_STORAGE(name, value_type)            \
	struct {                                  \
		NUMBER(type, MAP_TASK_STORAGE);   \
		NUMBER(map_flags, NO_PREALLOC);   \
		KEY_AND_VALUE(int, value_type);   \
	} name SEC(".maps")
#define RING(name, bytes)                         \
	struct {                                  \
		NUMBER(type, MAP_RINGBUF);        \
		NUMBER(max_entries, bytes);       \
	} name SEC(".maps")

enum map_type {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_QUEUE = 22,
	MAP_STACK = 23,
	MAP_RINGBUF = 27,
	MAP_TASK_STORAGE = 29,
};
enum map_flag { NO_PREALLOC = 1, MMAPABLE = 1 << 10 };
enum update_flag { ANY = 0, NOEXIST = 1 };
enum storage_flag { STORAGE_CREATE = 1 };

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const clock_ns)(void) = (void *)5;
static u32 (*const this_cpu)(void) = (void *)8;
static u64 (*const attach_cookie)(void *ctx) = (void *)174;
static u64 (*const current_ids)(void) = (void *)14;
static long (*const map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const map_pop)(void *map, void *value) = (void *)88;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const user_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ring_submit)(void *data, u64 flags) = (void *)132;
static long (*const seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static long (*const ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*const storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
/* x86-64. */
struct pt_regs {
	unsigned long orig_ax, di, si, dx, r10, r8, r9, ip, sp, bp;
};
/* The scheduler's own notes of a task, by its own clock; where the kernel was built with CONFIG_SCHED_INFO. */
struct sched_info {
	u64 run_delay, last_arrival, last_queued;
};
/* A CPU's queue: its clock, and the same without what interrupts and the hypervisor took. */
struct rq {
	u64 clock, clock_task;
	int cpu;
};
struct cfs_rq {
	struct rq *rq;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
};
struct task_struct {
	s32 pid;
	s32 tgid;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	char comm[16];
	struct css_set *cgroups;
	struct task_struct *group_leader;
	struct sched_info sched_info;
	struct sched_entity se;
	/* Page faults, as getrusage(2) counts them. */
	unsigned long min_flt, maj_flt;
};
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct timerqueue_node {
	s64 expires;
};
struct hrtimer {
	struct timerqueue_node node;
};

#pragma clang attribute pop

static struct task_struct *(*const current_task)(void) = (void *)158;
static struct pt_regs *(*const registers_of)(struct task_struct *task) = (void *)175;

/* Whether the running kernel has a field. */
#define HAS_FIELD(field) __builtin_preserve_field_info(field, 2)

/* Flags of a task, and bits of its state. */
#define KERNEL_THREAD 0x00200000
#define EXITING 0x00000004
#define STATE_UNINTERRUPTIBLE 0x2
#define STATE_STOPPED 0xc
#define STATE_DEAD 0xb0

/* The compiler keeps the order of what stands before and after. */
#define BARRIER() __asm__ volatile("" ::: "memory")

/* Counts one more in an array of counters that all CPUs share. */
INLINE void count_one(void *counters, u32 index)
{
	u64 *count = map_lookup(counters, &index);
	if (count)
		__sync_fetch_and_add(count, 1);
}

#define LICENSE char license_text[] SEC("license") = "Dual BSD/GPL"

#endif
