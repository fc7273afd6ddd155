/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The call stack at a probe, walked here by the rows of all mapped files.
 *
 * The walk has a place of its own for each thread: uprobe programs are
 * preempted since 6.0, a place for each CPU would be shared. Needs bpf_loop
 * (5.17) and task storage (5.11).
 */
#ifndef MEMTAP_STACK_BPF_H
#define MEMTAP_STACK_BPF_H

#include "stack_maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mt_uw);
} uw_walks SEC(".maps");

static long uw_one(__u32 i, struct mt_uw **u)
{
	return uw_step(*u) != MT_END_NOT;
}

/*
 * Walk the stack and send it. h: header of the event that it belongs to, whose
 * time is that of the entry.
 */
static __always_inline void stack__take(struct pt_regs *ctx, const struct mt_hdr *h)
{
	struct mt_uw *u = bpf_task_storage_get(&uw_walks, bpf_get_current_task_btf(), 0,
					       BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct mt_uw_proc *proc;
	__u32 tgid = h->tgid;

	if (!u) {
		uw_count(MT_END_ROOM);
		return;
	}
	u->rec.h = *h;
	u->rec.h.type = MT_REC_STACK;
	uw_start(u, ctx);
	proc = bpf_map_lookup_elem(&uw_procs, &tgid);
	if (proc) {
		u->first = proc->first;
		u->n = proc->n;
		bpf_loop(MT_UW_MAX_FRAMES + 1, uw_one, &u, 0);
	} else {
		u->rec.end = MT_END_NOPROC;
	}
	uw_send(u);
}

#endif
