/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Start of every probe program: is this process ours, which probe is it, who
 * are we. Filter first: everything else costs the target.
 */
#ifndef MEMTAP_PROBE_BPF_H
#define MEMTAP_PROBE_BPF_H

#include "user.bpf.h"
#include <bpf/bpf_core_read.h>

struct probe {
	struct mt_site *site;
	struct mt_site_stat *stat;
	struct mt_cfg *cfg;
	__u64 sp; /* at function entry */
	__u64 now;
	__u32 site_no;
	__u32 tgid, tid; /* in memtap's PID namespace */
	__u32 ktid; /* thread in the initial namespace: key of in-flight state */
	__u32 start;
};

/* Namespaces nest up to 32 deep (MAX_PID_NS_LEVEL); containers in containers up to 3 or 4. */
#define PIDNS_DEPTH 8

/* PID number of a task in memtap's PID namespace; 0 = not visible there. */
static __always_inline __u32 task_nr(struct task_struct *t, __u32 inum)
{
	struct pid *pid = BPF_CORE_READ(t, thread_pid);
	__u32 top = BPF_CORE_READ(pid, level), i;

	for (i = 1; i <= PIDNS_DEPTH; i++) {
		struct upid *u = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				 i * bpf_core_type_size(struct upid);

		if (i > top)
			break;
		if (BPF_CORE_READ(u, ns, ns.inum) == inum)
			return BPF_CORE_READ(u, nr);
	}
	return 0;
}

/* Start time in ticks of 10 ms, as /proc/PID/stat has it (USER_HZ is 100). */
static __always_inline __u32 task_start(struct task_struct *t)
{
	struct task_struct *leader = BPF_CORE_READ(t, group_leader);

	return BPF_CORE_READ(leader, start_boottime) / 10000000ULL;
}

static __always_inline struct mt_cfg *cfg_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cfg, &zero);
}

/*
 * Is the cgroup of the filter that of the thread, or above it? At which level it
 * is cannot be told from its path, which begins at the namespace or at what is
 * mounted. It never changes: the first one that is in it finds it for all.
 */
static __always_inline int in_cgroup(struct mt_cfg *c)
{
	__u64 id;
	__u32 i;

	if (c->cgroup_level)
		return bpf_get_current_ancestor_cgroup_id(c->cgroup_level - 1) == c->cgroup_id;
#pragma clang loop unroll(disable)
	for (i = 0; i < MT_CGROUP_DEPTH; i++) {
		id = bpf_get_current_ancestor_cgroup_id(i);
		if (!id)
			break;
		if (id == c->cgroup_id) {
			c->cgroup_level = i + 1;
			return 1;
		}
	}
	return 0;
}

/* 1 = ours; fills everything but site, stat and sp. */
static __always_inline int probe__filter(struct probe *p)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct mt_target *t, fresh = {};
	struct task_struct *task;

	p->cfg = cfg_get();
	if (!p->cfg || p->cfg->stopped)
		return 0;
	p->ktid = (__u32)id;
	p->tid = (__u32)id;
	p->tgid = id >> 32;
	if (p->cfg->pidns_inum) {
		task = (void *)bpf_get_current_task();
		p->tid = task_nr(task, p->cfg->pidns_inum);
		p->tgid = task_nr(BPF_CORE_READ(task, group_leader), p->cfg->pidns_inum);
		if (!p->tgid)
			return 0;
	}
	if (p->tgid == p->cfg->self)
		return 0;
	if ((patch_mode() & MT_MODE_CGROUP) && p->cfg->cgroup_id && in_cgroup(p->cfg))
		goto known_or_new;
	t = bpf_map_lookup_elem(&targets, &p->tgid);
	if (t) {
		p->start = t->start;
		goto ours;
	}
	if (!p->cfg->all)
		return 0;
known_or_new:
	t = bpf_map_lookup_elem(&targets, &p->tgid);
	if (t) {
		p->start = t->start;
	} else {
		fresh.start = p->start = task_start((void *)bpf_get_current_task());
		bpf_map_update_elem(&targets, &p->tgid, &fresh, BPF_ANY);
	}
ours:
	p->now = bpf_ktime_get_boot_ns();
	return 1;
}

/* Of a probe that came through a stub; none has the number that is too high. */
static __always_inline __u32 called_site(void)
{
	__u32 zero = 0, *no = bpf_map_lookup_elem(&called, &zero);

	return no ? *no : MT_MAX_SITES;
}

/*
 * 1 = go on: the process is ours and the site is known. `next` is added to the
 * site number: a session program knows the entry's, the return's is the next.
 */
static __always_inline int probe__start_ret(struct probe *p, struct pt_regs *ctx, __u32 next)
{
	if (!probe__filter(p))
		return 0;
	if (patch_mode() & MT_MODE_COOKIE)
		p->site_no = bpf_get_attach_cookie(ctx) + next;
	else if (patch_mode() & MT_MODE_CALLED)
		p->site_no = called_site();
	else
		p->site_no = patch_site();
	p->site = bpf_map_lookup_elem(&sites, &p->site_no);
	p->stat = bpf_map_lookup_elem(&stats, &p->site_no);
	if (!p->site || !p->stat || (p->site->flags & MT_SITE_OFF))
		return 0;
	p->sp = CTX_SP(ctx) + (__s64)p->site->sp_off;
	return 1;
}

static __always_inline int probe__start(struct probe *p, struct pt_regs *ctx)
{
	return probe__start_ret(p, ctx, 0);
}

/* Is nothing collected, of no process? */
static __always_inline int probe__paused(struct probe *p)
{
	__u32 zero = 0;
	__u64 *n;

	if (!p->cfg->pause_at)
		return 0;
	n = bpf_map_lookup_elem(&starts, &zero);
	return n && *n + 1 == p->cfg->pause_at;
}

#define stat_inc(p, field) __sync_fetch_and_add(&(p)->stat->field, 1)

#endif
