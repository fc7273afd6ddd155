// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Births and deaths of processes. Raw tracepoints: they need no tracefs. The
 * set of targets is kept here, so that a child is ours from its first
 * instruction and a recycled PID never is.
 */
#include "lib/host.bpf.h"

struct bpf_raw_tracepoint_args {
	__u64 args[8];
};

static __always_inline void life_emit(struct task_struct *t, __u8 type, __u32 tgid, __u32 start,
				      __u32 ptgid, __u32 code)
{
	struct mt_task *r = bpf_ringbuf_reserve(&life, sizeof(*r), 0);
	__u32 lost_site = 0;
	struct mt_site_stat *st;

	st = bpf_map_lookup_elem(&stats, &lost_site); /* site 0: the lifecycle */
	if (st)
		__sync_fetch_and_add(&st->seen, 1);
	if (!r) {
		if (st)
			__sync_fetch_and_add(&st->lost, 1);
		return;
	}
	r->h.size = sizeof(*r);
	r->h.type = type;
	r->h.flags = 0;
	r->h.cpu = bpf_get_smp_processor_id();
	r->h.site = 0;
	r->h.tgid = tgid;
	r->h.tid = tgid;
	r->h.start = start;
	r->h.fn = MT_FN_TASK;
	r->h.strlen = 0;
	r->h.time = bpf_ktime_get_boot_ns();
	r->ptgid = ptgid;
	r->code = code;
	bpf_core_read_str(r->comm, sizeof(r->comm), &t->comm);
	if (st)
		__sync_fetch_and_add(&st->submitted, 1);
	bpf_ringbuf_submit(r, 0);
}

static __always_inline __u32 task_tgid(struct task_struct *t, struct mt_cfg *c)
{
	if (!c->pidns_inum)
		return BPF_CORE_READ(t, tgid);
	return task_nr(BPF_CORE_READ(t, group_leader), c->pidns_inum);
}

SEC("raw_tp/sched_process_fork")
int life_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	struct mt_target *t, fresh = {};
	struct mt_cfg *c = cfg_get();
	__u32 ptgid, tgid;

	if (!c || !c->follow)
		return 0;
	ptgid = task_tgid(parent, c);
	t = bpf_map_lookup_elem(&targets, &ptgid);
	if (!t)
		return 0;
	tgid = task_tgid(child, c);
	if (tgid == ptgid || !tgid) /* a thread */
		return 0;
	fresh.start = task_start(child);
	bpf_map_update_elem(&targets, &tgid, &fresh, BPF_ANY);
	procs__fork(ptgid, tgid);
	life_emit(child, MT_REC_FORK, tgid, fresh.start, ptgid, 0);
	/* One that shares its parent's memory until its exec (vfork) is seen there. */
	if (c->host == MT_HOST_ALWAYS && BPF_CORE_READ(child, mm) != BPF_CORE_READ(parent, mm))
		host__note(tgid, fresh.start, MT_HOST_FORKED, MT_STOP_NO);
	return 0;
}

/* Look first: most threads have none, and a failed delete would take the bucket's lock. */
static __always_inline void guard__forget(__u32 tid, __u32 class)
{
	struct mt_guard_key k = { .tid = tid, .class = class };

	if (bpf_map_lookup_elem(&guards, &k))
		bpf_map_delete_elem(&guards, &k);
}

/* Its number may be given to a new thread, which must not find itself inside an old call. */
static __always_inline void thread_forget(__u32 tid)
{
	guard__forget(tid, MT_GUARD_LAUNCH);
	guard__forget(tid, MT_GUARD_ALLOC);
	guard__forget(tid, MT_GUARD_PYMSTX);
	guard__forget(tid, MT_GUARD_MS_LIST);
	guard__forget(tid, MT_GUARD_MS_PART);
	guard__forget(tid, MT_GUARD_MS_VMM);
	guard__forget(tid, MT_GUARD_ATB_POOL);
	guard__forget(tid, MT_GUARD_ATB_KERNEL);
	guard__forget(tid, MT_GUARD_ATB_LAUNCH);
	guard__forget(tid, MT_GUARD_HOST);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_ACL_INIT);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_ACL_FINI);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_SET_DEVICE);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_STREAM_ID);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_HOST_REG);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_HOST_UNREG);
	guard__forget(tid, MT_GUARD_CALL + MT_FN_FUNC_NAME);
}

SEC("raw_tp/sched_process_exec")
int life_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct mt_cfg *c = cfg_get();
	struct mt_target *t;
	__u32 tgid;

	if (!c)
		return 0;
	tgid = task_tgid(task, c);
	t = bpf_map_lookup_elem(&targets, &tgid);
	if (!t)
		return 0;
	/* The calls of the old program end here; a thread that was not the leader gets its number.
	 */
	thread_forget(BPF_CORE_READ(task, pid));
	thread_forget(ctx->args[1]);
	procs__exec(tgid);
	/* Not its stop: a signal of ours that is pending stops the new program. */
	bpf_map_delete_elem(&host_gates, &tgid);
	life_emit(task, MT_REC_EXEC, tgid, t->start, 0, 0);
	if (c->host)
		host__note(tgid, t->start, MT_HOST_EXECED, MT_STOP_NO);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int life_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	struct mt_cfg *c = cfg_get();
	struct mt_target *t;
	__u32 tgid, start;

	if (!c)
		return 0;
	/* Of every thread: when all end at once, the last may be told after its process is. */
	thread_forget(BPF_CORE_READ(task, pid));
	tgid = task_tgid(task, c);
	t = bpf_map_lookup_elem(&targets, &tgid);
	if (!t)
		return 0;
	/* do_exit() takes itself off signal->live before this tracepoint. */
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	start = t->start;
	bpf_map_delete_elem(&targets, &tgid);
	procs__exec(tgid);
	host__forget(tgid);
	life_emit(task, MT_REC_EXIT, tgid, start, 0, BPF_CORE_READ(task, exit_code));
	return 0;
}

#ifdef MT_WITH_STACKS
/*
 * A place for a new mapping (5.7): what was there before is gone. Where this cannot be had
 * mappings are as new as the last notice of one.
 */
SEC("raw_tp/vm_unmapped_area")
int life_map(struct bpf_raw_tracepoint_args *ctx)
{
	struct vm_unmapped_area_info *info = (void *)ctx->args[1];
	__u64 start = ctx->args[0];
	struct mt_cfg *c = cfg_get();

	if (!c || start & 0xfff) /* an error */
		return 0;
	procs__mapped(task_tgid((void *)bpf_get_current_task(), c), start,
		      start + BPF_CORE_READ(info, length));
	return 0;
}
#endif
