// SPDX-License-Identifier: Apache-2.0
/*
 * The cheap place for an entry probe: the first instruction of a function that
 * the kernel emulates, where that stands for the entry itself.
 */
#include "probe/func.h"

#include <errno.h>
#include <stdio.h>

/* The arguments do not survive longer than this in any function looked at. */
#define MAX_WALK 32
/* Entries of one jump table looked at; more do not fit a hand-written switch. */
#define MAX_TABLE 4096

/*
 * Behind the entry no nop of five bytes: 6.18 may rewrite it to a call, which
 * writes below sp where a leaf function may have put something (tracers.md R72).
 */
static bool is_emulated(const struct insn *in, unsigned int emu, bool at_entry)
{
	if (in->kind == INSN_NOP_N && in->len == 5 && !at_entry)
		return false;
	return in->emulated || (in->emu & emu);
}

static int fill(const struct elf_image *img, const struct insn *in, int sp_off, enum site_cost cost,
		struct site *out)
{
	*out = (struct site){
		.vaddr = in->addr, .sp_off = sp_off, .cost = cost, .refused = in->refused
	};
	snprintf(out->insn, sizeof(out->insn), "%s", in->text);
	return elf_image__offset(img, in->addr, &out->off);
}

/*
 * Straight line from the entry to the first emulated instruction, or with `any` the
 * first that takes a probe, in *in and *sp_off.
 */
static bool walk(const struct elf_image *img, uint64_t vaddr, uint64_t end, uint32_t args,
		 unsigned int emu, bool any, struct insn *in, int *sp_off)
{
	const uint8_t *p;
	size_t n;
	int i;

	*sp_off = 0;
	for (i = 0; i < MAX_WALK && vaddr < end; i++) {
		p = elf_image__rest(img, vaddr, &n);
		n = p ? MT_MIN(n, end - vaddr) : 0;
		if (!p || insn__decode(img->machine, INSN_FULL, p, n, vaddr, in))
			return false;
		if (is_emulated(in, emu, !i) || (any && !in->refused && in->kind != INSN_UNCLEAR))
			return true;
		if (in->kind != INSN_OTHER && in->kind != INSN_NOP && in->kind != INSN_NOP_N &&
		    in->kind != INSN_PUSH)
			return false;
		if ((in->writes & args) || in->sp_lost)
			return false;
		*sp_off -= in->sp_delta;
		if (*sp_off < INT16_MIN || *sp_off > INT16_MAX) /* of struct mt_site */
			return false;
		vaddr += in->len;
	}
	return false;
}

/*
 * Can a jump table of f lead into [from, to]? x86-64: every `lea` of a constant
 * may be a table of 32-bit distances from itself, and is read until an entry
 * leaves the function; that reads too much rather than too little.
 */
static bool table_leads_into(const struct elf_image *img, const struct func *f, uint64_t from,
			     uint64_t to)
{
	size_t i, k, n;

	for (i = 0; i < f->n; i++) {
		uint64_t table = f->v[i].value;
		const uint8_t *p = table ? elf_image__rest(img, table, &n) : NULL;

		if (!elf_image__spend(img, 1, WORK_STEP))
			return true;
		for (k = 0; p && k < MT_MIN(n / 4, (size_t)MAX_TABLE); k++) {
			uint64_t t = table + (uint64_t)(int64_t)(int32_t)rd32(p + k * 4);

			if (!elf_image__spend(img, 1, WORK_BYTE))
				return true;
			if (t < f->start || t >= f->end)
				break;
			if (t >= from && t <= to)
				return true;
		}
	}
	return false;
}

/* Does a branch of [start, end) lead into [from, to]? Undecodable: yes. */
static bool leads_into(struct elf_image *img, uint64_t start, uint64_t end, uint64_t from,
		       uint64_t to, bool follow)
{
	bool yes = true, table = false;
	const struct fde *last = NULL;
	struct func f;
	size_t i;

	if (func__decode(img, start, end, INSN_FULL, &f))
		return true;
	if (!f.exact)
		goto out;
	for (i = 0; i < f.n; i++) {
		const struct insn *in = &f.v[i];
		const struct fde *cold;

		if (in->kind == INSN_JMP_IND && func__is_switch(&f, i))
			table = true;
		if (in->kind != INSN_JMP && in->kind != INSN_JCC)
			continue;
		if (in->target >= from && in->target <= to)
			goto out;
		if (!follow || (in->target >= start && in->target < end))
			continue;
		cold = elf_image__fde_at(img, in->target);
		if (!cold || cold == last || !fde__is_part_of(img, cold, start, end))
			continue;
		last = cold;
		if (leads_into(img, cold->start, cold->end, from, to, false))
			goto out;
	}
	/* aarch64 tables are bytes or halves of unknown number: not resolved */
	if (table && (img->machine != EM_X86_64 || table_leads_into(img, &f, from, to)))
		goto out;
	yes = false;
out:
	func__free(&f);
	return yes;
}

/* A second symbol between the entry and the site is a second way in. */
static bool other_entry(struct elf_image *img, uint64_t vaddr, uint64_t site)
{
	size_t lo, hi;

	return elf_image__symbols_in(img, vaddr + 1, site + 1, &lo, &hi) || lo != hi;
}

/* The first instruction, and how many bytes the file has from there on. */
static int first(const struct elf_image *img, uint64_t vaddr, struct insn *in, size_t *n)
{
	const uint8_t *p = elf_image__rest(img, vaddr, n);

	if (!p || !(elf_image__seg(img, vaddr)->flags & PF_X))
		return -ERANGE;
	return insn__decode(img->machine, INSN_FULL, p, *n, vaddr, in) ? -EINVAL : 0;
}

static int fill_first(const struct elf_image *img, const struct insn *in, unsigned int emu,
		      struct site *out)
{
	return fill(img, in, 0, is_emulated(in, emu, true) ? SITE_EMULATED : SITE_STEPPED, out);
}

int site__first(struct elf_image *img, uint64_t vaddr, unsigned int emu, struct site *out)
{
	struct insn in;
	size_t n;
	int err = first(img, vaddr, &in, &n);

	return err ? err : fill_first(img, &in, emu, out);
}

/* May a probe at *in, behind the entry, stand for one at the entry? */
static bool stands_for(struct elf_image *img, uint64_t vaddr, const struct fde *bounds,
		       const struct insn *in)
{
	if (other_entry(img, vaddr, in->addr))
		return false;
	/*
	 * Without bounds branches back cannot be looked for. None can lead to the
	 * first push, as each time round would move the stack.
	 */
	return bounds ? !leads_into(img, bounds->start, bounds->end, vaddr, in->addr, true)
		      : in->kind == INSN_PUSH;
}

int site__entry(struct elf_image *img, uint64_t vaddr, int nargs, unsigned int emu,
		struct site *out)
{
	uint32_t args = insn__arg_mask(img->machine, nargs);
	struct insn entry, in;
	struct fde bounds;
	uint64_t end;
	bool bounded, any;
	int sp_off, err;
	size_t n;

	err = first(img, vaddr, &entry, &n);
	if (err)
		return err;
	bounded = !func__bounds(img, vaddr, &bounds);
	end = bounded ? bounds.end : vaddr + n;
	any = false;
	do {
		if (walk(img, vaddr, end, args, emu, any, &in, &sp_off) &&
		    /* at the entry nothing is to gain or to lose by looking further */
		    (in.addr == vaddr || stands_for(img, vaddr, bounded ? &bounds : NULL, &in)))
			return fill(img, &in, sp_off,
				    is_emulated(&in, emu, in.addr == vaddr) ? SITE_EMULATED
									    : SITE_STEPPED,
				    out);
		any = !any && entry.refused;
	} while (any);
	return fill_first(img, &entry, emu, out);
}
