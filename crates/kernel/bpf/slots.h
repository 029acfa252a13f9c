/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Slots: places of what is counted on its own. User space fills a stack with the free ones; what finds none counts in slot
 * 0, "other". Histograms of a slot are values of one array, so that one read takes all of their bins.
 */
#ifndef OGIVE_SLOTS_H
#define OGIVE_SLOTS_H

#include "kernel.h"
#include "bins.h"

#define FREE_SLOTS(name)                          \
	struct {                                  \
		NUMBER(type, MAP_STACK);          \
		NUMBER(max_entries, 1);           \
		u32 *value;                       \
	} name SEC(".maps")

/* The slot of a key, taken from `free` when the key is new. */
INLINE u32 slot_in(void *slots, void *free, const void *key, u32 *is_new)
{
	u32 *known = map_lookup(slots, key);
	if (known)
		return *known;
	u32 slot = 0;
	if (map_pop(free, &slot))
		return 0;
	/* Another CPU was quicker. */
	if (map_update(slots, key, &slot, NOEXIST)) {
		map_push(free, &slot, ANY);
		known = map_lookup(slots, key);
		return known ? *known : 0;
	}
	*is_new = 1;
	return slot;
}

#endif
