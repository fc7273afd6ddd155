// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Takes the stack of every call of a function, for tests/unit/stack_bpf.c and the bench. */
/*
 * With UW_NO_SLEEP for programs that cannot sleep: since 6.15 they must not even contain a
 * walk that could, and the walk is one function for all programs of an object.
 */
#include "lib/stack.bpf.h"

static __always_inline int take_it(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct mt_hdr h = { .tgid = id >> 32, .tid = (__u32)id, .time = bpf_ktime_get_boot_ns() };

	stack__take(ctx, &h);
	return 0;
}

SEC("uprobe")
int take(struct pt_regs *ctx)
{
	return take_it(ctx);
}

SEC("uprobe.s")
int take_s(struct pt_regs *ctx)
{
	return take_it(ctx);
}

SEC("uprobe")
int nothing(struct pt_regs *ctx)
{
	return 0;
}

/* Frame pointers, as the kernel follows them. */
SEC("uprobe")
int by_fp(struct pt_regs *ctx)
{
	struct mt_uw *u = bpf_task_storage_get(&uw_walks, bpf_get_current_task_btf(), 0,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (u)
		bpf_get_stack(ctx, u->frames, sizeof(u->frames), 1 << 8 /* BPF_F_USER_STACK */);
	return 0;
}
