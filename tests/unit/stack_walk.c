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

static void start(struct mt_uw *u, const struct stack_case *c, uint32_t gen)
{
	u->pc = c->pc;
	u->sp = c->sp;
	u->fp = c->fp;
	u->lr = c->lr;
	memcpy(u->regs, c->more, sizeof(c->more));
#if !defined(UW_ARM64)
	u->regs_known = 1;
#endif
	u->exact = 1;
	u->n = c->n_maps;
	u->gen = gen;
	u->limit = 0;
	u->map = 0;
	u->fp_lost = u->sp_lost = 0;
	u->window_size = u->slot = 0;
	memset(&u->rec, 0, sizeof(u->rec));
}

/* Where the frames that uw_run goes up lead: to where each by itself does. */
static void in_runs(const struct stack_case *c, struct case_walk *w)
{
	static struct mt_uw a, b;
	static uint32_t gen;

	memset(&a, 0, sizeof(a));
	start(&a, c, ++gen);
	while (!uw_step(&a))
		;
	memcpy(&b, &a, sizeof(b)); /* what it remembers, too */
	start(&b, c, gen);
	w->in_runs = 0;
	do {
		uint32_t n = b.rec.n;

		uw_run(&b);
		w->in_runs += b.rec.n - n;
	} while (!uw_step(&b));
	w->same = a.rec.n == b.rec.n && a.rec.end == b.rec.end && a.pc == b.pc && a.sp == b.sp &&
		  a.fp == b.fp && a.fp_lost == b.fp_lost && a.sp_lost == b.sp_lost &&
		  a.slot == b.slot && a.regs_known == b.regs_known && a.exact == b.exact &&
		  a.rec.guessed == b.rec.guessed &&
		  !memcmp(a.rec.hash, b.rec.hash, sizeof(a.rec.hash)) &&
		  !memcmp(a.frames, b.frames, a.rec.n * sizeof(a.frames[0]));
}

void WALK(const struct stack_case *c, struct case_walk *w)
{
	static struct mt_uw u;

	now = c;
	memset(&u, 0, sizeof(u));
	memset(w, 0, sizeof(*w));
	start(&u, c, 0);
	do {
		w->frames[w->n++] = u.pc;
	} while (!uw_step(&u) && w->n < CASE_FRAMES);
	w->end = u.rec.end;
	w->guessed = u.rec.guessed;
	in_runs(c, w);
}
