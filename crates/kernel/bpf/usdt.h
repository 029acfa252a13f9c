/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Arguments of USDT probes: in constants, registers and the program's memory, as its notes say. */
#ifndef OGIVE_USDT_H
#define OGIVE_USDT_H

#include "kernel.h"

#define LAYOUTS 64
#define ARGUMENTS 12
#define NO_REGISTER 255

/* Byte for byte what `ask/usdt.rs` writes. */
struct place {
	u8 is_memory, base, index, shift, bytes, is_signed, unused[2];
	s64 number;
};
/* Where the arguments are, for each way to pass them. */
const volatile struct place places[LAYOUTS * ARGUMENTS] SEC(".rodata.places") = {};

/* The lowest bytes of a word, 1 to 8. */
INLINE u64 cut_to(u64 word, u32 bytes, bool is_signed)
{
	u32 unused = (64 - bytes * 8) & 63;
	return is_signed ? (u64)((s64)(word << unused) >> unused) : word << unused >> unused;
}

/* By its place among the registers that the kernel saves. */
INLINE u64 saved_register(const void *ctx, u32 index)
{
	u64 word = 0;
	read_kernel(&word, sizeof(word), ctx + (index & 31) * sizeof(word));
	return word;
}

/* Whether it could be read. */
INLINE bool read_argument(u64 *to, const void *ctx, u32 at)
{
	if (at >= LAYOUTS * ARGUMENTS)
		return 0;
	const volatile struct place *place = &places[at];
	u64 word = place->number;
	u32 base = place->base, index = place->index, bytes = place->bytes;
	if (base != NO_REGISTER)
		word += saved_register(ctx, base);
	if (index != NO_REGISTER)
		word += saved_register(ctx, index) << (place->shift & 7);
	if (bytes == 0 || bytes > 8)
		return 0;
	long failed = 0;
	if (place->is_memory) {
		u64 address = word;
		word = 0;
		failed = read_user(&word, bytes, (void *)address);
	}
	*to = cut_to(word, bytes, place->is_signed);
	return failed == 0;
}

#endif
