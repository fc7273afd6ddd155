// SPDX-License-Identifier: Apache-2.0
/* Probe sites: hand-assembled functions of both machines, and the running C library. */
#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>

#include "data-elf/mkelf.h"
#include "probe/insn.h"

#define X86(...) ((const uint8_t[]){ __VA_ARGS__ }), sizeof((const uint8_t[]){ __VA_ARGS__ })
#define A64(...) ((const uint32_t[]){ __VA_ARGS__ }), sizeof((const uint32_t[]){ __VA_ARGS__ })

/* One function with an FDE; its site. */
static struct site site_of(int machine, const void *code, size_t n, int nargs, unsigned int emu)
{
	struct elf_image *img;
	struct mkelf m;
	struct site s;

	mkelf_init(&m, machine);
	mkelf_code(&m, code, n);
	mkelf_fde(&m, 0, (uint32_t)n, false);
	img = mkelf_open(&m);
	cr_assert_eq(site__entry(img, MKELF_AT(0), nargs, emu, &s), 0);
	cr_assert_eq(s.off, s.vaddr - MKELF_BASE);
	elf_image__close(img);
	return s;
}

#define check_site(machine, code, nargs, emu, delta, sp, want)                    \
	do {                                                                      \
		struct site s_ = site_of(machine, code, nargs, emu);              \
		cr_expect_eq(s_.vaddr, (uint64_t)MKELF_AT(delta), "at +%ld (%s)", \
			     (long)(s_.vaddr - MKELF_AT(0)), s_.insn);            \
		cr_expect_eq(s_.sp_off, sp, "sp_off %d", s_.sp_off);              \
		cr_expect_eq(s_.cost, want, "cost of %s", s_.insn);               \
	} while (0)

#define x86_site(nargs, emu, delta, sp, want, ...) \
	check_site(EM_X86_64, X86(__VA_ARGS__), nargs, emu, delta, sp, want)
#define a64_site(nargs, emu, delta, sp, want, ...) \
	check_site(EM_AARCH64, A64(__VA_ARGS__), nargs, emu, delta, sp, want)

Test(site, x86_push)
{
	x86_site(6, 0, 0, 0, SITE_EMULATED, 0x55, 0xc3); /* push rbp */
	x86_site(6, 0, 0, 0, SITE_EMULATED, 0x41, 0x57, 0xc3); /* push r15 */
	/* endbr64 is stepped, the push behind it not */
	x86_site(6, 0, 4, 0, SITE_EMULATED, 0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0xc3);
	/* push ax (66) and push with REX.W are not in the kernel's set; sp has moved */
	x86_site(6, 0, 2, 2, SITE_EMULATED, 0x66, 0x50, 0x53, 0xc3);
	x86_site(6, 0, 2, 8, SITE_EMULATED, 0x48, 0x55, 0x53, 0xc3);
}

Test(site, x86_stack)
{
	/* sub rsp, 24; test rdi, rdi; je */
	x86_site(1, 0, 7, 24, SITE_EMULATED, 0x48, 0x83, 0xec, 0x18, 0x48, 0x85, 0xff, 0x74, 0x00,
		 0xc3);
	/* lea rsp, [rsp - 40] */
	x86_site(1, 0, 5, 40, SITE_EMULATED, 0x48, 0x8d, 0x64, 0x24, 0xd8, 0x53, 0xc3);
	/* and rsp, -32: lost */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x83, 0xe4, 0xe0, 0x53, 0xc3);
	/* pop rax; push rax: above the entry */
	x86_site(1, 0, 1, -8, SITE_EMULATED, 0x58, 0x50, 0xc3);
}

Test(site, x86_arguments)
{
	/* mov rdi, rsi; push rbx */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x89, 0xf7, 0x53, 0xc3);
	x86_site(0, 0, 3, 0, SITE_EMULATED, 0x48, 0x89, 0xf7, 0x53, 0xc3);
	/* xor esi, esi writes the second */
	x86_site(1, 0, 2, 0, SITE_EMULATED, 0x31, 0xf6, 0x53, 0xc3);
	x86_site(2, 0, 0, 0, SITE_STEPPED, 0x31, 0xf6, 0x53, 0xc3);
	/* mov cl, 1: part of the fourth */
	x86_site(4, 0, 0, 0, SITE_STEPPED, 0xb1, 0x01, 0x53, 0xc3);
	/* mul rsi: rdx, not named in the instruction */
	x86_site(2, 0, 3, 0, SITE_EMULATED, 0x48, 0xf7, 0xe6, 0x53, 0xc3);
	x86_site(3, 0, 0, 0, SITE_STEPPED, 0x48, 0xf7, 0xe6, 0x53, 0xc3);
}

Test(site, x86_branches)
{
	/* test rdi, rdi; je; push: the je, as in free */
	x86_site(1, 0, 3, 0, SITE_EMULATED, 0x48, 0x85, 0xff, 0x74, 0x01, 0x53, 0xc3);
	/* near jcc */
	x86_site(1, 0, 3, 0, SITE_EMULATED, 0x48, 0x85, 0xff, 0x0f, 0x84, 0, 0, 0, 0, 0xc3);
	/* L: dec rax; jne L: the jne runs often */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3);
	/* back to the entry, from far behind */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x85, 0xff, 0x53, 0x5b, 0xeb, 0xf9);
	/* jrcxz is a branch, not emulated: nothing behind it */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0xe3, 0x00, 0x53, 0xc3);
	/* a call can be the site; nothing behind it can */
	x86_site(1, 0, 3, 0, SITE_EMULATED, 0x48, 0x89, 0xf8, 0xe8, 0, 0, 0, 0, 0x53, 0xc3);
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0xff, 0xd0, 0x53, 0xc3); /* call rax */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x0f, 0x05, 0x53, 0xc3); /* syscall */
	/* thunks */
	x86_site(6, 0, 0, 0, SITE_EMULATED, 0xe9, 0x00, 0x01, 0x00, 0x00);
	x86_site(6, 0, 0, 0, SITE_STEPPED, 0xff, 0x25, 0x00, 0x01, 0x00, 0x00);
	/* jmp with 66: the kernel refuses it */
	x86_site(6, 0, 0, 0, SITE_STEPPED, 0x66, 0xe9, 0x00, 0x01, 0x00, 0x00);
}

/* The frame would not fit the 16 bits that the programs have for it: a probe at the entry does. */
Test(site, x86_large_frame)
{
	/* sub rsp, 0x9000; nop */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x81, 0xec, 0, 0x90, 0, 0, 0x90, 0xc3);
	/* sub rsp, 0x7000; nop; and twice the half of what is too much */
	x86_site(1, 0, 7, 0x7000, SITE_EMULATED, 0x48, 0x81, 0xec, 0, 0x70, 0, 0, 0x90, 0xc3);
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x81, 0xec, 0, 0x48, 0, 0, 0x48, 0x81, 0xec, 0,
		 0x48, 0, 0, 0x90, 0xc3);
	/* add rsp, 0x9000: above the entry */
	x86_site(1, 0, 0, 0, SITE_STEPPED, 0x48, 0x81, 0xc4, 0, 0x90, 0, 0, 0x90, 0xc3);
}

static bool refused(int machine, const void *p, size_t n)
{
	struct insn in;

	cr_assert_eq(insn__decode(machine, INSN_FULL, p, n, 0x1000, &in), 0);
	return in.refused;
}

/* By trying each opcode with a kernel 6.18, which refuses least. */
Test(site, x86_refused)
{
	/* lock add [rsp], 0; cs, ds, es nops and jumps; 16-bit branches; mov ss, ax */
	cr_expect(refused(EM_X86_64, X86(0xf0, 0x83, 0x04, 0x24, 0)));
	cr_expect(refused(EM_X86_64, X86(0x2e, 0x0f, 0x1f, 0x40, 0)));
	cr_expect(refused(EM_X86_64, X86(0x3e, 0xff, 0xe0)));
	cr_expect(refused(EM_X86_64, X86(0x26, 0x89, 0xc0)));
	cr_expect(refused(EM_X86_64, X86(0x66, 0xe9, 0, 1, 0, 0)));
	cr_expect(refused(EM_X86_64, X86(0x66, 0x0f, 0x84, 0, 1, 0, 0)));
	cr_expect(refused(EM_X86_64, X86(0x8e, 0xd0)));
	/* int3, int 0x80, iret, in, out, insb, int1, hlt, cli */
	cr_expect(refused(EM_X86_64, X86(0xcc)));
	cr_expect(refused(EM_X86_64, X86(0xcd, 0x80)));
	cr_expect(refused(EM_X86_64, X86(0xcf)));
	cr_expect(refused(EM_X86_64, X86(0xe4, 0)));
	cr_expect(refused(EM_X86_64, X86(0xef)));
	cr_expect(refused(EM_X86_64, X86(0x6c)));
	cr_expect(refused(EM_X86_64, X86(0xf1)));
	cr_expect(refused(EM_X86_64, X86(0xf4)));
	cr_expect(refused(EM_X86_64, X86(0xfa)));
	/* vpxor xmm0, xmm0, xmm0: the kernel takes its ef for an `out` */
	cr_expect(refused(EM_X86_64, X86(0xc5, 0xf9, 0xef, 0xc0)));

	cr_expect(!refused(EM_X86_64, X86(0x83, 0x04, 0x24, 0)));
	cr_expect(!refused(EM_X86_64, X86(0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0))); /* fs */
	cr_expect(!refused(EM_X86_64, X86(0x66, 0x0f, 0x1f, 0x44, 0, 0)));
	cr_expect(!refused(EM_X86_64, X86(0x8e, 0xd8))); /* mov ds, ax */
	cr_expect(!refused(EM_X86_64, X86(0x66, 0x0f, 0xef, 0xc0))); /* pxor */
	cr_expect(!refused(EM_X86_64, X86(0xc5, 0xf8, 0x77))); /* vzeroupper */
	cr_expect(!refused(EM_X86_64, X86(0xf3, 0x0f, 0x1e, 0xfa)));
	cr_expect(!refused(EM_X86_64, X86(0x55)));
}

Test(site, a64_refused)
{
	/* ldr x0, #8; ldr q0, #8; prfm #8; ldxr; stlxr; ldar; cas */
	cr_expect(refused(EM_AARCH64, A64(0x58000040)));
	cr_expect(refused(EM_AARCH64, A64(0x9c000040)));
	cr_expect(refused(EM_AARCH64, A64(0xd8000040)));
	cr_expect(refused(EM_AARCH64, A64(0xc85f7c20)));
	cr_expect(refused(EM_AARCH64, A64(0xc802fc20)));
	cr_expect(refused(EM_AARCH64, A64(0xc8dffc20)));
	cr_expect(refused(EM_AARCH64, A64(0xc8a07c20)));
	/* retaa, braaz x0, eret, svc, brk, msr nzcv, x0; mrs x0, daif; autiasp; wfe; yield */
	cr_expect(refused(EM_AARCH64, A64(0xd65f0bff)));
	cr_expect(refused(EM_AARCH64, A64(0xd61f081f)));
	cr_expect(refused(EM_AARCH64, A64(0xd69f03e0)));
	cr_expect(refused(EM_AARCH64, A64(0xd4000001)));
	cr_expect(refused(EM_AARCH64, A64(0xd4200000)));
	cr_expect(refused(EM_AARCH64, A64(0xd51b4200)));
	cr_expect(refused(EM_AARCH64, A64(0xd53b4220)));
	cr_expect(refused(EM_AARCH64, A64(0xd50323bf)));
	cr_expect(refused(EM_AARCH64, A64(0xd503205f)));
	cr_expect(refused(EM_AARCH64, A64(0xd503203f)));

	/* br, blr, ret, b, cbz, adrp, ldr x0, [x1]; ldr q0, [x1]; mrs tpidr; nop, paciasp, bti c */
	cr_expect(!refused(EM_AARCH64, A64(0xd61f0000)));
	cr_expect(!refused(EM_AARCH64, A64(0xd63f0200)));
	cr_expect(!refused(EM_AARCH64, A64(0xd65f03c0)));
	cr_expect(!refused(EM_AARCH64, A64(0x14000001)));
	cr_expect(!refused(EM_AARCH64, A64(0xb4000020)));
	cr_expect(!refused(EM_AARCH64, A64(0x90000000)));
	cr_expect(!refused(EM_AARCH64, A64(0xf9400020)));
	cr_expect(!refused(EM_AARCH64, A64(0x3dc00020)));
	cr_expect(!refused(EM_AARCH64, A64(0xd53bd040)));
	cr_expect(!refused(EM_AARCH64, A64(0xd503201f)));
	cr_expect(!refused(EM_AARCH64, A64(0xd503233f)));
	cr_expect(!refused(EM_AARCH64, A64(0xd503245f)));
}

/* A refused entry: the first instruction behind it that takes a probe, if it stands for the entry. */
Test(site, refused_entry)
{
	struct site s;

	/* lock add [rsp], 0; xor eax, eax; ret */
	x86_site(1, 0, 5, 0, SITE_STEPPED, 0xf0, 0x83, 0x04, 0x24, 0, 0x31, 0xc0, 0xc3);
	/* … a push behind it is better */
	x86_site(1, 0, 7, 0, SITE_EMULATED, 0xf0, 0x83, 0x04, 0x24, 0, 0x31, 0xc0, 0x53, 0xc3);
	/* lock xadd [rsi], rdi writes the argument */
	s = site_of(EM_X86_64, X86(0xf0, 0x48, 0x0f, 0xc1, 0x3e, 0x31, 0xc0, 0xc3), 1, 0);
	cr_expect_eq(s.vaddr, (uint64_t)MKELF_AT(0));
	cr_expect(s.refused);
	cr_expect_str_eq(s.insn, "lock xadd");
	/* lock add [rsp], 0; back to the entry from behind */
	s = site_of(EM_X86_64, X86(0xf0, 0x83, 0x04, 0x24, 0, 0x31, 0xc0, 0xeb, 0xf7), 1, 0);
	cr_expect(s.refused);
	/* ldr x8, #8; add x8, x8, x0; ret */
	a64_site(1, 0, 8, 0, SITE_EMULATED, 0x58000048, 0x8b000108, 0xd65f03c0);
	a64_site(1, 0, 4, 0, SITE_STEPPED, 0x58000048, 0x8b000108, 0x8b000000, 0xd65f03c0);
}

Test(site, x86_nops)
{
	x86_site(1, 0, 0, 0, SITE_EMULATED, 0x90, 0xc3);
	/* xchg rax, r8: the kernel takes it for a nop, we must not */
	x86_site(1, 0, 2, 0, SITE_EMULATED, 0x49, 0x90, 0x53, 0xc3);
	x86_site(1, 0, 2, 0, SITE_EMULATED, 0xf3, 0x90, 0x53, 0xc3); /* pause */
	x86_site(1, 0, 5, 0, SITE_EMULATED, 0x0f, 0x1f, 0x44, 0, 0, 0x53, 0xc3);
	x86_site(1, SITE_EMU_MULTINOP, 0, 0, SITE_EMULATED, 0x0f, 0x1f, 0x44, 0, 0, 0x53, 0xc3);
	x86_site(1, SITE_EMU_MULTINOP, 2, 0, SITE_EMULATED, 0x66, 0x90, 0x53, 0xc3);
	/* Behind the entry four bytes will do, five may be rewritten to a call. */
	x86_site(1, SITE_EMU_MULTINOP, 3, 0, SITE_EMULATED, 0x48, 0x89, 0xf8, 0x0f, 0x1f, 0x40, 0,
		 0x53, 0xc3);
	x86_site(1, SITE_EMU_MULTINOP, 8, 0, SITE_EMULATED, 0x48, 0x89, 0xf8, 0x0f, 0x1f, 0x44, 0,
		 0, 0x53, 0xc3);
	/* endbr64 */
	x86_site(1, SITE_EMU_MULTINOP, 4, 0, SITE_EMULATED, 0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0xc3);
	x86_site(1, SITE_EMU_ENDBR, 0, 0, SITE_EMULATED, 0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0xc3);
}

Test(site, x86_table_leads_back)
{
	/*
	 * lea rax, [rip + table]; test rdi, rdi; jne +0; movsxd rcx, [rax + rdi * 4];
	 * add rax, rcx; jmp rax; table of one entry to the lea, or to the ret.
	 */
	uint8_t code[] = { 0x48, 0x8d, 0x05, 0x12, 0,	 0,    0,    0x48, 0x85, 0xff, 0x75,
			   0,	 0x48, 0x63, 0x0c, 0xb8, 0x48, 0x01, 0xc8, 0xff, 0xe0, 0xc3,
			   0,	 0,    0,    0xe7, 0xff, 0xff, 0xff, 0x7f, 0,	 0,    0 };
	struct elf_image *img;
	struct mkelf m;
	struct site s;
	int i;

	for (i = 0; i < 2; i++) {
		code[25] = i ? 22 - 25 - 1 : 0xe7; /* the ret: not in the way */
		mkelf_init(&m, EM_X86_64);
		mkelf_code(&m, code, sizeof(code));
		mkelf_fde(&m, 0, 22, false);
		img = mkelf_open(&m);
		cr_assert_eq(site__entry(img, MKELF_AT(0), 1, 0, &s), 0);
		cr_expect_eq(s.vaddr, (uint64_t)MKELF_AT(i ? 10 : 0));
		elf_image__close(img);
	}
}

Test(site, cold_part_leads_back)
{
	/* mov rax, rdi; test; jne cold; ret | cold: jmp to the test */
	const uint8_t hot[] = {
		0x48, 0x89, 0xf8, 0x48, 0x85, 0xff, 0x0f, 0x85, 0x01, 0, 0, 0, 0xc3
	};
	const uint8_t cold[] = { 0xeb, (uint8_t)(3 - 15) };
	struct elf_image *img;
	struct mkelf m;
	struct site s;

	mkelf_init(&m, EM_X86_64);
	mkelf_code(&m, hot, sizeof(hot));
	mkelf_fde(&m, mkelf_code(&m, cold, sizeof(cold)), sizeof(cold), false);
	mkelf_fde(&m, 0, sizeof(hot), false);
	img = mkelf_open(&m);
	cr_assert_eq(site__entry(img, MKELF_AT(0), 1, 0, &s), 0);
	cr_expect_eq(s.cost, SITE_STEPPED);
	elf_image__close(img);
}

Test(site, second_symbol)
{
	const uint8_t code[] = { 0x48, 0x89, 0xf8, 0x48, 0x85, 0xff, 0x53, 0xc3 };
	struct elf_image *img;
	struct mkelf m;
	struct site s;

	mkelf_init(&m, EM_X86_64);
	mkelf_code(&m, code, sizeof(code));
	mkelf_fde(&m, 0, sizeof(code), false);
	mkelf_symbol(&m, "whole", 0, 8);
	mkelf_symbol(&m, "inner", 3, 5);
	img = mkelf_open(&m);
	cr_assert_eq(site__entry(img, MKELF_AT(0), 1, 0, &s), 0);
	cr_expect_eq(s.cost, SITE_STEPPED);
	cr_assert_eq(site__entry(img, MKELF_AT(3), 1, 0, &s), 0);
	cr_expect_eq(s.vaddr, (uint64_t)MKELF_AT(6));
	elf_image__close(img);
}

Test(site, no_bounds)
{
	/* test rdi, rdi; je | test rdi, rdi; push rbx */
	const uint8_t code[] = { 0x48, 0x85, 0xff, 0x74, 0x00, 0xc3, 0x48, 0x85, 0xff, 0x53, 0xc3 };
	struct elf_image *img;
	struct mkelf m;
	struct site s;

	mkelf_init(&m, EM_X86_64);
	mkelf_code(&m, code, sizeof(code));
	img = mkelf_open(&m);
	cr_assert_eq(site__entry(img, MKELF_AT(0), 1, 0, &s), 0);
	cr_expect_eq(s.cost, SITE_STEPPED, "a branch may be led back to");
	cr_assert_eq(site__entry(img, MKELF_AT(6), 1, 0, &s), 0);
	cr_expect_eq(s.vaddr, (uint64_t)MKELF_AT(9), "a push cannot");
	cr_expect_lt(site__entry(img, 0x10, 1, 0, &s), 0, "not in the file");
	elf_image__close(img);
	/* with the symbol's size the branch is known to be good */
	mkelf_symbol(&m, "f", 0, 6);
	img = mkelf_open(&m);
	cr_assert_eq(site__entry(img, MKELF_AT(0), 1, 0, &s), 0);
	cr_expect_eq(s.vaddr, (uint64_t)MKELF_AT(3));
	elf_image__close(img);
}

Test(site, a64)
{
	/* stp x29, x30, [sp, -32]!; adrp x1: the report function of torch_npu */
	a64_site(1, 0, 4, 32, SITE_EMULATED, 0xa9be7bfd, 0x90000001, 0xd65f03c0);
	/* sub sp, sp, 0x90; adrp */
	a64_site(1, 0, 4, 0x90, SITE_EMULATED, 0xd10243ff, 0x90000001, 0xd65f03c0);
	/* cbz x0: glibc's free */
	a64_site(1, 0, 0, 0, SITE_EMULATED, 0xb4000040, 0xd65f03c0, 0xd65f03c0);
	/* paciasp; stp; mov x29, sp; adrp x2 */
	a64_site(2, 0, 12, 32, SITE_EMULATED, 0xd503233f, 0xa9be7bfd, 0x910003fd, 0x90000002,
		 0xd65f03c0);
	/* nop is simulated from 6.13 */
	a64_site(1, 0, 4, 0, SITE_EMULATED, 0xd503201f, 0x90000001, 0xd65f03c0);
	a64_site(1, SITE_EMU_NOP, 0, 0, SITE_EMULATED, 0xd503201f, 0x90000001, 0xd65f03c0);
	/* adr x0 writes the argument, but only after the probe */
	a64_site(1, 0, 0, 0, SITE_EMULATED, 0x10000000, 0xd65f03c0);
	/* bl as the site */
	a64_site(1, 0, 4, 16, SITE_EMULATED, 0xa9bf7bfd, 0x94000100, 0xd65f03c0);
}

Test(site, a64_arguments)
{
	/* mov x0, x1; adrp x9 */
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0xaa0103e0, 0x90000009, 0xd65f03c0);
	a64_site(0, 0, 4, 0, SITE_EMULATED, 0xaa0103e0, 0x90000009, 0xd65f03c0);
	/* ldp x2, x3, [x0]: third and fourth */
	a64_site(2, 0, 4, 0, SITE_EMULATED, 0xa9400c02, 0x90000009, 0xd65f03c0);
	a64_site(4, 0, 0, 0, SITE_STEPPED, 0xa9400c02, 0x90000009, 0xd65f03c0);
	/* ldr x9, [x0], 8: writeback */
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0xf8408409, 0x90000009, 0xd65f03c0);
	/* str x0, [sp, -16]! */
	a64_site(1, 0, 4, 16, SITE_EMULATED, 0xf81f0fe0, 0x90000009, 0xd65f03c0);
	/* ldr d0, [x0] writes no integer register; fmov x0, d0 does */
	a64_site(1, 0, 4, 0, SITE_EMULATED, 0xfd400000, 0x90000009, 0xd65f03c0);
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0x9e660000, 0x90000009, 0xd65f03c0);
	/* cmp x0, x1 writes none; subs x0, x0, 1 does */
	a64_site(2, 0, 4, 0, SITE_EMULATED, 0xeb01001f, 0x90000009, 0xd65f03c0);
	a64_site(2, 0, 0, 0, SITE_STEPPED, 0xf1000400, 0x90000009, 0xd65f03c0);
	/* mov sp, x9; svc; ldxr; an SVE instruction: unclear */
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0x9100013f, 0x90000009, 0xd65f03c0);
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0xd4000001, 0x90000009, 0xd65f03c0);
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0xc85f7c09, 0x90000009, 0xd65f03c0);
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0x04225020, 0x90000009, 0xd65f03c0);
	/* L: sub x9, x9, 1; cbnz x9, L */
	a64_site(1, 0, 0, 0, SITE_STEPPED, 0xd1000529, 0xb5ffffe9, 0xd65f03c0);
}

static int returns_of(int machine, const void *code, size_t n, uint64_t *at)
{
	struct elf_image *img;
	struct site s[8];
	struct mkelf m;
	int i, r;

	mkelf_init(&m, machine);
	mkelf_code(&m, code, n);
	mkelf_fde(&m, 0, (uint32_t)n, false);
	img = mkelf_open(&m);
	r = site__returns(img, MKELF_AT(0), s, 8);
	for (i = 0; i < r; i++) {
		at[i] = s[i].vaddr - MKELF_AT(0);
		cr_expect_eq(s[i].sp_off, 0);
		cr_expect_eq(s[i].cost == SITE_EMULATED,
			     machine == EM_AARCH64 && !strcmp(s[i].insn, "ret"));
	}
	elf_image__close(img);
	return r;
}

Test(returns, x86)
{
	uint64_t at[8];

	/* mov eax, 0xc3c3c3c3; ret */
	cr_assert_eq(returns_of(EM_X86_64, X86(0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3), at), 1);
	cr_expect_eq(at[0], 5);
	/* je over; repz ret; ret 8 */
	cr_assert_eq(returns_of(EM_X86_64, X86(0x74, 0x02, 0xf3, 0xc3, 0xc2, 8, 0), at), 2);
	cr_expect_eq(at[0], 2);
	cr_expect_eq(at[1], 4);
	/* a ret that nothing leads to, without table or landing pads */
	cr_assert_eq(returns_of(EM_X86_64, X86(0xc3, 0xc3), at), 1);
	/* never returns */
	cr_assert_eq(returns_of(EM_X86_64, X86(0xeb, 0xfe), at), 0);
	/* leaves by a jump: to another function, through memory, through a register */
	cr_expect_eq(returns_of(EM_X86_64, X86(0x74, 0x05, 0xe9, 0, 1, 0, 0, 0xc3), at),
		     -EOPNOTSUPP);
	cr_expect_eq(returns_of(EM_X86_64, X86(0x74, 0x06, 0xff, 0x25, 0, 1, 0, 0, 0xc3), at),
		     -EOPNOTSUPP);
	cr_expect_eq(returns_of(EM_X86_64, X86(0x48, 0x8b, 0x07, 0xff, 0xe0), at), -EOPNOTSUPP);
	/* 06 is no instruction; a jump into the middle of one */
	cr_expect_eq(returns_of(EM_X86_64, X86(0x06, 0xc3), at), -EINVAL);
	cr_expect_eq(returns_of(EM_X86_64, X86(0x74, 0x01, 0xb8, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3), at),
		     -EINVAL);
}

Test(returns, x86_switch)
{
	uint64_t at[8];

	/* movsxd rax, [rdx + rdi * 4]; add rax, rdx; jmp rax; then two cases */
	cr_assert_eq(returns_of(EM_X86_64,
				X86(0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0x31,
				    0xc0, 0xc3, 0x66, 0x90, 0xb0, 0x01, 0xc3),
				at),
		     2);
	cr_expect_eq(at[0], 11);
	cr_expect_eq(at[1], 16);
	/* a virtual call in tail position has a load too, but no table */
	cr_expect_eq(returns_of(EM_X86_64,
				X86(0x48, 0x8b, 0x07, 0x48, 0x8b, 0x40, 0x10, 0xff, 0xe0), at),
		     -EOPNOTSUPP);
}

Test(returns, cold_part)
{
	const uint8_t hot[] = { 0x53, 0x48, 0x85, 0xff, 0x0f, 0x84, 0x02, 0, 0, 0, 0x5b, 0xc3 };
	const uint8_t cold[] = { 0x5b, 0xc3 };
	struct elf_image *img;
	struct site s[4];
	struct mkelf m;
	uint32_t at;
	int framed;

	for (framed = 0; framed < 2; framed++) {
		mkelf_init(&m, EM_X86_64);
		mkelf_code(&m, hot, sizeof(hot));
		at = mkelf_code(&m, cold, sizeof(cold));
		mkelf_fde(&m, 0, sizeof(hot), false);
		mkelf_fde(&m, at, sizeof(cold), framed);
		img = mkelf_open(&m);
		/* without a frame at its start it may be any function */
		cr_expect_eq(site__returns(img, MKELF_AT(0), s, 4), framed ? 2 : -EOPNOTSUPP);
		if (framed)
			cr_expect_eq(site__returns(img, MKELF_AT(0), s, 1), -ENOSPC);
		elf_image__close(img);
	}
}

Test(returns, a64)
{
	uint64_t at[8];

	/* cbz x0, +8; ret; ret */
	cr_assert_eq(returns_of(EM_AARCH64, A64(0xb4000040, 0xd65f03c0, 0xd65f03c0), at), 2);
	cr_expect_eq(at[1], 8);
	/* retaa takes no probe: its returns would be missed */
	cr_expect_eq(returns_of(EM_AARCH64, A64(0xb4000040, 0xd65f03c0, 0xd65f0bff), at), -ENOTSUP);
	/* b to another function; br x1 of a virtual call */
	cr_expect_eq(returns_of(EM_AARCH64, A64(0x14000040), at), -EOPNOTSUPP);
	cr_expect_eq(returns_of(EM_AARCH64, A64(0xf9400001, 0xf9400821, 0xd61f0020), at),
		     -EOPNOTSUPP);
	/* ldrb w0, [x1, w0, uxtw]; adr x1; add x0, x1, w0, sxtb 2; br x0; ret; ret */
	cr_assert_eq(returns_of(EM_AARCH64,
				A64(0x38604820, 0x10000061, 0x8b208820, 0xd61f0000, 0xd65f03c0,
				    0xd65f03c0),
				at),
		     2);
}

struct found {
	struct elf_image *img;
	unsigned int n, cheap, returns;
};

static int every_function(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	struct found *f = ctx;
	struct site s, r[64];

	cr_assert_eq(site__entry(f->img, vaddr, 4, 0, &s), 0, "%s", name);
	cr_assert(s.vaddr >= vaddr && s.vaddr < vaddr + 512, "%s", name);
	f->n++;
	f->cheap += s.cost == SITE_EMULATED;
	f->returns += site__returns(f->img, vaddr, r, 64) > 0;
	return 0;
}

static int libc_path(struct dl_phdr_info *info, size_t size, void *ctx)
{
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	snprintf(ctx, 256, "%s", info->dlpi_name);
	return 1;
}

Test(site, whole_c_library)
{
	struct found f = { 0 };
	char path[256] = "";
	struct site s, r[64];
	uint64_t vaddr;

	dl_iterate_phdr(libc_path, path);
	if (!*path)
		cr_skip("no shared C library in this process");
	cr_assert_eq(elf_image__open(path, &f.img), 0);
	cr_assert_eq(elf_image__each_symbol(f.img, every_function, &f), 0);
	cr_assert_gt(f.n, 1000);
	cr_expect_gt(f.cheap, f.n / 2, "%u of %u", f.cheap, f.n);
	cr_expect_gt(f.returns, f.n / 2, "%u of %u", f.returns, f.n);
	cr_assert_eq(elf_image__symbol(f.img, "malloc", &vaddr, NULL), 0);
	cr_assert_eq(site__entry(f.img, vaddr, 1, 0, &s), 0);
	cr_expect_eq(s.cost, SITE_EMULATED);
	cr_expect_lt(s.vaddr - vaddr, 32);
	cr_assert_gt(site__returns(f.img, vaddr, r, 64), 0);
	elf_image__close(f.img);
}
