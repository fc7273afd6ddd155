// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The same stacks taken in three ways, for bench_methods.c: by rows, by frame pointers, as copies.
 */
#include "lib/stack.bpf.h"
#include "methods.h"

static __always_inline struct mt_hdr whose(void)
{
	__u64 id = bpf_get_current_pid_tgid();

	return (struct mt_hdr){ .tgid = id >> 32,
				.tid = (__u32)id,
				.time = bpf_ktime_get_boot_ns() };
}

SEC("uprobe")
int by_rows(struct pt_regs *ctx)
{
	struct mt_hdr h = whose();

	stack__take(ctx, &h);
	return 0;
}

SEC("uprobe")
int by_fp(struct pt_regs *ctx)
{
	struct fp_stack *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	long n;

	if (!r)
		return 0;
	r->h = whose();
	r->h.type = FP_STACK;
	r->h.size = sizeof(*r);
	n = bpf_get_stack(ctx, r->pc, sizeof(r->pc), 1 << 8 /* BPF_F_USER_STACK */);
	r->n = n > 0 ? (__u64)n / 8 : 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int by_copy(struct pt_regs *ctx)
{
	struct mt_uw *u = bpf_task_storage_get(&uw_walks, bpf_get_current_task_btf(), 0,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!u)
		return 0;
	u->rec.h = whose();
	uw_start(u, ctx);
	u->rec.hash[0] = u->rec.h.time;
	u->rec.hash[1] = 0;
	uw_copy();
	return 0;
}

SEC("uprobe")
int nothing(struct pt_regs *ctx)
{
	return 0;
}
