// SPDX-License-Identifier: Apache-2.0
/*
 * One row of call frame information as a rule: what libdw says of an address,
 * in the few forms that the unwinder knows.
 */
#include <dwarf.h>
#include <elf.h>
#include <string.h>

#include "symbol/cfi.h"

/* DWARF numbers: System V ABI AMD64 3.6.2; AADWARF64 4.1. */
enum { X86_FP = 6, X86_SP = 7, X86_RA = 16, A64_FP = 29, A64_LR = 30, A64_SP = 31 };

static int fp_of(int machine)
{
	return machine == EM_X86_64 ? X86_FP : A64_FP;
}

static int sp_of(int machine)
{
	return machine == EM_X86_64 ? X86_SP : A64_SP;
}

static int ra_of(int machine)
{
	return machine == EM_X86_64 ? X86_RA : A64_LR;
}

static bool fits(int64_t v)
{
	return v == (int32_t)v;
}

/* `reg + off`, in either of its spellings. */
static bool reg_plus(const Dwarf_Op *op, int *reg, int64_t *off)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*off = (int64_t)op->number;
	} else if (op->atom == DW_OP_bregx && op->number < 128) {
		*reg = (int)op->number;
		*off = (int64_t)op->number2;
	} else {
		return false;
	}
	return fits(*off);
}

/* A small constant that an expression pushes; -1 if it is none. */
static int64_t literal(const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return op->atom - DW_OP_lit0;
	if (op->atom == DW_OP_const1u || op->atom == DW_OP_constu)
		return (int64_t)op->number;
	return -1;
}

/* GNU ld's and lld's .plt: rsp + 8 + (((rip & 15) >= N) << 3). */
static bool is_plt(const Dwarf_Op *o, size_t n, struct mt_uw_rule *r)
{
	int reg, pc;
	int64_t off, zero;

	if (n != 8 || !reg_plus(&o[0], &reg, &off) || !reg_plus(&o[1], &pc, &zero))
		return false;
	if (reg != X86_SP || pc != X86_RA || zero || literal(&o[2]) != 15 ||
	    o[3].atom != DW_OP_and || literal(&o[4]) < 0 || o[5].atom != DW_OP_ge ||
	    literal(&o[6]) != 3 || o[7].atom != DW_OP_shl)
		return false;
	r->cfa = MT_CFA_PLT;
	r->off = (int32_t)off;
	r->add = (int32_t)literal(&o[4]);
	return true;
}

static void cfa_rule(int machine, Dwarf_Op *o, size_t n, struct mt_uw_rule *r)
{
	int64_t off, add = 0;
	int reg;

	r->cfa = MT_CFA_OTHER;
	if (!n)
		return;
	/* Without the last `plus` the pattern is that of the .plt. */
	if (machine == EM_X86_64 && n == 9 && o[8].atom == DW_OP_plus && is_plt(o, 8, r))
		return;
	if (!reg_plus(&o[0], &reg, &off))
		return;
	if (n >= 2 && o[1].atom == DW_OP_deref) {
		if (n == 3 && o[2].atom == DW_OP_plus_uconst)
			add = (int64_t)o[2].number;
		else if (n != 2)
			return;
		if (!fits(add) || (reg != fp_of(machine) && reg != sp_of(machine)))
			return;
		r->cfa = reg == sp_of(machine) ? MT_CFA_SP_DEREF : MT_CFA_FP_DEREF;
		r->add = (int32_t)add;
	} else if (n == 1) {
		r->cfa = reg == sp_of(machine)	 ? MT_CFA_SP
			 : reg == fp_of(machine) ? MT_CFA_FP
						 : MT_CFA_REG;
		r->reg = r->cfa == MT_CFA_REG ? (uint8_t)reg : 0;
	} else {
		return;
	}
	r->off = (int32_t)off;
}

enum saved { SAVED_SAME, SAVED_UNDEFINED, SAVED_AT_CFA, SAVED_AT_REG, SAVED_IN_REG, SAVED_OTHER };

/* Where the caller's value of a register is: at the CFA, or a register *at, and off. */
static enum saved saved_where(Dwarf_Frame *f, int regno, int *at, int64_t *off)
{
	Dwarf_Op mem[3], *o;
	size_t n;
	int reg;

	if (dwarf_frame_register(f, regno, mem, &o, &n) != 0)
		return SAVED_OTHER;
	if (!n)
		return o ? SAVED_UNDEFINED : SAVED_SAME;
	/* An expression begins with the CFA on its stack, whatever it makes of it. */
	if (n == 2 && o[0].atom == DW_OP_call_frame_cfa && reg_plus(&o[1], at, off))
		return SAVED_AT_REG;
	if (o[0].atom == DW_OP_call_frame_cfa) {
		*off = n > 1 ? (int64_t)o[1].number : 0;
		if (n == 1 || (n == 2 && o[1].atom == DW_OP_plus_uconst))
			return fits(*off) ? SAVED_AT_CFA : SAVED_OTHER;
		return SAVED_OTHER;
	}
	if (n == 1 &&
	    (o[0].atom == DW_OP_regx || (o[0].atom >= DW_OP_reg0 && o[0].atom <= DW_OP_reg31))) {
		reg = o[0].atom == DW_OP_regx ? (int)o[0].number : o[0].atom - DW_OP_reg0;
		return reg == regno ? SAVED_SAME : SAVED_IN_REG;
	}
	return n == 1 && reg_plus(&o[0], at, off) ? SAVED_AT_REG : SAVED_OTHER;
}

/* rbp, x29 beside what a register points to: that is the CFA, or itself, or it is not known. */
static void fp_at_reg(int machine, int reg, int64_t off, struct mt_uw_rule *r)
{
	int cfa = r->cfa == MT_CFA_SP	 ? sp_of(machine)
		  : r->cfa == MT_CFA_FP	 ? fp_of(machine)
		  : r->cfa == MT_CFA_REG ? r->reg
					 : -1;

	if (reg == cfa && fits(off - r->off)) {
		r->fp = MT_FP_CFA;
		r->fp_off = (int32_t)(off - r->off);
	} else if (reg == fp_of(machine)) {
		r->fp = MT_FP_DEREF;
		r->fp_off = (int32_t)off;
	} else {
		r->fp = MT_FP_OTHER;
	}
}

/* By default the caller's sp is the CFA; libdw says so as a value, not a place. */
static bool sp_is_cfa(Dwarf_Frame *f, int machine)
{
	Dwarf_Op mem[3], *o;
	size_t n;

	if (dwarf_frame_register(f, sp_of(machine), mem, &o, &n) != 0)
		return false;
	return !n ||
	       (n == 2 && o[0].atom == DW_OP_call_frame_cfa && o[1].atom == DW_OP_stack_value);
}

/*
 * The return address above the caller's sp: so _dl_runtime_resolve of glibc describes
 * itself, whose CFA is the sp that it was entered with. Before that the .plt pushed 16
 * bytes, x30 in the upper half. At its end they are gone, and x30 has its value.
 */
static void lazy_binder(struct mt_uw_rule *r)
{
	r->off += 16;
	r->ra_off -= 16;
	if (r->off)
		return;
	r->ra = MT_RA_LR;
	r->ra_off = 0;
}

void cfi__rule(Dwarf_Frame *f, int machine, bool signal, struct mt_uw_rule *r)
{
	int64_t off, fp_off = 0;
	enum saved fp;
	Dwarf_Op *ops;
	int at, fp_at;
	size_t n;

	memset(r, 0, sizeof(*r));
	if (signal) {
		r->cfa = MT_CFA_SIGNAL;
		return;
	}
	switch (saved_where(f, ra_of(machine), &at, &off)) {
	case SAVED_UNDEFINED:
		r->cfa = MT_CFA_END;
		return;
	case SAVED_AT_CFA:
		r->ra = MT_RA_CFA;
		r->ra_off = (int32_t)off;
		break;
	case SAVED_SAME:
		/* Nothing said of x30: it holds the return address. On x86-64 there is no such
		 * register. */
		r->ra = machine == EM_AARCH64 ? MT_RA_LR : MT_RA_OTHER;
		break;
	default:
		r->ra = MT_RA_OTHER;
	}
	fp = saved_where(f, fp_of(machine), &fp_at, &fp_off);
	switch (fp) {
	case SAVED_SAME:
	case SAVED_UNDEFINED: /* a compiler says so where it leaves it alone */
		r->fp = MT_FP_SAME;
		break;
	case SAVED_AT_CFA:
		r->fp = MT_FP_CFA;
		r->fp_off = (int32_t)fp_off;
		break;
	default:
		r->fp = MT_FP_OTHER;
	}
	if (dwarf_frame_cfa(f, &ops, &n) != 0)
		n = 0;
	cfa_rule(machine, ops, n, r);
	if (fp == SAVED_AT_REG)
		fp_at_reg(machine, fp_at, fp_off, r);
	/* setcontext and longjmp: the caller's sp is not the CFA, it is fetched from somewhere. */
	if (r->cfa != MT_CFA_SP && r->cfa != MT_CFA_FP && !sp_is_cfa(f, machine))
		r->cfa = MT_CFA_OTHER;
	if (machine == EM_AARCH64 && r->cfa == MT_CFA_SP && r->ra == MT_RA_CFA && r->ra_off == 8)
		lazy_binder(r);
	if (r->cfa == MT_CFA_OTHER || r->ra == MT_RA_OTHER)
		*r = (struct mt_uw_rule){ .cfa = MT_CFA_OTHER };
}
