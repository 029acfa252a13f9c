/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A question of the user's own: a few instructions over what a probe passes, which decide whether an event counts, under
 * which key, and with which value. They stand in constant data, so that the verifier follows them one by one and an event
 * costs only what its own question needs.
 *
 * Counts are exact: one array for all CPUs, with atomic additions. A new key takes a slot from a queue; without a free slot it
 * counts in slot 0, "other".
 */
#include "slots.h"
#include "usdt.h"
#include "watch.h"

#define INSTRUCTIONS 128
#define REGISTERS 16
#define CALL_ARGUMENTS 6
#define KEYS 3
#define TEXT_WORDS 4
#define NESTED 16

enum op {
	CONSTANT, ARGUMENT, CONTEXT, LOAD, TEXT, COMM_TEXT, SAME_TEXT,
	ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, BIT_AND, BIT_OR, BIT_XOR, SHIFT_LEFT, SHIFT_RIGHT,
	EQUAL, LESS, AND, OR,
	REQUIRE, KEY, VALUE,
};
enum context { PID, TID, CPU, USER_ID, CGROUP_ID, TASK, RESULT, LATENCY, CALL };
enum load_flag { FROM_USER = 1, SIGNED = 2 };
enum verb { COUNT, SUM, HISTOGRAM };
enum loss { UNREADABLE, UNMATCHED, UNTRACKED, LOSSES };

/* Byte for byte what `ask/code.rs` writes. */
struct instruction {
	u8 op, to, a, b;
	u32 size;
	s64 number;
};
struct question {
	u32 instructions, arguments, verb;
	/* Whether a function's return needs what was noted at its call. */
	u32 needs_call;
	/* The system call, or below zero: all. */
	s64 call;
	struct instruction code[INSTRUCTIONS];
};
const volatile struct question question SEC(".rodata.question") = {};

struct key {
	u64 words[KEYS * TEXT_WORDS];
};
struct total {
	u64 count;
	s64 sum;
};
/* A call that has not returned. */
struct frame {
	u64 at, began;
	u64 arguments[CALL_ARGUMENTS];
};
struct frames {
	u64 depth;
	struct frame frame[NESTED];
};
struct event {
	u64 arguments[ARGUMENTS];
	u64 result, latency, call;
	/* Bits of the arguments that could not be read. */
	u64 unread;
};
/* The registers of a user's program at a probe: the form that x86-64 promises to user space. */
struct user_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

HASH(slots, 1, struct key, u32);
FREE_SLOTS(free_slots);
ARRAY(histograms, 1, struct bins);
ARRAY(totals, 1, struct total);
ARRAY(losses, LOSSES, u64);
TASK_STORAGE(calls, struct frames);

/* Whether all programs are attached: a call that is noted before its return can be seen would never be matched. */
ARRAY(is_attached, 1, u64);

static u64 (*const current_user)(void) = (void *)15;
static long (*const current_comm)(void *to, u32 size) = (void *)16;
static u64 (*const current_cgroup)(void) = (void *)80;
static long (*const read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*const read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;

INLINE bool has_begun(void)
{
	u32 only = 0;
	u64 *is_on = map_lookup(&is_attached, &only);
	return is_on && *is_on;
}

static __attribute__((noinline)) int record(struct key *key, s64 value)
{
	u32 is_new = 0, slot = slot_in(&slots, &free_slots, key, &is_new);
	struct total *total = map_lookup(&totals, &slot);
	if (!total)
		return 0;
	__sync_fetch_and_add(&total->count, 1);
	if (question.verb == COUNT)
		return 0;
	__sync_fetch_and_add(&total->sum, value);
	if (question.verb != HISTOGRAM)
		return 0;
	/* Two for each slot: of values from 0 on, and of those below. */
	u32 index = slot * 2 + (value < 0);
	u64 magnitude = value < 0 ? -(u64)value : value;
	struct bins *bins = map_lookup(&histograms, &index);
	u32 bin = bin_of(magnitude);
	/* The compiler knows that the bin fits, and the verifier does not: the mask is not to be left out. */
	asm volatile("" : "+r"(bin));
	if (bins)
		__sync_fetch_and_add(&bins->count[bin & (FLAT_BINS - 1)], 1);
	return 0;
}

INLINE u64 context_of(s64 which, struct event *event)
{
	switch (which) {
	case PID: return current_ids() >> 32;
	case TID: return (u32)current_ids();
	case CPU: return this_cpu();
	case USER_ID: return (u32)current_user();
	case CGROUP_ID: return current_cgroup();
	case TASK: return (u64)current_task();
	case RESULT: return event->result;
	case LATENCY: return event->latency;
	default: return event->call;
	}
}

INLINE s64 quotient(s64 a, s64 b)
{
	u64 size = (a < 0 ? -(u64)a : a) / (b < 0 ? -(u64)b : b);
	return (a < 0) == (b < 0) ? size : -size;
}

INLINE s64 combined(u8 op, s64 a, s64 b)
{
	switch (op) {
	case ADD: return (u64)a + (u64)b;
	case SUBTRACT: return (u64)a - (u64)b;
	case MULTIPLY: return (u64)a * (u64)b;
	case DIVIDE: return quotient(a, b);
	case REMAINDER: return (u64)a - (u64)quotient(a, b) * (u64)b;
	case BIT_AND: return a & b;
	case BIT_OR: return a | b;
	case BIT_XOR: return a ^ b;
	case SHIFT_LEFT: return (u64)a << (b & 63);
	case SHIFT_RIGHT: return a >> (b & 63);
	case EQUAL: return a == b;
	case LESS: return a < b;
	case AND: return a && b;
	default: return a || b;
	}
}

/* Whether it could be read. */
INLINE bool load(u64 *to, u64 from, u32 size, u8 flags)
{
	u64 word = 0;
	if (size == 0 || size > 8)
		return 0;
	long failed = flags & FROM_USER ? read_user(&word, size, (void *)from) : read_kernel(&word, size, (void *)from);
	*to = cut_to(word, size, flags & SIGNED);
	return failed == 0;
}

INLINE bool load_text(u64 *to, u64 from, u8 flags)
{
	to[0] = to[1] = to[2] = to[3] = 0;
	long length = flags & FROM_USER ? read_user_text(to, 8 * TEXT_WORDS, (void *)from)
					: read_kernel_text(to, 8 * TEXT_WORDS, (void *)from);
	return length >= 0;
}

/* Runs the question over an event. What could not be read is a bit in `bad`, and spoils what depends on it. */
INLINE int ask(struct event *event)
{
	u64 r[REGISTERS] = {};
	struct key key = {};
	u64 bad = 0;
	s64 value = 0;
#pragma clang loop unroll(disable)
	for (u32 at = 0; at < INSTRUCTIONS; at++) {
		if (at >= question.instructions)
			break;
		u8 op = question.code[at].op;
		u32 to = question.code[at].to & (REGISTERS - 1);
		u32 a = question.code[at].a & (REGISTERS - 1), b = question.code[at].b & (REGISTERS - 1);
		s64 number = question.code[at].number;
		bool is_bad = 0;
		switch (op) {
		case CONSTANT:
			r[to] = number;
			break;
		case ARGUMENT:
			if ((u64)number < ARGUMENTS)
				r[to] = event->arguments[number];
			is_bad = event->unread >> (number & 63) & 1;
			break;
		case CONTEXT:
			r[to] = context_of(number, event);
			break;
		case LOAD:
			is_bad = bad >> a & 1;
			if (!load(&r[to], r[a] + number, question.code[at].size, question.code[at].b))
				is_bad = 1;
			break;
		case TEXT:
			is_bad = bad >> a & 1;
			if (to > REGISTERS - TEXT_WORDS || !load_text(&r[to], r[a] + number, question.code[at].b))
				is_bad = 1;
			break;
		case COMM_TEXT:
			if (to > REGISTERS - TEXT_WORDS)
				return 0;
			current_comm(&r[to], 16);
			r[to + 2] = r[to + 3] = 0;
			break;
		case SAME_TEXT:
			if (a > REGISTERS - TEXT_WORDS || b > REGISTERS - TEXT_WORDS)
				return 0;
			is_bad = (bad >> a | bad >> b) & 1;
			r[to] = ((r[a] ^ r[b]) | (r[a + 1] ^ r[b + 1]) | (r[a + 2] ^ r[b + 2]) | (r[a + 3] ^ r[b + 3])) == 0;
			break;
		case REQUIRE:
			if (bad >> a & 1) {
				count_one(&losses, UNREADABLE);
				return 0;
			}
			if (r[a] == 0)
				return 0;
			continue;
		case KEY:
			bad |= (bad >> a & 1) << 63;
			if (to >= KEYS || a > REGISTERS - TEXT_WORDS)
				return 0;
			key.words[to * TEXT_WORDS] = r[a];
			if (number) {
				key.words[to * TEXT_WORDS + 1] = r[a + 1];
				key.words[to * TEXT_WORDS + 2] = r[a + 2];
				key.words[to * TEXT_WORDS + 3] = r[a + 3];
			}
			continue;
		case VALUE:
			bad |= (bad >> a & 1) << 63;
			value = r[a];
			continue;
		default:
			is_bad = (bad >> a | bad >> b) & 1;
			/* One side may decide alone, as in `next != 0 && next->pid == 3`. */
			if (op == AND && ((!(bad >> a & 1) && !r[a]) || (!(bad >> b & 1) && !r[b])))
				is_bad = 0;
			if (op == OR && ((!(bad >> a & 1) && r[a]) || (!(bad >> b & 1) && r[b])))
				is_bad = 0;
			if ((op == DIVIDE || op == REMAINDER) && r[b] == 0)
				is_bad = 1;
			r[to] = combined(op, r[a], r[b]);
		}
		bad = (bad & ~(1ull << to)) | (u64)is_bad << to;
	}
	if (bad >> 63) {
		count_one(&losses, UNREADABLE);
		return 0;
	}
	return record(&key, value);
}

/* Any tracepoint; which one is set before the program is loaded. */
SEC("tp_btf")
int on_point(u64 *ctx)
{
	struct event event = {};
	if (!is_watched(current_task()))
		return 0;
	/* As plain numbers: the question follows pointers by itself, and each reading is checked. */
	u32 arguments = question.arguments;
	if (arguments && arguments <= ARGUMENTS)
		read_kernel(event.arguments, arguments * 8, ctx);
	return ask(&event);
}

INLINE void copy_call(u64 *to, struct user_regs *ctx)
{
	to[0] = ctx->di;
	to[1] = ctx->si;
	to[2] = ctx->dx;
	to[3] = ctx->cx;
	to[4] = ctx->r8;
	to[5] = ctx->r9;
}

SEC("uprobe")
int on_function(struct user_regs *ctx)
{
	struct event event = {};
	if (!is_watched(current_task()))
		return 0;
	copy_call(event.arguments, ctx);
	return ask(&event);
}

/* A USDT probe; the cookie of the place says where its arguments are. */
SEC("uprobe")
int on_mark(struct user_regs *ctx)
{
	struct event event = {};
	if (!is_watched(current_task()))
		return 0;
	u32 first = (attach_cookie(ctx) & (LAYOUTS - 1)) * ARGUMENTS;
#pragma clang loop unroll(disable)
	for (u32 at = 0; at < ARGUMENTS; at++) {
		if (at >= question.arguments)
			break;
		if (!read_argument(&event.arguments[at], ctx, first + at))
			event.unread |= 1ull << at;
	}
	return ask(&event);
}

/* Notes a call until it returns. */
SEC("uprobe")
int on_function_call(struct user_regs *ctx)
{
	struct task_struct *task = current_task();
	if (!is_watched(task) || !has_begun())
		return 0;
	struct frames *frames = storage_get(&calls, task, 0, STORAGE_CREATE);
	if (!frames) {
		count_one(&losses, UNTRACKED);
		return 0;
	}
	u64 depth = frames->depth, at = ctx->sp;
	/* What is not above this one on the stack was left by a jump. */
#pragma clang loop unroll(disable)
	for (int left = 0; left < NESTED && depth; left++) {
		if (frames->frame[(depth - 1) & (NESTED - 1)].at > at)
			break;
		depth -= 1;
		count_one(&losses, UNMATCHED);
	}
	if (depth >= NESTED) {
		count_one(&losses, UNTRACKED);
		return 0;
	}
	struct frame *frame = &frames->frame[depth & (NESTED - 1)];
	frames->depth = depth + 1;
	frame->at = at;
	copy_call(frame->arguments, ctx);
	frame->began = clock_ns();
	return 0;
}

SEC("uretprobe")
int on_function_return(struct user_regs *ctx)
{
	u64 now = clock_ns();
	struct event event = {};
	struct task_struct *task = current_task();
	if (!is_watched(task))
		return 0;
	event.result = ctx->ax;
	if (!question.needs_call)
		return ask(&event);
	if (!has_begun())
		return 0;
	struct frames *frames = storage_get(&calls, task, 0, 0);
	/* Above the address to which it returns. */
	u64 depth = frames ? frames->depth : 0, at = ctx->sp - 8;
	struct frame *frame = 0;
#pragma clang loop unroll(disable)
	for (int left = 0; left < NESTED && frames && depth; left++) {
		struct frame *last = &frames->frame[(depth - 1) & (NESTED - 1)];
		if (last->at > at)
			break;
		depth -= 1;
		if (last->at == at) {
			frame = last;
			break;
		}
		count_one(&losses, UNMATCHED);
	}
	if (frames)
		frames->depth = depth;
	if (!frame) {
		count_one(&losses, UNMATCHED);
		return 0;
	}
	event.latency = now - frame->began;
	for (int index = 0; index < CALL_ARGUMENTS; index++)
		event.arguments[index] = frame->arguments[index];
	return ask(&event);
}

/* A system call at its return, with what was noted at its beginning. */
SEC("tp_btf/sys_enter")
int on_call(u64 *ctx)
{
	struct task_struct *task = current_task();
	s64 call = ctx[1];
	if ((question.call >= 0 && question.call != call) || !is_watched(task))
		return 0;
	struct frames *frames = storage_get(&calls, task, 0, STORAGE_CREATE);
	if (!frames) {
		count_one(&losses, UNTRACKED);
		return 0;
	}
	struct pt_regs *registers = (void *)ctx[0];
	struct frame *frame = &frames->frame[0];
	frames->depth = 1;
	frame->at = call;
	frame->arguments[0] = registers->di;
	frame->arguments[1] = registers->si;
	frame->arguments[2] = registers->dx;
	frame->arguments[3] = registers->r10;
	frame->arguments[4] = registers->r8;
	frame->arguments[5] = registers->r9;
	frame->began = clock_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int on_call_return(u64 *ctx)
{
	u64 now = clock_ns();
	struct event event = {};
	struct task_struct *task = current_task();
	struct frames *frames = storage_get(&calls, task, 0, 0);
	if (!frames || !frames->depth)
		return 0;
	struct frame *frame = &frames->frame[0];
	frames->depth = 0;
	event.call = frame->at;
	event.result = ctx[1];
	event.latency = now - frame->began;
	for (int index = 0; index < CALL_ARGUMENTS; index++)
		event.arguments[index] = frame->arguments[index];
	return ask(&event);
}

/* A tracepoint by its record: the first argument is where it begins. */
SEC("tracepoint")
int on_record(void *ctx)
{
	struct event event = {};
	if (!is_watched(current_task()))
		return 0;
	event.arguments[0] = (u64)ctx;
	return ask(&event);
}

/* A clock of the machine: whatever runs when it ticks, the idle task too. */
SEC("perf_event")
int on_interval(void *ctx)
{
	struct event event = {};
	if (config.filter != EVERY_TASK && !is_watched(current_task()))
		return 0;
	return ask(&event);
}

SEC("perf_event")
int on_tick(void *ctx)
{
	struct event event = {};
	if (!is_watched(current_task()))
		return 0;
	return ask(&event);
}

LICENSE;
