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
	10000000000000000000ull,
};

/*
 * Decimal digits, less one. Durations of one kind mostly have as many digits, so that a CPU foresees each of these
 * branches; those for binary digits it does not.
 */
INLINE u32 decade_of(u64 value)
{
	u32 decade = 0;
	if (value >= POWER_OF_TEN[16]) {
		decade = 16;
	} else {
		if (value >= POWER_OF_TEN[8])
			decade = 8;
		if (value >= POWER_OF_TEN[decade + 4])
			decade += 4;
	}
	if (value >= POWER_OF_TEN[decade + 2])
		decade += 2;
	if (value >= POWER_OF_TEN[decade + 1])
		decade += 1;
	return decade;
}

INLINE u32 bin_of(u64 nanoseconds)
{
	u32 bin;
	if (nanoseconds < 10) {
		bin = nanoseconds == 0 ? 0 : 1 + (u32)nanoseconds * 10 - 10;
	} else {
		u32 decade = decade_of(nanoseconds);
		bin = 1 + decade * 90 + (u32)(nanoseconds / POWER_OF_TEN[(decade - 1) & 31]) - 10;
	}
#ifdef __bpf__
	/* In a register, where the verifier sees the bound on every way. */
	__asm__ volatile("" : "+r"(bin));
#endif
	return bin & (FLAT_BINS - 1);
}

#endif
