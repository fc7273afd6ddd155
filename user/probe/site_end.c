// SPDX-License-Identifier: Apache-2.0
/*
 * Where a function's end can be seen at the price of an emulated instruction (x86-64, where
 * kernels step `ret`): a branch behind its last work that every way to a `ret` comes by once.
 */
#include "probe/func.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_INSNS 4000
#define MAX_CANDIDATES 64
#define FREES 2 /* calls that clean up */
#define LOST INT32_MIN

struct walk {
	struct elf_image *img;
	struct func f;
	size_t *todo;
	uint8_t *seen;
	uint8_t *join; /* a branch leads here */
	int32_t *sp; /* sp there - sp at the entry, LOST where it is not known */
};

/* Indices that instruction i goes on to, -1 = outside; how many. */
static int next_of(const struct func *f, size_t i, ssize_t out[2])
{
	const struct insn *in = &f->v[i];
	int n = 0;

	switch (in->kind) {
	case INSN_RET:
	case INSN_STOP:
	case INSN_JMP_IND:
		return 0;
	case INSN_JMP:
	case INSN_JCC:
		if (in->target >= f->start && in->target < f->end)
			out[n++] = func__index(f, in->target);
		if (in->kind == INSN_JMP)
			return n;
		break;
	default:
		break;
	}
	out[n++] = i + 1 < f->n ? (ssize_t)i + 1 : -1;
	return n;
}

/* Marks what is reached from `from`, but not through `without`. False: something is unclear. */
static bool reach(struct walk *w, size_t from, ssize_t without)
{
	size_t n = 0;
	ssize_t next[2];
	int k, m;

	memset(w->seen, 0, w->f.n);
	w->todo[n++] = from;
	w->seen[from] = 1;
	while (n) {
		size_t i = w->todo[--n];

		m = next_of(&w->f, i, next);
		for (k = 0; k < m; k++) {
			if (next[k] < 0)
				return false;
			if (next[k] == without || w->seen[next[k]])
				continue;
			w->seen[next[k]] = 1;
			w->todo[n++] = (size_t)next[k];
		}
	}
	return elf_image__spend(w->img, w->f.n, 1);
}

static void find_joins(struct walk *w)
{
	size_t i;
	ssize_t t;

	for (i = 0; i < w->f.n; i++) {
		const struct insn *in = &w->f.v[i];

		t = in->kind == INSN_JMP || in->kind == INSN_JCC ? func__index(&w->f, in->target)
								 : -1;
		if (t >= 0)
			w->join[t] = 1;
	}
}

static void track_sp(struct walk *w)
{
	size_t n = 0, i;
	ssize_t next[2];
	int k, m;

	for (i = 0; i < w->f.n; i++)
		w->sp[i] = LOST;
	memset(w->seen, 0, w->f.n);
	w->sp[0] = 0;
	w->seen[0] = 1;
	w->todo[n++] = 0;
	while (n) {
		const struct insn *in;
		int32_t after;

		i = w->todo[--n];
		in = &w->f.v[i];
		after = in->sp_lost || w->sp[i] == LOST ? LOST : w->sp[i];
		if (after != LOST && in->kind != INSN_CALL && in->kind != INSN_CALL_IND)
			after += in->sp_delta;
		m = next_of(&w->f, i, next);
		for (k = 0; k < m; k++) {
			if (next[k] < 0)
				continue;
			if (w->seen[next[k]]) {
				if (w->sp[next[k]] != after)
					w->sp[next[k]] = LOST;
				continue;
			}
			w->seen[next[k]] = 1;
			w->sp[next[k]] = after;
			w->todo[n++] = (size_t)next[k];
		}
	}
}

static bool has_ret(const struct walk *w)
{
	size_t i;

	for (i = 0; i < w->f.n; i++)
		if (w->seen[i] && w->f.v[i].kind == INSN_RET)
			return true;
	return false;
}

static bool is_kept(int reg)
{
	return reg == 3 || reg == 5 || reg >= 12; /* rbx, rbp, r12 to r15 */
}

/*
 * What rax gets before a `ret`, in the straight code there; when it gets nothing and `at` leads
 * there, it has it already.
 */
static bool value_of(const struct walk *w, size_t at, size_t ret, struct site_value *v)
{
	size_t i;

	for (i = ret;; i--) {
		const struct insn *in;

		if (w->join[i]) {
			*v = (struct site_value){ .from = VALUE_RC };
			return w->f.v[at].target == w->f.v[i].addr;
		}
		if (!i)
			return false;
		in = &w->f.v[i - 1];

		if (in->kind != INSN_OTHER && in->kind != INSN_PUSH && in->kind != INSN_NOP &&
		    in->kind != INSN_NOP_N)
			return false;
		if (!(in->writes & 1))
			continue;
		if (in->copy_of >= 0 && in->dst == 0 && is_kept(in->copy_of)) {
			*v = (struct site_value){ .from = VALUE_REG, .reg = (uint8_t)in->copy_of };
			return true;
		}
		if (in->load && in->dst == 0 && in->mem_size == 8 && in->mem_base == 5 &&
		    in->mem_index < 0 && in->mem_disp == (int32_t)in->mem_disp) {
			*v = (struct site_value){ .from = VALUE_MEM,
						  .reg = 5,
						  .disp = (int32_t)in->mem_disp };
			return true;
		}
		return false;
	}
	return false;
}

/* Behind `at` only calls of other libraries (free), and nothing that changes where the value is. */
static bool quiet(struct walk *w, size_t at, struct site_value *v)
{
	bool first = true;
	unsigned int calls = 0;
	struct site_value x = { 0 };
	size_t i;

	for (i = 0; i < w->f.n; i++) {
		const struct insn *in = &w->f.v[i];

		if (!w->seen[i])
			continue;
		if (in->kind == INSN_CALL_IND ||
		    (in->kind == INSN_CALL && !code__is_stub(w->img, in->target)))
			return false;
		calls += in->kind == INSN_CALL;
		if (in->kind != INSN_RET)
			continue;
		if (!value_of(w, at, i, &x))
			x = (struct site_value){ 0 };
		if (!first && (x.from != v->from || x.reg != v->reg || x.disp != v->disp))
			return false;
		*v = x;
		first = false;
	}
	for (i = 0; i < w->f.n && v->from > VALUE_RC; i++) {
		const struct insn *in = &w->f.v[i];

		/* The word in the frame must be there already. */
		if (w->seen[i] && v->from == VALUE_MEM && in->store && in->mem_base == v->reg &&
		    in->mem_disp == v->disp)
			return false;
		/* pop is how the epilogue gives it back */
		if (w->seen[i] && i != at && in->writes >> v->reg & 1 && in->sp_delta != 8)
			return false;
	}
	return !first && calls <= FREES;
}

/* What a function does for its caller it has an indirect call do, before this. */
static bool calls_on(const struct walk *w)
{
	size_t i;

	for (i = 0; i < w->f.n; i++)
		if (w->seen[i] && w->f.v[i].kind == INSN_CALL_IND)
			return true;
	return false;
}

int site__end(struct elf_image *img, uint64_t vaddr, struct site *out, struct site_value *value)
{
	struct walk w = { .img = img };
	ssize_t best = -1, next[2];
	size_t i, n = 0, cost, least = SIZE_MAX;
	struct site_value v = { 0 };
	struct fde bounds;
	int err, k, m;

	if (img->machine != EM_X86_64)
		return -ENOTSUP;
	err = func__bounds(img, vaddr, &bounds);
	if (!err && bounds.start != vaddr)
		err = -ENOTSUP;
	if (!err)
		err = func__decode(img, bounds.start, bounds.end, INSN_FULL, &w.f);
	if (err)
		return err;
	err = -ENOENT;
	if (!w.f.exact || !w.f.n || w.f.n > MAX_INSNS)
		goto out;
	w.todo = calloc(w.f.n + 2, sizeof(*w.todo));
	w.seen = calloc(w.f.n, 1);
	w.join = calloc(w.f.n, 1);
	w.sp = calloc(w.f.n, sizeof(*w.sp));
	if (!w.todo || !w.seen || !w.join || !w.sp) {
		err = -ENOMEM;
		goto out;
	}
	find_joins(&w);
	track_sp(&w);
	for (i = 1; i < w.f.n && n < MAX_CANDIDATES; i++) {
		const struct insn *in = &w.f.v[i];

		if ((in->kind != INSN_JCC && in->kind != INSN_JMP) || !in->emulated ||
		    in->refused || w.sp[i] == LOST || -w.sp[i] > INT16_MAX)
			continue;
		n++;
		/* Some way goes around it, or nothing has been done yet. */
		if (!reach(&w, 0, (ssize_t)i) || has_ret(&w) || !calls_on(&w))
			continue;
		m = next_of(&w.f, i, next);
		if (!reach(&w, i, -1) || !has_ret(&w))
			continue;
		for (k = 0; k < m; k++)
			if (next[k] < 0)
				break;
		if (k < m || !quiet(&w, i, &v))
			continue;
		/* once: it must not come back to itself */
		for (cost = 0, k = 0; k < (int)w.f.n; k++)
			cost += w.seen[k];
		if (cost >= least)
			continue;
		for (k = 0; k < m; k++)
			if (!reach(&w, (size_t)next[k], -1) || w.seen[i])
				break;
		if (k < m)
			continue;
		best = (ssize_t)i;
		least = cost;
		*value = v;
	}
	if (best < 0)
		goto out;
	memset(out, 0, sizeof(*out));
	out->vaddr = w.f.v[best].addr;
	out->sp_off = -w.sp[best];
	out->cost = SITE_EMULATED;
	snprintf(out->insn, sizeof(out->insn), "%s", w.f.v[best].text);
	err = elf_image__offset(img, out->vaddr, &out->off);
out:
	func__free(&w.f);
	free(w.todo);
	free(w.seen);
	free(w.join);
	free(w.sp);
	return err;
}
