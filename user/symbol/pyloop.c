// SPDX-License-Identifier: Apache-2.0
/*
 * The evaluation loop of an interpreter: which addresses are C frames that run Python
 * frames. It is one exported function, with what the compiler has split off or cloned;
 * of split pieces a stripped file has no names, but the loop jumps there.
 */
#include <string.h>

#include "probe/elf.h"
#include "probe/func.h"
#include "symbol/python.h"

#define LOOP "_PyEval_EvalFrameDefault"

static void add_part(struct py_loop *l, uint64_t bias, const struct fde *f)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (l->part[i].start == f->start + bias)
			return;
	if (l->n < PY_LOOP_PARTS)
		l->part[l->n++] = (struct py_loop_part){ f->start + bias, f->end + bias };
}

/* What the code from start to end jumps to and is a piece of it. */
static void add_split(struct elf_image *img, uint64_t bias, const struct fde *hot,
		      struct py_loop *l)
{
	const struct fde *f;
	struct func code;
	size_t i;

	if (func__decode(img, hot->start, hot->end, INSN_FLOW, &code))
		return;
	for (i = 0; i < code.n; i++) {
		const struct insn *in = &code.v[i];

		if ((in->kind != INSN_JMP && in->kind != INSN_JCC) ||
		    (in->target >= hot->start && in->target < hot->end) ||
		    py_loop__has(l, in->target + bias))
			continue;
		f = elf_image__fde_at(img, in->target);
		if (f && fde__is_part_of(img, f, hot->start, hot->end))
			add_part(l, bias, f);
	}
	func__free(&code);
}

/* "LOOP.constprop.0", "LOOP.cold", "LOOP.lto_priv.1": not "LOOPing". */
static bool is_loop(const char *name)
{
	size_t n = strlen(LOOP);

	return strncmp(name, LOOP, n) == 0 && (!name[n] || name[n] == '.');
}

void py_loop__find(struct elf_image *img, uint64_t bias, struct py_loop *l)
{
	uint64_t vaddr, size;
	struct fde f;
	size_t i;

	memset(l, 0, sizeof(*l));
	/* Asking for one name reads them all. */
	(void)elf_image__symbol(img, LOOP, &vaddr, &size);
	for (i = 0; i < img->nsyms; i++) {
		const struct elf_sym *s = &img->syms[i];

		if (!is_loop(s->name) || func__bounds(img, s->vaddr, &f))
			continue;
		add_part(l, bias, &f);
		add_split(img, bias, &f, l);
	}
}

bool py_loop__has(const struct py_loop *l, uint64_t addr)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (addr >= l->part[i].start && addr < l->part[i].end)
			return true;
	return false;
}
