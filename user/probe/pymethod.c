// SPDX-License-Identifier: Apache-2.0
/*
 * Functions of Python extension modules, by the names in their method tables.
 *
 * A PyMethodDef is { const char *name; PyCFunction fn; … } (CPython, methodobject.h).
 * In a shared object both are relocated words, so the table is in the relocations.
 */
#include "probe/pymethod.h"

#include <errno.h>

/* Instructions between the two addresses that a static initialiser makes. */
#define PAIR_WINDOW 8

struct tables {
	const struct addr_set *names; /* where the string is */
	struct addr_set *fn_slots; /* words behind those that point at it */
	struct addr_set *fns;
};

/* Tails of longer strings, because linkers merge those. */
void pymethod__names(const struct elf_image *img, const char *method, struct addr_set *at)
{
	size_t len = strlen(method) + 1, i;

	for (i = 0; i < img->nsegs; i++) {
		const struct elf_seg *seg = &img->segs[i];
		const uint8_t *base = img->data + seg->off, *p = base, *end = base + seg->filesz;

		if (!elf_image__spend(img, seg->filesz / 16, WORK_16BYTES))
			return;
		for (; (p = memmem(p, (size_t)(end - p), method, len)) &&
		       elf_image__spend(img, 1, WORK_STEP);
		     p++)
			addr_set__add(at, seg->vaddr + (uint64_t)(p - base));
	}
}

static int find_slots(void *ctx, const struct elf_reloc *r)
{
	struct tables *t = ctx;

	if (r->type == REL_RELATIVE && addr_set__has(t->names, (uint64_t)r->addend))
		addr_set__add(t->fn_slots, r->where + 8);
	return 0;
}

static int find_functions(void *ctx, const struct elf_reloc *r)
{
	struct tables *t = ctx;

	if (r->type == REL_RELATIVE && addr_set__has(t->fn_slots, r->where))
		addr_set__add(t->fns, (uint64_t)r->addend);
	return 0;
}

static bool is_start(struct elf_image *img, uint64_t addr)
{
	const struct fde *f = elf_image__fde_at(img, addr);

	return f && f->start == addr;
}

/*
 * Tables that a static initialiser fills (pybind-like code, GNU ld on x86-64):
 * `lea name` and soon after it `lea function`.
 */
static void find_pairs(struct elf_image *img, const struct addr_set *names, struct addr_set *fns)
{
	struct addr_set leas;
	size_t i, k, n;

	for (i = 0; i < names->n; i++) {
		scan__leas_of(img, names->v[i], &leas);
		for (k = 0; k < leas.n; k++) {
			uint64_t at = leas.v[k];
			struct insn in;
			int step;

			for (step = 0; step < PAIR_WINDOW; step++) {
				const uint8_t *p = elf_image__rest(img, at, &n);

				if (!p || insn__decode(img->machine, INSN_FULL, p, n, at, &in) ||
				    (in.kind != INSN_OTHER && in.kind != INSN_NOP_N))
					break;
				/* A second string before a function: not this kind of table. */
				if (step && in.value) {
					if (is_start(img, in.value))
						addr_set__add(fns, in.value);
					break;
				}
				at += in.len;
			}
		}
	}
}

int pymethod__find(struct elf_image *img, const char *method, uint64_t *vaddr)
{
	struct addr_set names = { 0 }, slots = { 0 }, fns = { 0 };
	struct tables t = { &names, &slots, &fns };
	uint64_t found = 0;
	size_t i;

	if (!*method)
		return -EINVAL;
	pymethod__names(img, method, &names);
	if (img->over)
		return -E2BIG;
	if (!names.n)
		return -ENOENT;
	elf_image__each_reloc(img, find_slots, &t);
	if (slots.n)
		elf_image__each_reloc(img, find_functions, &t);
	if (!fns.n)
		find_pairs(img, &names, &fns);
	if (img->over)
		return -E2BIG;
	if (names.over || slots.over || fns.over)
		return -EEXIST;
	for (i = 0; i < fns.n; i++) {
		if (!is_start(img, fns.v[i]))
			continue;
		if (found)
			return -EEXIST;
		found = fns.v[i];
	}
	if (!found)
		return -ENODATA;
	*vaddr = found;
	return 0;
}
