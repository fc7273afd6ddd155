// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Test program: the Python stack of the thread at a probe, into a ring. See pywalk.c. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* mem: may the program sleep? As user_read of lib/user.bpf.h, without its maps. */
#define PY_READ(mem, dst, n, addr) read_user(mem, dst, n, addr)
static __always_inline int read_user(const void *mem, void *dst, __u32 n, __u64 addr)
{
	int err = bpf_probe_read_user(dst, n, (const void *)addr);

	if (err && mem)
		err = bpf_copy_from_user(dst, n, (const void *)addr);
	return err;
}
#include "lib/pystack.bpf.h"
#include "pywalk.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mt_py_offsets);
} offsets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pywalk_cost);
} cost SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mt_py_memo);
} memos SEC(".maps");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline int walk(const void *mem)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct mt_py_offsets *o;
	struct pywalk_cost *c;
	struct mt_py_memo *memo;
	struct pywalk_event *e;
	__u64 begin;
	__u32 zero = 0;

	o = bpf_map_lookup_elem(&offsets, &zero);
	c = bpf_map_lookup_elem(&cost, &zero);
	memo = bpf_map_lookup_elem(&memos, &zero);
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e)
		return 0;
	if (!o || !c) {
		bpf_ringbuf_discard(e, 0);
		return 0;
	}
	e->tid = py_thread_number(task);
	begin = bpf_ktime_get_ns();
	py_walk(mem, o, py_thread_pointer(task), e->tid, MT_PY_DEPTH, &e->stack, memo);
	__sync_fetch_and_add(&c->ns, bpf_ktime_get_ns() - begin);
	__sync_fetch_and_add(&c->frames, e->stack.n);
	__sync_fetch_and_add(&c->stacks, 1);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

SEC("uprobe")
int walk_plain(struct pt_regs *ctx)
{
	return walk((void *)0);
}

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} steps SEC(".maps");

/* Goes on to walk_plain, as a program of an event would. */
SEC("uprobe")
int walk_called(struct pt_regs *ctx)
{
	bpf_tail_call(ctx, &steps, 0);
	return 0;
}

SEC("uprobe.s")
int walk_sleepable(struct pt_regs *ctx)
{
	return walk((void *)1);
}
