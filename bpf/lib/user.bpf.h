/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Registers and memory of the traced thread. */
#ifndef MEMTAP_USER_BPF_H
#define MEMTAP_USER_BPF_H

#include "maps.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define REG_ARGS 6
#define CTX_SP(c) ((c)->sp)
#define CTX_RC(c) ((c)->ax)
#define CTX_IP(c) ((c)->ip)
#elif defined(__TARGET_ARCH_arm64)
#define REG_ARGS 8
#define CTX_SP(c) (((const volatile struct user_pt_regs *)(c))->sp)
#define CTX_RC(c) (((const volatile struct user_pt_regs *)(c))->regs[0])
#define CTX_IP(c) (((const volatile struct user_pt_regs *)(c))->pc)
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

/* May wait for a page: not under a reservation, see user_str. */
static __always_inline int user_read(void *dst, __u32 n, __u64 addr)
{
	const void *p = (const void *)addr;

	if (!bpf_probe_read_user(dst, n, p))
		return 0;
#ifndef MT_NO_SLEEP
	/* The page may just not be resident: only a program that may sleep can tell. */
	if (patch_mode() & MT_MODE_SLEEPABLE)
		return bpf_copy_from_user(dst, n, p);
#endif
	return -14; /* EFAULT */
}

static __always_inline int user_u64(__u64 addr, __u64 *v)
{
	*v = 0;
	return user_read(v, sizeof(*v), addr);
}

/*
 * Text with its NUL; length with NUL, or negative. As user_read it may wait for a
 * page, so never between a reservation in a ring and its end: a record that is not
 * submitted stops the reader at it, and the target decides how long a fault takes
 * (userfaultfd, a file system that hangs).
 */
static __always_inline long user_str(char *dst, __u32 n, __u64 addr)
{
	const char *p = (const char *)addr;
	long r = bpf_probe_read_user_str(dst, n, p);
#ifndef MT_NO_SLEEP
	char c;

	if (r < 0 && (patch_mode() & MT_MODE_SLEEPABLE)) {
		/* Fault in the page it starts on and, if there is one, the next. */
		if (bpf_copy_from_user(&c, 1, p))
			return r;
		(void)bpf_copy_from_user(&c, 1, p + n - 1);
		return bpf_probe_read_user_str(dst, n, p);
	}
#endif
	return r;
}

/* Keeps the compiler from folding the cases into one load at a computed offset, which the
 * verifier refuses for the context. */
#define KEEP(v) asm volatile("" : "+r"(v))

/* Integer argument i of the function that starts with stack pointer sp. */
static __always_inline __u64 ctx_arg(struct pt_regs *ctx, int i, __u64 sp)
{
	__u64 v;

#if defined(__TARGET_ARCH_x86)
	switch (i) {
	case 0:
		v = ctx->di;
		KEEP(v);
		return v;
	case 1:
		v = ctx->si;
		KEEP(v);
		return v;
	case 2:
		v = ctx->dx;
		KEEP(v);
		return v;
	case 3:
		v = ctx->cx;
		KEEP(v);
		return v;
	case 4:
		v = ctx->r8;
		KEEP(v);
		return v;
	case 5:
		v = ctx->r9;
		KEEP(v);
		return v;
	}
	sp += 8; /* above the return address */
#else
	const volatile struct user_pt_regs *r = (const void *)ctx;

	switch (i) {
	case 0:
		v = r->regs[0];
		KEEP(v);
		return v;
	case 1:
		v = r->regs[1];
		KEEP(v);
		return v;
	case 2:
		v = r->regs[2];
		KEEP(v);
		return v;
	case 3:
		v = r->regs[3];
		KEEP(v);
		return v;
	case 4:
		v = r->regs[4];
		KEEP(v);
		return v;
	case 5:
		v = r->regs[5];
		KEEP(v);
		return v;
	case 6:
		v = r->regs[6];
		KEEP(v);
		return v;
	case 7:
		v = r->regs[7];
		KEEP(v);
		return v;
	}
#endif
	if (i < 0 || user_u64(sp + 8 * (__u64)(i - REG_ARGS), &v))
		return 0;
	return v;
}

#endif
