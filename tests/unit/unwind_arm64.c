// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of aarch64 code against the code: every way through a function is followed, and
 * at each instruction the rule must give the values that sp, x29 and x30 had at its entry.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

#define SLOTS 8
#define MAX_WRONG 128
#define UNKNOWN INT64_MIN

/* What is known of the registers, as distances below the sp of the entry (the CFA). */
struct state {
	int64_t sp, x29; /* CFA - value; UNKNOWN */
	bool has_x29, has_x30; /* the registers are as at the entry */
	struct {
		int64_t below; /* CFA - address */
		uint8_t reg;
	} slot[SLOTS]; /* where they are stored */
	uint32_t n_slots;
	/* A constant in a register, for frames that take more than an immediate. */
	uint32_t const_reg;
	int64_t constant;
};

struct file {
	struct elf_image *img;
	struct unwind_table *t;
	const struct fde *fdes;
	size_t n_fdes;
	size_t instructions, wrong, functions;
	uint64_t wrong_at[MAX_WRONG];
	size_t by_fp, by_lr, no_record, records, other;
};

struct walk {
	struct file *f;
	uint64_t start;
	uint32_t n; /* instructions */
	const uint32_t *code;
	struct state *at; /* at each instruction */
	uint8_t *seen;
	uint32_t *todo, n_todo;
	uint32_t *later,
		n_later; /* behind calls, which may not return: other ways there go first */
};

static bool stored(const struct state *s, int reg, int64_t below)
{
	uint32_t i;

	/* Memory below sp is anybody's. */
	for (i = 0; i < s->n_slots; i++)
		if (s->slot[i].reg == reg && s->slot[i].below == below)
			return s->sp == UNKNOWN || below <= s->sp;
	return false;
}

static void store(struct state *s, int reg, int64_t below)
{
	bool as_entered = reg == 29 ? s->has_x29 : s->has_x30;
	uint32_t i;

	if ((reg != 29 && reg != 30) || !as_entered || stored(s, reg, below) || s->n_slots == SLOTS)
		return;
	i = s->n_slots++;
	s->slot[i].below = below;
	s->slot[i].reg = (uint8_t)reg;
}

static void load(struct state *s, int reg, int64_t below)
{
	bool good = stored(s, reg, below);

	if (reg == 29) {
		s->has_x29 = good;
		s->x29 = UNKNOWN;
	} else if (reg == 30) {
		s->has_x30 = good;
	}
}

static void lose(struct state *s, int reg)
{
	if (reg == 29) {
		s->has_x29 = false;
		s->x29 = UNKNOWN;
	} else if (reg == 30) {
		s->has_x30 = false;
	}
}

/* Distance of the register that an address begins with; UNKNOWN if it is another. */
static int64_t base_of(const struct state *s, uint32_t reg)
{
	return reg == 31 ? s->sp : reg == 29 ? s->x29 : UNKNOWN;
}

static void set_base(struct state *s, uint32_t reg, int64_t to)
{
	if (reg == 31) {
		s->sp = to;
	} else if (reg == 29) {
		s->x29 = to;
		s->has_x29 = false;
	}
}

/* ldp, stp; ldr, str with an immediate. mode: 1 post, 2 offset, 3 pre. */
static void memory(struct state *s, uint32_t rn, int64_t imm, int mode, bool is_load,
		   const int *regs, int n, int64_t size)
{
	int64_t base = base_of(s, rn), at;
	int i;

	if (mode == 3 && base != UNKNOWN)
		set_base(s, rn, base - imm);
	at = base == UNKNOWN ? UNKNOWN : mode == 1 ? base : base - imm;
	/* Loads that undo a push: the register before sp moves. */
	for (i = 0; i < n; i++) {
		if (is_load && at != UNKNOWN)
			load(s, regs[i], at - i * size);
		else if (is_load)
			lose(s, regs[i]);
		else if (at != UNKNOWN)
			store(s, regs[i], at - i * size);
	}
	if (mode == 1 && base != UNKNOWN)
		set_base(s, rn, base - imm);
}

static int64_t sign_extend(uint32_t v, int bits)
{
	return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

static bool pairs(struct state *s, uint32_t c)
{
	int regs[2] = { (int)(c & 31), (int)(c >> 10 & 31) }, mode = (int)(c >> 23 & 3);
	bool vector = c >> 26 & 1;
	int64_t size;

	if ((c >> 27 & 7) != 5 || (c >> 25 & 1))
		return false;
	size = vector ? 4 << (c >> 30) : c >> 31 ? 8 : 4;
	if (vector || size == 4)
		regs[0] = regs[1] = 0;
	memory(s, c >> 5 & 31, sign_extend(c >> 15 & 127, 7) * size, mode ? mode : 2, c >> 22 & 1,
	       regs, 2, size);
	return true;
}

static bool singles(struct state *s, uint32_t c)
{
	bool vector = c >> 26 & 1, is_load = (c >> 22 & 3) != 0;
	int reg = vector || c >> 30 != 3 ? 0 : (int)(c & 31);

	if ((c >> 27 & 7) != 7)
		return false;
	if ((c >> 24 & 3) == 1) { /* unsigned offset */
		memory(s, c >> 5 & 31, (int64_t)(c >> 10 & 0xfff) * 8, 2, is_load, &reg, 1, 8);
	} else if ((c >> 24 & 3) == 0 && !(c >> 21 & 1)) { /* pre, post, unscaled */
		int mode = (int)(c >> 10 & 3);

		memory(s, c >> 5 & 31, sign_extend(c >> 12 & 511, 9), mode ? mode : 2, is_load,
		       &reg, 1, 8);
	} else if (is_load) {
		lose(s, reg);
	}
	return true;
}

static void add_sub(struct state *s, uint32_t c)
{
	uint32_t rd = c & 31, rn = c >> 5 & 31;
	int64_t imm = (int64_t)(c >> 10 & 0xfff) << (c >> 22 & 1 ? 12 : 0), base = base_of(s, rn);

	if (rd != 29 && rd != 31) {
		lose(s, (int)rd);
		return;
	}
	set_base(s, rd, base == UNKNOWN ? UNKNOWN : c >> 30 & 1 ? base + imm : base - imm);
}

/* movz, movk. */
static void move(struct state *s, uint32_t c)
{
	int shift = (int)(c >> 21 & 3) * 16;
	int64_t v = (int64_t)((uint64_t)(c >> 5 & 0xffff) << shift);

	if ((c >> 29 & 3) == 3 && s->const_reg == (c & 31))
		s->constant = (int64_t)((uint64_t)s->constant & ~((uint64_t)0xffff << shift)) | v;
	else
		s->constant = v;
	s->const_reg = c & 31;
	lose(s, (int)(c & 31));
}

/* add, sub of a register to sp. */
static void add_sub_reg(struct state *s, uint32_t c)
{
	bool known = s->sp != UNKNOWN && s->const_reg && s->const_reg == (c >> 16 & 31) &&
		     (c >> 5 & 31) == 31;

	if ((c & 31) != 31)
		lose(s, (int)(c & 31));
	else
		s->sp = !known ? UNKNOWN : c >> 30 & 1 ? s->sp + s->constant : s->sp - s->constant;
}

/* One instruction that is no branch. */
static void execute(struct state *s, uint32_t c)
{
	if ((c & 0xbf800000) == 0x91000000) { /* add, sub (immediate, 64 bits, no flags) */
		add_sub(s, c);
	} else if ((c & 0xbfe00000) == 0x8b200000) {
		add_sub_reg(s, c);
	} else if ((c & 0xdf800000) == 0xd2800000) {
		move(s, c);
	} else if (pairs(s, c) || singles(s, c)) {
		return;
	} else if ((c & 0xffa0f800) == 0x04205000) { /* addvl: as many bytes as a vector has */
		set_base(s, c & 31, UNKNOWN);
	} else if ((c >> 25 & 7) != 7 && (c & 0xbe000000) != 0x0c000000 && (c >> 25 & 15) != 2 &&
		   (c & 0xfffff01f) !=
			   0xd503201f) { /* vectors have registers of their own; hints */
		lose(s, (int)(c & 31));
	}
}

static void go_later(struct walk *w, uint32_t to, const struct state *s)
{
	if (to >= w->n)
		return;
	/* The last call before it, whose state all of them have. */
	if (!w->seen[to])
		w->at[to] = *s;
	w->later[w->n_later++] = to;
}

static void go(struct walk *w, int64_t to, const struct state *s)
{
	if (to < 0 || to >= w->n) /* another function: a tail call */
		return;
	if (w->seen[to]) /* where two ways meet the frames are the same */
		return;
	w->seen[to] = 1;
	w->at[to] = *s;
	w->todo[w->n_todo++] = (uint32_t)to;
}

/* Where the instruction leads, with the state behind it. */
static void follow(struct walk *w, uint32_t i)
{
	struct state s = w->at[i];
	uint32_t c = w->code[i];

	if (c >> 26 == 0x25 || (c & 0xfefff000) == 0xd63f0000) { /* bl, blr */
		s.has_x30 = false;
		go_later(w, i + 1, &s);
	} else if (c >> 26 == 5) { /* b */
		go(w, i + sign_extend(c & 0x3ffffff, 26), &s);
	} else if ((c & 0xff000010) == 0x54000000 ||
		   (c & 0x7e000000) == 0x34000000) { /* b.cond, cbz */
		go(w, i + sign_extend(c >> 5 & 0x7ffff, 19), &s);
		go(w, (int64_t)i + 1, &s);
	} else if ((c & 0x7e000000) == 0x36000000) { /* tbz */
		go(w, i + sign_extend(c >> 5 & 0x3fff, 14), &s);
		go(w, (int64_t)i + 1, &s);
	} else if ((c & 0xfe000000) == 0xd6000000 || (c & 0xffe0001f) == 0xd4200000 ||
		   c >> 16 == 0) {
		return; /* br, ret; brk; udf */
	} else {
		execute(&s, c);
		go(w, (int64_t)i + 1, &s);
	}
}

static bool rule_holds(const struct state *s, const struct mt_uw_rule *r)
{
	int64_t base = r->cfa == MT_CFA_SP ? s->sp : r->cfa == MT_CFA_FP ? s->x29 : UNKNOWN;

	if (base == UNKNOWN || base != r->off)
		return false;
	if (r->fp == MT_FP_SAME ? !s->has_x29 : !(r->fp == MT_FP_CFA && stored(s, 29, -r->fp_off)))
		return false;
	return r->ra == MT_RA_LR ? s->has_x30 : r->ra == MT_RA_CFA && stored(s, 30, -r->ra_off);
}

static void check(struct walk *w, uint32_t i)
{
	const struct mt_uw_rule *r = unwind_table__at(w->f->t, w->start + 4ULL * i);
	struct file *f = w->f;

	f->instructions++;
	f->other += r->cfa == MT_CFA_OTHER || r->cfa == MT_CFA_REG;
	f->by_fp += r->cfa == MT_CFA_FP;
	f->by_lr += r->ra == MT_RA_LR;
	f->records += r->ra == MT_RA_CFA && r->fp == MT_FP_CFA;
	f->no_record += r->ra == MT_RA_CFA && r->fp != MT_FP_CFA;
	/* The outermost frame; what ends with a reason: longjmp, setcontext, SVE. */
	if (r->cfa == MT_CFA_END || r->cfa == MT_CFA_OTHER || r->cfa == MT_CFA_REG ||
	    rule_holds(&w->at[i], r))
		return;
	if (f->wrong < MAX_WRONG)
		f->wrong_at[f->wrong] = w->start + 4ULL * i;
	/* No warning: with one Criterion ends with 1 although the tests pass. */
	if (f->wrong++ < 10)
		cr_log_info("%#jx (%08x): cfa %d%+d fp %d%+d ra %d%+d; sp %jd x29 %jd%s%s",
			    (uintmax_t)(w->start + 4ULL * i), w->code[i], r->cfa, r->off, r->fp,
			    r->fp_off, r->ra, r->ra_off, (intmax_t)w->at[i].sp,
			    (intmax_t)w->at[i].x29, w->at[i].has_x29 ? " x29 kept" : "",
			    w->at[i].has_x30 ? " x30 kept" : "");
}

static void function(struct file *f, const struct fde *fde)
{
	const struct state entry = { .sp = 0, .x29 = UNKNOWN, .has_x29 = true, .has_x30 = true };
	struct walk w = { .f = f,
			  .start = fde->start,
			  .n = (uint32_t)((fde->end - fde->start) / 4) };
	uint32_t i;

	w.code = elf_image__at(f->img, fde->start, fde->end - fde->start);
	if (!w.code || !w.n)
		return;
	w.at = calloc(w.n, sizeof(*w.at));
	w.seen = calloc(w.n, 1);
	w.todo = calloc(w.n, sizeof(*w.todo));
	w.later = calloc(w.n, sizeof(*w.later));
	go(&w, 0, &entry);
	while (w.n_todo || w.n_later) {
		while (w.n_todo)
			follow(&w, w.todo[--w.n_todo]);
		i = w.n_later ? w.later[--w.n_later] : 0;
		if (i && !w.seen[i])
			go(&w, i, &w.at[i]);
	}
	for (i = 0; i < w.n; i++)
		if (w.seen[i])
			check(&w, i);
	f->functions++;
	free(w.at);
	free(w.seen);
	free(w.todo);
	free(w.later);
}

static struct file follow_all(const char *path)
{
	struct file f = { 0 };
	size_t i;

	cr_assert_eq(elf_image__open(path, &f.img), 0, "%s", path);
	cr_assert_eq(elf_image__machine(f.img), EM_AARCH64);
	cr_assert_eq(unwind_table__build(path, &f.t), 0);
	cr_assert_eq(elf_image__fdes(f.img, &f.fdes, &f.n_fdes), 0);
	for (i = 0; i < f.n_fdes; i++)
		function(&f, &f.fdes[i]);
	cr_log_info("%s: %zu functions, %zu instructions, %zu wrong, %zu without a rule", path,
		    f.functions, f.instructions, f.wrong, f.other);
	return f;
}

static void finish(struct file *f)
{
	elf_image__close(f->img);
	unwind_table__free(f->t);
}

static void need_compiler(const char *path)
{
	if (!*path)
		cr_skip_test("no compiler for aarch64 (aarch64-linux-gnu-gcc)");
}

static void compiled(const char *path)
{
	struct file f;

	need_compiler(path);
	f = follow_all(path);
	cr_expect_eq(f.wrong, 0, "%s: %zu of %zu instructions", path, f.wrong, f.instructions);
	cr_expect_eq(f.other, 0, "%s: %zu without a rule", path, f.other);
	cr_expect_geq(f.functions, 14);
	cr_expect_geq(f.instructions, 200);
	/* alloca; leaves and prologues; cwalk_lr_only and cwalk_split of tests/live/cwalk_code.S.
	 */
	cr_expect(f.by_fp > 5 && f.by_lr > 30 && f.records > 20 && f.no_record >= 4,
		  "%zu %zu %zu %zu", f.by_fp, f.by_lr, f.records, f.no_record);
	finish(&f);
}

Test(unwind_arm64, frame_records)
{
	compiled(ARM64_RECORDS);
}

Test(unwind_arm64, no_frame_pointer)
{
	struct file f;

	compiled(ARM64_OMIT);
	f = follow_all(ARM64_OMIT);
	cr_expect_gt(f.no_record, 20, "%zu", f.no_record);
	finish(&f);
}

Test(unwind_arm64, signed_return_addresses)
{
	compiled(ARM64_SIGNED);
}

/* Its rows are made here, no linker writes them: first the way to the lazy binder. */
Test(unwind_arm64, plt)
{
	struct unwind_table *t;
	struct elf_image *img;
	uint64_t at, code_at = 0;
	size_t entries = 0;
	const uint32_t *c;

	need_compiler(ARM64_RECORDS);
	cr_assert_eq(unwind_table__build(ARM64_RECORDS, &t), 0);
	cr_assert_eq(elf_image__open(ARM64_RECORDS, &img), 0);
	for (at = t->base; at < t->base + ((uint64_t)t->n_pages << MT_UW_PAGE_SHIFT); at += 4) {
		const struct mt_uw_rule *r = unwind_table__at(t, at);

		c = elf_image__at(img, at, 4);
		if (!c)
			continue;
		if (*c == 0xa9bf7bf0) { /* stp x16, x30, [sp, #-16]! */
			code_at = at;
			cr_expect(r->cfa == MT_CFA_SP && r->off == 0 && r->ra == MT_RA_LR);
			r = unwind_table__at(t, at + 4);
			cr_expect(r->cfa == MT_CFA_SP && r->off == 16 && r->ra == MT_RA_CFA &&
				  r->ra_off == -8);
		} else if (*c == 0xd61f0220 && at >= code_at + 32) { /* br x17 */
			entries++;
			cr_expect(r->cfa == MT_CFA_SP && r->off == 0 && r->ra == MT_RA_LR, "%#jx",
				  (uintmax_t)at);
		}
	}
	cr_expect(code_at && entries >= 3, "%zu entries", entries);
	unwind_table__free(t);
	elf_image__close(img);
}

static bool inside(const struct file *f, const char *name, uint64_t at)
{
	uint64_t vaddr, size;

	return !elf_image__symbol(f->img, name, &vaddr, &size) && at - vaddr < size;
}

/*
 * Real code, hand-written assembler included. glibc's own account is wrong in two of
 * these functions: they use x30 otherwise and do not say so.
 */
Test(unwind_arm64, libc)
{
	struct file f;
	size_t i;

	if (access(ARM64_LIBC, R_OK))
		cr_skip_test("no libc of aarch64 here (libc6-arm64-cross): %s", ARM64_LIBC);
	f = follow_all(ARM64_LIBC);
	for (i = 0; i < f.wrong && i < MAX_WRONG; i++)
		cr_expect(inside(&f, "swapcontext", f.wrong_at[i]) ||
				  inside(&f, "rawmemchr", f.wrong_at[i]),
			  "%#jx", (uintmax_t)f.wrong_at[i]);
	cr_expect_leq(f.wrong, 60, "%zu of %zu instructions", f.wrong, f.instructions);
	cr_expect(f.functions > 2000 && f.instructions > 100000 && f.other < 100, "%zu", f.other);
	finish(&f);
}
