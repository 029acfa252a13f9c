/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The flat bin of a number of nanoseconds, by the rule of the histograms of Ogive: two leading decimal digits, cut off.
 * The same function is compiled for the kernel and, in tests, for user space.
 *
 * Needs u32, u64 and INLINE. Every u64 has a bin below FLAT_BINS.
 */
#ifndef OGIVE_BINS_H
#define OGIVE_BINS_H

#define FLAT_BINS 2048

struct bins {
	u32 count[FLAT_BINS];
};

static const u64 POWER_OF_TEN[32] = {
	1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull, 10000000ull, 100000000ull, 1000000000ull,
	10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull, 100000000000000ull,
	1000000000000000ull, 10000000000000000ull, 100000000000000000ull, 1000000000000000000ull,
	10000000000000000000ull, ~0ull,
};

/* Number of bits, less one. */
INLINE u32 log2_of(u64 value)
{
	u32 bits = 0;
	if (value >> 32) { value >>= 32; bits += 32; }
	if (value >> 16) { value >>= 16; bits += 16; }
	if (value >> 8) { value >>= 8; bits += 8; }
	if (value >> 4) { value >>= 4; bits += 4; }
	if (value >> 2) { value >>= 2; bits += 2; }
	return bits + (value >> 1 != 0);
}

INLINE u32 bin_of(u64 nanoseconds)
{
	if (nanoseconds < 10)
		return nanoseconds == 0 ? 0 : 1 + (u32)nanoseconds * 10 - 10;
	/* 1233 / 4096 is the logarithm of 2 to the base 10, a little too small: the decade, or one above it. */
	u32 decade = ((log2_of(nanoseconds) + 1) * 1233) >> 12;
	if (nanoseconds < POWER_OF_TEN[decade & 31])
		decade -= 1;
	u64 digits = nanoseconds / POWER_OF_TEN[(decade - 1) & 31];
	return (1 + decade * 90 + (u32)digits - 10) & (FLAT_BINS - 1);
}

#endif
