// SPDX-License-Identifier: Apache-2.0
/* x86-64 instructions, decoded by Zydis. */
#include "probe/insn.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <elf.h>
#include <Zydis/Zydis.h>

#include "probe/probe.h"

static ZydisDecoder the_decoder;

static void init_decoder(void)
{
	ZydisDecoderInit(&the_decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* Interpreters are looked at by a thread of their own. */
static const ZydisDecoder *decoder(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_decoder);
	return &the_decoder;
}

static bool has_prefix(const ZydisDecodedInstruction *z, uint8_t byte)
{
	unsigned int i;

	for (i = 0; i < z->raw.prefix_count; i++)
		if (z->raw.prefixes[i].value == byte)
			return true;
	return false;
}

/*
 * What arch/x86/kernel/uprobes.c puts no probe on, by the releases that refuse least:
 * prefixes (is_prefix_bad), branches of 16 bits (branch_setup_xol_ops), loads of SS,
 * and opcodes: I/O, interrupts, halt, the interrupt flag. It looks an opcode of a
 * VEX or EVEX instruction up in the same table, where others are refused so.
 */
static bool is_refused(const ZydisDecodedInstruction *z, enum insn_kind kind)
{
	static const uint8_t opcodes[] = { 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27,
					   0x2f, 0x37, 0x3f, 0x60, 0x61, 0x62, 0x6c, 0x6d,
					   0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf,
					   0xd4, 0xd6, 0xe4, 0xe5, 0xe6, 0xe7, 0xea, 0xec,
					   0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb };
	static const uint8_t prefixes[] = { 0x26, 0x2e, 0x36, 0x3e, 0xf0 };
	bool legacy = z->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	bool one = legacy && z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT;
	size_t i;

	for (i = 0; i < sizeof(prefixes); i++)
		if (has_prefix(z, prefixes[i]))
			return true;
	if ((kind == INSN_JMP || kind == INSN_JCC || kind == INSN_CALL) && has_prefix(z, 0x66) &&
	    !(one && (z->opcode & 0xfc) == 0xe0))
		return true;
	if (one && z->opcode == 0x8e && z->raw.modrm.reg == 2)
		return true;
	for (i = 0; (one || !legacy) && i < sizeof(opcodes); i++)
		if (z->opcode == opcodes[i])
			return true;
	return false;
}

/*
 * What arch/x86/kernel/uprobes.c emulates: branch_setup_xol_ops (jmp, call, jcc,
 * short or near, and opcode 90) and push_setup_xol_ops (50+r, with at most the
 * prefix 41). Stricter here: no other prefix at all. 66 makes the kernel refuse
 * a branch, and it takes 49 90 (xchg rax, r8) for a nop.
 */
static void classify(const uint8_t *p, const ZydisDecodedInstruction *z, struct insn *out)
{
	bool one = z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT;
	bool bare = !z->raw.prefix_count;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		out->kind = INSN_JCC;
		/* jrcxz and loop (e0-e3) are conditional too, but not emulated. */
		out->emulated = bare && !(one && (z->opcode & 0xfc) == 0xe0);
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (z->raw.imm[0].is_relative && z->mnemonic == ZYDIS_MNEMONIC_JMP) {
			out->kind = INSN_JMP;
			out->emulated = bare;
		} else {
			out->kind = z->mnemonic == ZYDIS_MNEMONIC_JMP ? INSN_JMP_IND : INSN_UNCLEAR;
		}
		break;
	case ZYDIS_CATEGORY_CALL:
		if (z->raw.imm[0].is_relative) {
			out->kind = INSN_CALL;
			out->emulated = bare;
		} else {
			out->kind = INSN_CALL_IND;
		}
		break;
	case ZYDIS_CATEGORY_RET:
		out->kind = z->mnemonic == ZYDIS_MNEMONIC_RET && one &&
					    (z->opcode == 0xc3 || z->opcode == 0xc2)
				    ? INSN_RET
				    : INSN_UNCLEAR;
		break;
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
		out->emulated = z->length == 1;
		if (out->emulated)
			out->kind = INSN_NOP;
		else if (z->opcode_map == ZYDIS_OPCODE_MAP_0F && z->opcode == 0x1f &&
			 !has_prefix(z, 0x2e)) { /* is_prefix_bad of the kernel */
			out->kind = INSN_NOP_N;
			out->emu = SITE_EMU_MULTINOP;
		}
		break;
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSTEM:
		out->kind = INSN_UNCLEAR;
		break;
	default:
		break;
	}
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_INT3:
		out->kind = INSN_STOP;
		break;
	case ZYDIS_MNEMONIC_XBEGIN: /* a conditional branch in disguise */
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_XEND:
		out->kind = INSN_UNCLEAR;
		break;
	case ZYDIS_MNEMONIC_ENDBR64:
	case ZYDIS_MNEMONIC_ENDBR32:
		/* A nop to the processor, but no kernel known emulates it. */
		out->kind = INSN_OTHER;
		out->emu = z->mnemonic == ZYDIS_MNEMONIC_ENDBR64 ? SITE_EMU_ENDBR : 0;
		break;
	case ZYDIS_MNEMONIC_PUSH:
		if (one && (z->opcode & 0xf8) == 0x50) {
			out->kind = INSN_PUSH;
			out->emulated = z->length == 1 || (z->length == 2 && p[0] == 0x41);
		}
		break;
	default:
		break;
	}
	out->refused = is_refused(z, out->kind);
	if (out->refused) {
		out->emulated = false;
		out->emu = 0;
	}
}

static int reg64(ZydisRegister r)
{
	ZydisRegister full = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	return ZydisRegisterGetClass(full) == ZYDIS_REGCLASS_GPR64 ? ZydisRegisterGetId(full)
								   : INSN_NOREG;
}

static void memory(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o, struct insn *out)
{
	bool rip = o->mem.base == ZYDIS_REGISTER_RIP;
	uint64_t at = rip ? out->addr + z->length : 0;

	if (o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS)
		at = 0;
	else if (rip || (o->mem.base == ZYDIS_REGISTER_NONE && o->mem.index == ZYDIS_REGISTER_NONE))
		at += (uint64_t)o->mem.disp.value;
	if (o->mem.type == ZYDIS_MEMOP_TYPE_AGEN) { /* lea */
		out->value = at;
		out->add_imm = o->mem.disp.value;
		if (!rip && o->mem.index == ZYDIS_REGISTER_NONE)
			out->add_of = reg64(o->mem.base);
		if (out->add_of == X86_RSP && out->dst == X86_RSP)
			out->sp_delta = (int)o->mem.disp.value;
		return;
	}
	if (o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN || o->mem.type != ZYDIS_MEMOP_TYPE_MEM)
		return; /* the stack of push, pop, call; string operations */
	out->load = o->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	out->store = o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	out->mem_base = rip ? INSN_NOREG : reg64(o->mem.base);
	out->mem_index = reg64(o->mem.index);
	out->mem_disp = o->mem.disp.has_displacement ? o->mem.disp.value : 0;
	out->mem_size = o->size / 8;
	out->mem_addr = at;
}

/* sp is known behind: push, pop, add/sub with a constant, lea of itself. */
static void stack(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
		  struct insn *out)
{
	int width = z->operand_width / 8;

	if (!(out->writes >> X86_RSP & 1))
		return;
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
		out->sp_delta = -width;
		return;
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		out->sp_delta = width;
		out->sp_lost = out->dst == X86_RSP;
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ops[0].reg.value == ZYDIS_REGISTER_RSP &&
		    ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
			int v = (int)ops[1].imm.value.s;

			out->sp_delta = z->mnemonic == ZYDIS_MNEMONIC_ADD ? v : -v;
			return;
		}
		break;
	case ZYDIS_MNEMONIC_LEA:
		if (out->sp_delta)
			return;
		break;
	case ZYDIS_MNEMONIC_CALL:
	case ZYDIS_MNEMONIC_RET:
		return;
	default:
		break;
	}
	out->sp_lost = true;
}

static void operands(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
		     struct insn *out)
{
	unsigned int i;

	for (i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *o = &ops[i];
		int r;

		if (o->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		if (!(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		r = reg64(o->reg.value);
		if (r < 0)
			continue;
		out->writes |= 1u << r;
		if (out->dst < 0 && o->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
			out->dst = r;
	}
	for (i = 0; i < z->operand_count; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			memory(z, &ops[i], out);
	if (out->kind == INSN_JMP_IND && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->copy_of = reg64(ops[0].reg.value);
	if (z->mnemonic == ZYDIS_MNEMONIC_MOV && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[0].size == 64 && ops[1].size == 64)
		out->copy_of = reg64(ops[1].reg.value);
	/* The register stored, so that a spilled argument can be followed. */
	if (z->mnemonic == ZYDIS_MNEMONIC_MOV && out->store && ops[0].size == 64 &&
	    ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->copy_of = reg64(ops[1].reg.value);
	if (z->mnemonic == ZYDIS_MNEMONIC_ADD && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
		out->add_of = reg64(ops[1].reg.value);
	out->sign_load = z->mnemonic == ZYDIS_MNEMONIC_MOVSXD && out->load;
	if (z->mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		out->kind = INSN_UNCLEAR;
	stack(z, ops, out);
}

static void describe(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *ops,
		     struct insn *out)
{
	const char *reg = NULL;

	if (out->kind == INSN_PUSH && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		reg = ZydisRegisterGetString(ops[0].reg.value);
	snprintf(out->text, sizeof(out->text), "%s%s%s%s", has_prefix(z, 0xf0) ? "lock " : "",
		 ZydisMnemonicGetString(z->mnemonic), reg ? " " : "", reg ? reg : "");
}

int insn__decode_x86(enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		     struct insn *out)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisDecoderContext ctx;
	ZyanStatus st;

	if (detail == INSN_FULL)
		st = ZydisDecoderDecodeFull(decoder(), p, n, &z, ops);
	else
		st = ZydisDecoderDecodeInstruction(decoder(), &ctx, p, n, &z);
	if (!ZYAN_SUCCESS(st) || !z.length || z.length > n)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	out->addr = addr;
	out->len = z.length;
	out->dst = out->copy_of = out->mem_base = out->mem_index = out->add_of = INSN_NOREG;
	classify(p, &z, out);
	if (out->kind == INSN_JMP || out->kind == INSN_JCC || out->kind == INSN_CALL)
		out->target = addr + z.length + (uint64_t)z.raw.imm[0].value.s;
	if (detail == INSN_FULL) {
		operands(&z, ops, out);
		describe(&z, ops, out);
	}
	return 0;
}
