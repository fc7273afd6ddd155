/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One machine instruction as the choice of probe sites and the derivation need
 * it, the same for x86-64 (Zydis) and aarch64 (own decoder) on any host.
 */
#ifndef MEMTAP_PROBE_INSN_H
#define MEMTAP_PROBE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_kind {
	INSN_OTHER,
	INSN_NOP, /* one byte on x86-64, `nop` on aarch64 */
	INSN_NOP_N, /* x86-64: the longer nops 0f 1f */
	INSN_PUSH, /* x86-64: push of a register */
	INSN_JMP, /* direct, unconditional */
	INSN_JCC, /* direct, conditional (cbz and tbz too) */
	INSN_CALL, /* direct */
	INSN_JMP_IND, /* through a register or memory */
	INSN_CALL_IND,
	INSN_RET,
	INSN_STOP, /* never goes on: ud2, hlt, brk, udf */
	INSN_UNCLEAR, /* system calls, exclusives, unknown groups: no site behind it */
};

/* Register numbers are the machine's own: x86-64 rax 0 … r15 15, aarch64 x0 … x30, sp 31. */
#define INSN_NOREG (-1)
#define X86_RSP 4
#define A64_SP 31

struct insn {
	uint64_t addr;
	unsigned int len;
	enum insn_kind kind;
	bool emulated; /* by the kernels of all supported releases */
	unsigned int emu; /* or by those only that calibration found to: a SITE_EMU_* bit */
	bool refused; /* no kernel puts a probe on it, or what it reads would change */
	uint64_t target; /* of direct branches and calls */

	/* only when decoded in full */
	uint32_t writes; /* integer registers written, also in part */
	bool sp_lost; /* sp gets a value that is not sp + constant */
	int sp_delta; /* change of sp */
	int dst; /* first register written explicitly */
	/*
	 * A move: dst = this whole register. A store: the 64-bit register stored.
	 * An indirect jump: the register it goes through.
	 */
	int copy_of;
	bool load, store; /* memory is read, written (not for lea, push, pop, call) */
	int mem_base; /* base register, INSN_NOREG for none */
	int mem_index;
	int64_t mem_disp;
	unsigned int mem_size; /* bytes */
	uint64_t mem_addr; /* address when it is a constant (rip-relative, absolute), else 0 */
	uint64_t value; /* constant that dst gets: lea rip, adr, adrp; else 0 */
	int add_of; /* dst = this register + add_imm (aarch64), dst + it (x86 add) */
	int64_t add_imm;
	bool sign_load; /* movsxd and the like */
	char text[24];
};

enum insn_detail { INSN_FLOW, INSN_FULL };

/* 0, or -EINVAL when the bytes are no instruction of this machine. */
int insn__decode(int machine, enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		 struct insn *out);
int insn__decode_x86(enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		     struct insn *out);
int insn__decode_a64(enum insn_detail detail, const uint8_t *p, size_t n, uint64_t addr,
		     struct insn *out);
/* Argument registers 0 to nargs - 1 as bits of `writes`; those on the stack have none. */
uint32_t insn__arg_mask(int machine, int nargs);

#endif
