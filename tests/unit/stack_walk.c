// SPDX-License-Identifier: Apache-2.0
/* The unwinder over a stored stack. Compiled once for each architecture: WALK, UW_ARM64. */
#include <errno.h>
#include <string.h>

#include "stack_case.h"

static const struct stack_case *now;

/* What is not stored cannot be read. */
static int uw_read(void *dst, uint32_t n, uint64_t addr)
{
	uint8_t *to = dst;
	size_t i;

	for (i = 0; i < now->n_memory && n; i++) {
		const struct case_bytes *b = &now->memory[i];
		uint64_t have;

		if (addr < b->addr || addr >= b->addr + b->n)
			continue;
		have = b->addr + b->n - addr;
		if (have > n)
			have = n;
		memcpy(to, b->bytes + (addr - b->addr), have);
		to += have;
		addr += have;
		n -= (uint32_t)have;
	}
	return n ? -EFAULT : 0;
}

#define uw_peek uw_read

static struct mt_uw_map *uw_map_at(uint32_t i)
{
	return i < now->n_maps ? &now->maps[i] : NULL;
}

static struct mt_uw_page *uw_page_at(uint32_t i)
{
	return i < now->n_pages ? &now->pages[i] : NULL;
}

static struct mt_uw_rule *uw_rule_at(uint32_t i)
{
	return i < MT_UW_MAX_RULES ? &now->rules[i] : NULL;
}

static struct mt_uw_chunk *uw_chunk_at(uint32_t i)
{
	return i ? NULL : now->rows;
}

/* Nobody has put a return probe on a stored stack. */
#define uw_replaced(u) 0

#include "../../bpf/lib/unwind.bpf.h"

void WALK(const struct stack_case *c, struct case_walk *w);

void WALK(const struct stack_case *c, struct case_walk *w)
{
	static struct mt_uw u;

	now = c;
	memset(&u, 0, sizeof(u));
	memset(w, 0, sizeof(*w));
	u.pc = c->pc;
	u.sp = c->sp;
	u.fp = c->fp;
	u.lr = c->lr;
	memcpy(u.regs, c->more, sizeof(c->more));
#if !defined(UW_ARM64)
	u.regs_known = 1;
#endif
	u.exact = 1;
	u.n = c->n_maps;
	do {
		w->frames[w->n++] = u.pc;
	} while (!uw_step(&u) && w->n < CASE_FRAMES);
	w->end = u.rec.end;
	w->guessed = u.rec.guessed;
}
