// SPDX-License-Identifier: Apache-2.0
/*
 * The getters of MindSpore's pools, for the test of the derivation. -DFLAT: without
 * address ranges and what is besides; -DTANGLED: a getter that is not understood.
 */
#include <stddef.h>

typedef unsigned long word;

struct stats {
	word used, peak, alloc, besides, by_event;
};

struct newer {
	const void *const *vptr;
	word pad[26];
	struct stats *stats; /* 0xd8 */
	word count;
	char vmm; /* 0xe8 */
};

struct part {
	word unit, total, used;
};

struct older {
	const void *const *vptr;
	word pad[11];
	struct part *common; /* 0x60 */
	word count;
	struct part *persistent; /* 0x70 */
};

#define ABSTRACT(x) __asm__("_ZNK9mindspore6device22AbstractDynamicMemPool" x)
#define BEST_FIT(x) __asm__("_ZNK9mindspore6device21DynamicMemPoolBestFit" x)

word newer_used(const struct newer *p) ABSTRACT("22TotalUsedMemStatisticsEv");
word newer_total(const struct newer *p) ABSTRACT("18TotalMemStatisticsEv");
word older_used(const struct older *p) BEST_FIT("22TotalUsedMemStatisticsEv");
word older_total(const struct older *p) BEST_FIT("18TotalMemStatisticsEv");

word newer_used(const struct newer *p)
{
#ifdef TANGLED
	return p->stats->used + p->stats->by_event;
#else
	return p->stats->used;
#endif
}

static word mapped(const void *p)
{
	return ((word(*)(const void *))(*(const void *const *const *)p)[28])(p);
}

word newer_total(const struct newer *p)
{
#ifdef FLAT
	return p->stats->alloc;
#else
	if (p->vmm)
		return mapped(p) + p->stats->besides;
	return p->stats->alloc + p->stats->besides;
#endif
}

word older_used(const struct older *p)
{
	return p->common->used + p->persistent->used;
}

word older_total(const struct older *p)
{
	word range = mapped(p);

	return range ? range : p->common->total + p->persistent->total;
}
