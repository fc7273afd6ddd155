/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of user/analyze share and nobody else sees. */
#ifndef MEMTAP_ANALYZE_INTERNAL_H
#define MEMTAP_ANALYZE_INTERNAL_H

#include <stdlib.h>
#include <string.h>

#include "analyze/analyze.h"
#include "base/base.h"

/* Room for one more in a vector of *cap; false: no memory. */
bool vec__grow(void **v, size_t n, size_t *cap, size_t size);
#define VEC_GROW(v, n, cap) vec__grow((void **)&(v), n, &(cap), sizeof(*(v)))

static inline struct hkey key_device(uint32_t pid, int32_t device)
{
	return (struct hkey){ pid, (uint32_t)device };
}

/* The block of an item. Of those without an id the address must do. */
static inline struct hkey item__key(const struct item *it)
{
	if (it->alloc)
		return (struct hkey){ it->alloc, it->pid };
	return (struct hkey){ it->ptr, 1ULL << 40 | (uint64_t)it->pool << 32 | it->pid };
}

/* ---- the words of owners (owner.c) ---- */

/*
 * How much of a stated owner rules may replace: SIZE_MAX: it stands, whole.
 * Labels of the program's own (@label) say nothing of the kind of memory.
 */
size_t owner__weak(const char *owner, enum row_type type, bool refine);
/* The owner of a block of which no more is known than its pool. */
const char *owner__of_pool(enum row_type type);

/* ---- rules on a block ---- */

enum rule_text { RULE_PYTHON, RULE_C, RULE_OP, RULE_READS, RULE_WRITES, RULE_TEXTS };

/* What is known of a block when it has ended. */
struct rule_block {
	enum row_type type;
	bool other_thread, accessed;
	uint64_t ends, step, calls;
	int64_t size;
	uint64_t match[RULE_TEXTS]; /* by rules__match, of all texts that belong to it */
	bool stack[2]; /* it has one: RULE_PYTHON, RULE_C */
};

struct rule_found {
	const char *label;
	double confidence;
	unsigned int number; /* from 1 */
};

/* Which expressions of this kind match the text: a bit each. */
uint64_t rules__match(struct rules *r, enum rule_text kind, const struct texts *t, uint32_t text,
		      int *err);
/* Other texts come now. */
void rules__forget(struct rules *r);
bool rules__find(const struct rules *r, const struct rule_block *b, struct rule_found *f);

/* ---- the shortest edit of two sequences (myers.c) ---- */

enum edit { EDIT_SAME, EDIT_ADD, EDIT_DELETE };

/*
 * The greedy algorithm of Myers, with the choices that msleaks.md 5.3 tells.
 * *edits: malloced, in forward order. 0, -ENOMEM or -E2BIG: more than max_d
 * edits.
 */
int myers__diff(const uint32_t *a, size_t n, const uint32_t *b, size_t m, size_t max_d,
		uint8_t **edits, size_t *n_edits);

#endif
