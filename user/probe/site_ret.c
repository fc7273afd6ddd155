// SPDX-License-Identifier: Apache-2.0
/* All the returns of a function, found by following its control flow. */
#include "probe/func.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A function has its body and at most a few pieces split off. */
#define MAX_PARTS 8
/* Entries of one jump table looked at. */
#define MAX_TABLE 4096

struct part {
	struct func f;
	uint8_t *seen; /* an instruction was reached, by index */
};

struct flow {
	struct elf_image *img;
	struct part parts[MAX_PARTS];
	size_t nparts;
	uint64_t *todo; /* addresses to go on from */
	size_t ntodo, cap;
	bool gaps; /* code is reached by tables or exceptions too */
	bool tables;
};

static int add_part(struct flow *fl, uint64_t start, uint64_t end)
{
	struct part *p = &fl->parts[fl->nparts];
	int err;

	if (fl->nparts == MAX_PARTS)
		return -EOPNOTSUPP;
	err = func__decode(fl->img, start, end, INSN_FULL, &p->f);
	if (err)
		return err;
	fl->nparts++;
	p->seen = calloc(p->f.n + 1, 1);
	if (!p->seen)
		return -ENOMEM;
	/* Data between code, or not code at all: the boundaries cannot be trusted. */
	return p->f.exact ? 0 : -EINVAL;
}

static int later(struct flow *fl, uint64_t addr)
{
	uint64_t *v;

	if (fl->ntodo == fl->cap) {
		fl->cap = fl->cap ? fl->cap * 2 : 64;
		v = realloc(fl->todo, fl->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		fl->todo = v;
	}
	fl->todo[fl->ntodo++] = addr;
	return 0;
}

static struct part *part_of(struct flow *fl, uint64_t addr)
{
	size_t i;

	for (i = 0; i < fl->nparts; i++)
		if (addr >= fl->parts[i].f.start && addr < fl->parts[i].f.end)
			return &fl->parts[i];
	return NULL;
}

static int exception_table(struct flow *fl, const struct fde *fde)
{
	struct fde_detail d;

	if (elf_image__fde_detail(fl->img, fde, &d))
		return -EINVAL;
	fl->gaps |= d.lsda != 0;
	return 0;
}

/* A branch leads to `target`: go on there, add a cold part, or give up. */
static int branch(struct flow *fl, uint64_t target)
{
	const struct func *own = &fl->parts[0].f;
	const struct fde *fde;
	int err;

	if (!part_of(fl, target)) {
		fde = elf_image__fde_at(fl->img, target);
		if (!fde || !fde__is_part_of(fl->img, fde, own->start, own->end))
			return -EOPNOTSUPP; /* a call in tail position */
		err = add_part(fl, fde->start, fde->end);
		if (!err)
			err = exception_table(fl, fde);
		if (err)
			return err;
	}
	return later(fl, target);
}

/* Follow straight-line code from addr until it leaves or was seen. */
static int follow(struct flow *fl, uint64_t addr)
{
	struct part *p = part_of(fl, addr);
	ssize_t i = func__index(&p->f, addr);
	size_t k;
	int err;

	if (i < 0)
		return -EINVAL; /* into the middle of an instruction */
	for (k = (size_t)i; k < p->f.n && !p->seen[k]; k++) {
		const struct insn *in = &p->f.v[k];

		p->seen[k] = 1;
		switch (in->kind) {
		case INSN_JMP:
			return branch(fl, in->target);
		case INSN_JCC:
			err = branch(fl, in->target);
			if (err)
				return err;
			break;
		case INSN_JMP_IND:
			if (!func__is_switch(&p->f, k))
				return -EOPNOTSUPP;
			fl->gaps = fl->tables = true;
			return 0;
		case INSN_RET:
		case INSN_STOP:
			return 0;
		default:
			break; /* calls too; behind one that does not return there is other code */
		}
	}
	return 0;
}

static int drain(struct flow *fl)
{
	int err = 0;

	while (!err && fl->ntodo)
		err = follow(fl, fl->todo[--fl->ntodo]);
	return err;
}

/*
 * Cases of a switch may lie in a cold part that no direct branch leads to (rare:
 * 4 of 45 switches of torch_npu 2.14.0). x86-64: a `lea` of a constant may be a
 * table of 32-bit distances from itself; the first entry that leads out of the
 * function ends it, or leads to such a part. Where the tables of aarch64 end is
 * not known, and none is looked for.
 */
static int parts_of_tables(struct flow *fl)
{
	const struct func *f = &fl->parts[0].f;
	size_t i, k, n;
	int err = 0;

	for (i = 0; i < f->n && !err; i++) {
		uint64_t table = f->v[i].value, t = 0;
		const uint8_t *p = NULL;
		const struct fde *fde;

		if (table && fl->img->machine == EM_X86_64)
			p = elf_image__rest(fl->img, table, &n);
		if (!p)
			continue;
		for (k = 0; k < MT_MIN(n / 4, (size_t)MAX_TABLE); k++) {
			t = table + (uint64_t)(int64_t)(int32_t)rd32(p + k * 4);
			if (t < f->start || t >= f->end)
				break;
		}
		if (!elf_image__spend(fl->img, k, WORK_BYTE))
			return -E2BIG;
		fde = elf_image__fde_at(fl->img, t);
		if (fde && !part_of(fl, t) && fde__leads_back(fl->img, fde, f->start, f->end))
			err = add_part(fl, fde->start, fde->end);
	}
	return err;
}

/* Cases of a switch and landing pads: what lies between the code reached so far. */
static int fill_gaps(struct flow *fl)
{
	size_t i, k;
	int err = 0;

	for (i = 0; i < fl->nparts && !err; i++) {
		for (k = 0; k < fl->parts[i].f.n && !err; k++) {
			const struct insn *in = &fl->parts[i].f.v[k];

			/* padding: int3 and nops, which lead nowhere themselves */
			if (fl->parts[i].seen[k] || in->kind == INSN_NOP ||
			    in->kind == INSN_NOP_N || in->kind == INSN_STOP)
				continue;
			err = later(fl, in->addr);
			if (!err)
				err = drain(fl);
		}
	}
	return err;
}

static int ret_cmp(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static int collect(struct flow *fl, struct site *out, int max)
{
	size_t i, k;
	int n = 0;

	for (i = 0; i < fl->nparts; i++) {
		const struct part *p = &fl->parts[i];

		for (k = 0; k < p->f.n; k++) {
			const struct insn *in = &p->f.v[k];

			if (!p->seen[k] || in->kind != INSN_RET)
				continue;
			if (n == max)
				return -ENOSPC;
			if (in->refused)
				return -ENOTSUP;
			out[n] = (struct site){ .vaddr = in->addr,
						.cost = in->emulated ? SITE_EMULATED
								     : SITE_STEPPED };
			snprintf(out[n].insn, sizeof(out[n].insn), "%s", in->text);
			if (elf_image__offset(fl->img, in->addr, &out[n].off))
				return -EINVAL;
			n++;
		}
	}
	qsort(out, (size_t)n, sizeof(*out), ret_cmp);
	return n;
}

int site__returns(struct elf_image *img, uint64_t vaddr, struct site *out, int max)
{
	struct flow fl = { .img = img };
	const struct fde *fde = elf_image__fde_at(img, vaddr);
	struct fde bounds;
	size_t i;
	int err;

	err = func__bounds(img, vaddr, &bounds);
	if (err)
		return -EINVAL;
	err = add_part(&fl, bounds.start, bounds.end);
	if (!err && fde)
		err = exception_table(&fl, fde);
	if (!err)
		err = later(&fl, vaddr);
	if (!err && bounds.start != vaddr)
		err = later(&fl, bounds.start);
	if (!err)
		err = drain(&fl);
	if (!err && fl.tables)
		err = parts_of_tables(&fl);
	if (!err && fl.gaps)
		err = fill_gaps(&fl);
	if (!err)
		err = collect(&fl, out, max);
	for (i = 0; i < fl.nparts; i++) {
		func__free(&fl.parts[i].f);
		free(fl.parts[i].seen);
	}
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): all parts were freed above */
	free(fl.todo);
	return err;
}
