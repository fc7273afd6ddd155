/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Registers and memory of the traced thread. */
#ifndef MEMTAP_USER_BPF_H
#define MEMTAP_USER_BPF_H

#include "maps.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define REG_ARGS 6
#define CTX_SP(c) ((c)->sp)
#define CTX_RC(c) ((c)->ax)
#elif defined(__TARGET_ARCH_arm64)
#define REG_ARGS 8
#define CTX_SP(c) (((const volatile struct user_pt_regs *)(c))->sp)
#define CTX_RC(c) (((const volatile struct user_pt_regs *)(c))->regs[0])
#endif

#define MT_STR2(x) #x
#define MT_STR(x) MT_STR2(x)

/* A constant that the loader may replace in a clone of the program. */
static __always_inline __u64 patch_mode(void)
{
	__u64 v;

	asm volatile("%0 = " MT_STR(MT_PATCH_MODE) : "=r"(v));
	return v;
}

static __always_inline __u64 patch_site(void)
{
	__u64 v;

	asm volatile("%0 = " MT_STR(MT_PATCH_SITE) : "=r"(v));
	return v;
}

static __always_inline int user_read(void *dst, __u32 n, __u64 addr)
{
	const void *p = (const void *)addr;

	if (!bpf_probe_read_user(dst, n, p))
		return 0;
	/* The page may just not be resident: only a program that may sleep can tell. */
	if (patch_mode() & MT_MODE_SLEEPABLE)
		return bpf_copy_from_user(dst, n, p);
	return -14; /* EFAULT */
}

static __always_inline int user_u64(__u64 addr, __u64 *v)
{
	*v = 0;
	return user_read(v, sizeof(*v), addr);
}

/* Text with its NUL; length with NUL, or negative. */
static __always_inline long user_str(char *dst, __u32 n, __u64 addr)
{
	const char *p = (const char *)addr;
	long r = bpf_probe_read_user_str(dst, n, p);
	char c;

	if (r >= 0)
		return r;
	if (patch_mode() & MT_MODE_SLEEPABLE) {
		/* Fault in the page it starts on and, if there is one, the next. */
		if (bpf_copy_from_user(&c, 1, p))
			return r;
		(void)bpf_copy_from_user(&c, 1, p + n - 1);
		return bpf_probe_read_user_str(dst, n, p);
	}
	return r;
}

/* Integer argument i of the function that starts with stack pointer sp. */
static __always_inline __u64 ctx_arg(struct pt_regs *ctx, int i, __u64 sp)
{
	__u64 v;

#if defined(__TARGET_ARCH_x86)
	switch (i) {
	case 0:
		return ctx->di;
	case 1:
		return ctx->si;
	case 2:
		return ctx->dx;
	case 3:
		return ctx->cx;
	case 4:
		return ctx->r8;
	case 5:
		return ctx->r9;
	}
	sp += 8; /* above the return address */
#else
	const volatile struct user_pt_regs *r = (const void *)ctx;

	switch (i) {
	case 0:
		return r->regs[0];
	case 1:
		return r->regs[1];
	case 2:
		return r->regs[2];
	case 3:
		return r->regs[3];
	case 4:
		return r->regs[4];
	case 5:
		return r->regs[5];
	case 6:
		return r->regs[6];
	case 7:
		return r->regs[7];
	}
#endif
	if (i < 0 || user_u64(sp + 8 * (__u64)(i - REG_ARGS), &v))
		return 0;
	return v;
}

#endif
