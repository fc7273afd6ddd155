// SPDX-License-Identifier: Apache-2.0
/*
 * aarch64 instructions, by their fixed encodings (Arm ARM, section C4.1).
 *
 * Only what sites and derivation need: branches, which integer registers are
 * written, changes of sp, loads and address arithmetic. What is not understood
 * is INSN_UNCLEAR.
 */
#include "probe/insn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <elf.h>

#include "probe/probe.h"

static uint32_t bits(uint32_t w, int hi, int lo)
{
	return (w >> lo) & ((2u << (hi - lo)) - 1);
}

static int64_t sext(uint64_t v, int nbits)
{
	uint64_t sign = 1ULL << (nbits - 1);

	return (int64_t)((v ^ sign) - sign);
}

/* Register 31 is sp in some places and zero (never written) in others. */
static void writes(struct insn *o, uint32_t reg)
{
	if (reg != 31)
		o->writes |= 1u << reg;
}

static void set_text(struct insn *o, const char *s)
{
	snprintf(o->text, sizeof(o->text), "%s", s);
}

/*
 * Branches, exceptions, system: bits 28:25 = 101x. The kernel simulates b, bl,
 * b.cond, cbz, tbz, br, blr, ret (arch/arm64/kernel/probes/decode-insn.c) and
 * refuses probes on braa, retaa and other authenticated branches.
 */
static void branch(uint32_t w, struct insn *o)
{
	if ((w & 0x7c000000) == 0x14000000) { /* b, bl */
		o->kind = w >> 31 ? INSN_CALL : INSN_JMP;
		o->target = o->addr + (uint64_t)(sext(bits(w, 25, 0), 26) * 4);
		o->emulated = true;
		if (w >> 31)
			writes(o, 30);
		set_text(o, w >> 31 ? "bl" : "b");
	} else if ((w & 0xff000000) == 0x54000000) { /* b.cond, bc.cond (bit 4) */
		/* Conditions 14 and 15 are "always". */
		o->kind = bits(w, 3, 0) >= 14 ? INSN_JMP : INSN_JCC;
		o->target = o->addr + (uint64_t)(sext(bits(w, 23, 5), 19) * 4);
		o->emulated = !(w & 0x10);
		set_text(o, "b.cond");
	} else if ((w & 0x7e000000) == 0x34000000) { /* cbz, cbnz */
		o->kind = INSN_JCC;
		o->target = o->addr + (uint64_t)(sext(bits(w, 23, 5), 19) * 4);
		o->emulated = true;
		set_text(o, w >> 24 & 1 ? "cbnz" : "cbz");
	} else if ((w & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
		o->kind = INSN_JCC;
		o->target = o->addr + (uint64_t)(sext(bits(w, 18, 5), 14) * 4);
		o->emulated = true;
		set_text(o, w >> 24 & 1 ? "tbnz" : "tbz");
	} else if ((w & 0xfffffc1f) == 0xd61f0000) {
		o->kind = INSN_JMP_IND;
		o->copy_of = (int)bits(w, 9, 5);
		o->emulated = true;
		set_text(o, "br");
	} else if ((w & 0xfffffc1f) == 0xd63f0000) {
		o->kind = INSN_CALL_IND;
		o->copy_of = (int)bits(w, 9, 5);
		o->emulated = true;
		writes(o, 30);
		set_text(o, "blr");
	} else if ((w & 0xfffffc1f) == 0xd65f0000) {
		o->kind = INSN_RET;
		o->emulated = true;
		set_text(o, "ret");
	} else if (w == 0xd65f0bff || w == 0xd65f0fff) {
		o->kind = INSN_RET;
		set_text(o, w == 0xd65f0bff ? "retaa" : "retab");
	} else if ((w & 0xfefff800) == 0xd61f0800) { /* braa, brab, and their zero forms */
		o->kind = INSN_JMP_IND;
		o->copy_of = (int)bits(w, 9, 5);
		set_text(o, "bra");
	} else if ((w & 0xfefff800) == 0xd63f0800) {
		o->kind = INSN_CALL_IND;
		writes(o, 30);
		set_text(o, "blra");
	} else if (w == 0xd503201f) {
		o->kind = INSN_NOP;
		o->emu = SITE_EMU_NOP;
		set_text(o, "nop");
	} else if ((w & 0xfffff01f) == 0xd503201f) { /* hints: bti, paciasp, yield … */
		uint32_t op = bits(w, 11, 5);

		o->kind = INSN_OTHER;
		set_text(o, op == 25	       ? "paciasp"
			    : op == 27	       ? "pacibsp"
			    : (op & ~6u) == 32 ? "bti"
					       : "hint");
		/* paci[ab]sp, auti[ab]sp, paciaz … xpaclri: they change lr; 8-15 x17 too. */
		if ((op >= 24 && op <= 31) || op == 7)
			writes(o, 30);
		else if (op >= 8 && op <= 15)
			writes(o, 17);
	} else if ((w & 0xffe0001f) == 0xd4200000) {
		o->kind = INSN_STOP;
		set_text(o, "brk");
	} else if ((w & 0xfff00000) == 0xd5300000) { /* mrs: a register of the system */
		writes(o, bits(w, 4, 0));
		set_text(o, "mrs");
	} else {
		o->kind = INSN_UNCLEAR; /* svc, msr, barriers, eret … */
		set_text(o, "system");
	}
}

/* Arithmetic with a constant: bits 28:26 = 100. */
static void immediate(uint32_t w, struct insn *o)
{
	uint32_t rd = bits(w, 4, 0), rn = bits(w, 9, 5), op = bits(w, 25, 23);
	int64_t imm;

	o->dst = (int)rd;
	switch (op) {
	case 0:
	case 1: /* adr, adrp */
		imm = sext((uint64_t)bits(w, 23, 5) << 2 | bits(w, 30, 29), 21);
		o->value = w >> 31 ? (o->addr & ~0xfffULL) + (uint64_t)(imm * 4096)
				   : o->addr + (uint64_t)imm;
		o->emulated = true;
		writes(o, rd);
		set_text(o, w >> 31 ? "adrp" : "adr");
		return;
	case 2: /* add, sub; bit 29 sets flags and makes rd 31 the zero register */
		imm = bits(w, 21, 10);
		if (w >> 22 & 1)
			imm <<= 12;
		if (w >> 30 & 1)
			imm = -imm;
		set_text(o, w >> 30 & 1 ? "sub" : "add");
		if (w >> 31) {
			o->add_of = (int)rn;
			o->add_imm = imm;
			if (!imm && rn != A64_SP &&
			    rd != A64_SP) /* (mov to or from sp is this form) */
				o->copy_of = (int)rn;
		}
		if (rd != 31) {
			writes(o, rd);
		} else if (!(w >> 29 & 1)) {
			if (rn == A64_SP && w >> 31)
				o->sp_delta = (int)imm;
			else
				o->sp_lost = true;
		}
		return;
	case 3: /* add, sub with tags */
		o->sp_lost = rd == 31;
		writes(o, rd);
		set_text(o, "addg");
		return;
	case 4: /* logical; all but ands can write sp */
		o->sp_lost = rd == 31 && bits(w, 30, 29) != 3;
		writes(o, rd);
		set_text(o, "logical");
		return;
	default: /* mov[nzk], bitfield, extr */
		writes(o, rd);
		set_text(o, op == 5 ? "mov" : "bitfield");
	}
}

/* Registers: bits 27:25 = 101. */
static void registers(uint32_t w, struct insn *o)
{
	uint32_t rd = bits(w, 4, 0);

	o->dst = (int)rd;
	set_text(o, "reg");
	/* add, sub (extended register) without flags can write sp */
	if ((w & 0x1f200000) == 0x0b200000 && !(w >> 29 & 1) && rd == 31) {
		o->sp_lost = true;
		return;
	}
	/* ccmp and ccmn have flags in that place; taking them for a register is safe */
	writes(o, rd);
	/* orr x, xzr, x: mov */
	if ((w & 0xffe0ffe0) == 0xaa0003e0) {
		o->copy_of = (int)bits(w, 20, 16);
		set_text(o, "mov");
	}
}

static void base_update(uint32_t w, int64_t imm, struct insn *o)
{
	uint32_t rn = bits(w, 9, 5);

	if (rn == A64_SP)
		o->sp_delta = (int)imm;
	else
		writes(o, rn);
}

/* Loads and stores: bit 27 = 1, bit 25 = 0. */
static void memory(uint32_t w, struct insn *o)
{
	uint32_t rt = bits(w, 4, 0), rn = bits(w, 9, 5), size = bits(w, 31, 30);
	bool simd = w >> 26 & 1, load;

	o->mem_base = (int)rn;
	if ((w & 0x3a000000) == 0x28000000) { /* pairs */
		uint32_t mode = bits(w, 24, 23);
		int scale = simd ? 2 + (int)size : size & 2 ? 3 : 2;
		int64_t imm = sext(bits(w, 21, 15), 7) * (1LL << scale);

		load = w >> 22 & 1;
		if ((w & 0xffc07fff) == 0xa9807bfd) /* stp x29, x30, [sp, #imm]! */
			o->emu = SITE_EMU_STP;
		o->mem_size = 2u << scale;
		o->mem_disp = mode == 1 ? 0 : imm; /* 1: post-index */
		if (load && !simd) {
			writes(o, rt);
			writes(o, bits(w, 14, 10));
		}
		if (mode == 1 || mode == 3)
			base_update(w, imm, o);
		set_text(o, load ? "ldp" : "stp");
	} else if ((w & 0x3b000000) == 0x18000000) { /* literal: the kernel refuses probes on it */
		load = true;
		o->mem_base = INSN_NOREG;
		o->mem_addr = o->addr + (uint64_t)(sext(bits(w, 23, 5), 19) * 4);
		o->mem_size = size == 1 ? 8 : 4;
		if (!simd && size != 3) { /* 3: prfm */
			writes(o, rt);
			o->dst = (int)rt;
		}
		set_text(o, "ldr");
	} else if ((w & 0x3a000000) == 0x38000000) { /* one register */
		uint32_t opc = bits(w, 23, 22), sub = bits(w, 11, 10);
		int scale = simd && (opc & 2) && !size ? 4 : (int)size;
		bool prefetch = !simd && size == 3 && opc == 2;

		load = simd ? opc & 1 : opc != 0;
		o->mem_size = 1u << scale;
		set_text(o, load ? "ldr" : "str");
		if (w >> 24 & 1) { /* unsigned offset */
			o->mem_disp = (int64_t)bits(w, 21, 10) << scale;
		} else if (w >> 21 & 1) {
			if (sub != 2) { /* atomics, authenticated loads */
				o->kind = INSN_UNCLEAR;
				return;
			}
			o->mem_index = (int)bits(w, 20, 16);
		} else {
			int64_t imm = sext(bits(w, 20, 12), 9);

			o->mem_disp = sub == 1 ? 0 : imm; /* 1: post-index */
			if (sub == 1 || sub == 3)
				base_update(w, imm, o);
		}
		if (prefetch)
			return;
		if (load && !simd) {
			o->dst = (int)rt;
			o->sign_load = opc >= 2;
			writes(o, rt);
		} else if (!load && !simd && size == 3) {
			o->copy_of = (int)rt;
		}
	} else if (simd && !(w >> 31) && !(w >> 24 & 1) && (w & 0x3a000000) == 0x08000000) {
		/* vector structures: ld1 … st4, with post-index when bit 23 */
		load = w >> 22 & 1;
		o->mem_base = INSN_NOREG;
		if (w >> 23 & 1) {
			o->sp_lost = rn == A64_SP;
			writes(o, rn);
		}
		set_text(o, load ? "ld1" : "st1");
		return;
	} else {
		o->kind = INSN_UNCLEAR; /* exclusives, ordered, compare-and-swap, tags, copies */
		return;
	}
	o->load = load;
	o->store = !load;
}

/* Floating point and vectors: bits 27:25 = 111. Few write an integer register. */
static void vector(uint32_t w, struct insn *o)
{
	uint32_t op = bits(w, 18, 16);

	set_text(o, "fp");
	if ((w & 0x7f20fc00) == 0x1e200000 || /* conversion to or from an integer, fmov */
	    (w & 0x7f200000) == 0x1e000000) { /* the same, fixed point */
		/* 2, 3: scvtf, ucvtf; 7: fmov from an integer register */
		if (op != 2 && op != 3 && op != 7)
			writes(o, bits(w, 4, 0));
	} else if ((w & 0xbfe0ec00) == 0x0e002c00) { /* umov, smov */
		writes(o, bits(w, 4, 0));
	}
}

/* Hints that are a nop or sign and strip addresses; others may trap or wait. */
static bool hint_is_stepped(uint32_t op)
{
	static const uint8_t ops[] = { 0, 7, 8, 10, 24, 25, 26, 27, 32, 34, 36, 38 };

	return memchr(ops, (int)op, sizeof(ops)) != NULL;
}

/*
 * What arch/arm64/kernel/probes/decode-insn.c puts no probe on: authenticated
 * branches, exceptions, writes of system registers, most hints, loads relative to the
 * program counter, exclusive and ordered accesses. Loads of vector registers
 * relative to it are accepted, and then read from beside the copy: not for us.
 */
static bool is_refused(uint32_t w)
{
	if ((w & 0xfe000000) == 0xd6000000) /* branches to registers: plain ones are simulated */
		return (w & 0xff9ffc1f) != 0xd61f0000 || bits(w, 22, 21) == 3;
	if ((w & 0xff000000) == 0xd4000000 || (w & 0xfff00000) == 0xd5100000 ||
	    (w & 0xfff8f01f) == 0xd500401f || (w & 0xffffffe0) == 0xd53b4220)
		return true;
	if ((w & 0xfffff01f) == 0xd503201f)
		return !hint_is_stepped(bits(w, 11, 5));
	return (w & 0x3b000000) == 0x18000000 || (w & 0x3f000000) == 0x08000000;
}

int insn__decode_a64(enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		     struct insn *out)
{
	uint32_t w;

	(void)detail;
	if (n < 4 || addr & 3)
		return -EINVAL;
	w = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	memset(out, 0, sizeof(*out));
	out->addr = addr;
	out->len = 4;
	out->dst = out->copy_of = out->mem_base = out->mem_index = out->add_of = INSN_NOREG;
	out->refused = is_refused(w);
	if (!(w >> 16)) { /* udf */
		out->kind = INSN_STOP;
		set_text(out, "udf");
	} else if ((w & 0x1c000000) == 0x14000000) {
		branch(w, out);
	} else if ((w & 0x1c000000) == 0x10000000) {
		immediate(w, out);
	} else if ((w & 0x0e000000) == 0x0a000000) {
		registers(w, out);
	} else if ((w & 0x0a000000) == 0x08000000) {
		memory(w, out);
	} else if ((w & 0x0e000000) == 0x0e000000) {
		vector(w, out);
	} else {
		out->kind = INSN_UNCLEAR; /* SVE, SME, unallocated */
		set_text(out, "unknown");
	}
	return 0;
}

int insn__decode(int machine, enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		 struct insn *out)
{
	if (machine == EM_X86_64)
		return insn__decode_x86(detail, p, n, addr, out);
	if (machine == EM_AARCH64)
		return insn__decode_a64(detail, p, n, addr, out);
	return -EINVAL;
}

uint32_t insn__arg_mask(int machine, int nargs)
{
	/* rdi, rsi, rdx, rcx, r8, r9: System V psABI 3.2.3; x0 to x7: AAPCS64 6.8.2 */
	static const uint8_t x86[] = { 7, 6, 2, 1, 8, 9 };
	uint32_t m = 0;
	int i;

	for (i = 0; i < nargs && i < (machine == EM_X86_64 ? 6 : 8); i++)
		m |= 1u << (machine == EM_X86_64 ? x86[i] : i);
	return m;
}
