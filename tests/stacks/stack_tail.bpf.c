// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Takes the stack of every call of a function as on kernels without bpf_loop. See taken.c. */
#define STACK_TAIL_WALKER
#include "lib/stack_tail.bpf.h"

static __always_inline struct mt_hdr header(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	return (struct mt_hdr){ .tgid = id >> 32, .tid = (__u32)id, .time = bpf_ktime_get_boot_ns() };
}

SEC("uprobe")
int take_here(struct pt_regs *ctx)
{
	struct mt_hdr h = header();

	stack__take(ctx, &h);
	return 0;
}

SEC("uprobe")
int take_tail(struct pt_regs *ctx)
{
	struct mt_hdr h = header();

	stack_tail__begin(ctx, &h, MT_UW_MAX_FRAMES, 1);
	return 0;
}

/* As the stub of a site is (probe/clone.c): a tail call before the one of the walk. */
SEC("uprobe")
int take_called(struct pt_regs *ctx)
{
	bpf_tail_call(ctx, &mains, 0);
	return 0;
}
