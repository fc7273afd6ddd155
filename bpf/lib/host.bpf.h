/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ranges (mstx) within which the allocators of the host are recorded: which are open, and the
 * notes by which memtap attaches to and detaches from a process (msleaks.md 10).
 */
#ifndef MEMTAP_HOST_BPF_H
#define MEMTAP_HOST_BPF_H

#include "inflight.bpf.h"

#define MT_SIGSTOP 19
/* SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU as bits of a signal set */
#define MT_STOP_SIGNALS (0xfULL << (MT_SIGSTOP - 1))

/* Of a range of which nothing will be recorded. */
static __always_inline void host__lose(void)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&host_lost, &zero);

	if (lost)
		__sync_fetch_and_add(lost, 1);
}

/* At once: the ring wakes its reader. */
static __always_inline void host__note(__u32 tgid, __u32 start, __u32 what, __u32 stop)
{
	struct mt_host_note *n = bpf_ringbuf_reserve(&host_notes, sizeof(*n), 0);

	if (!n) {
		host__lose();
		return;
	}
	n->tgid = tgid;
	n->start = start;
	n->what = what;
	n->stop = stop;
	n->time = bpf_ktime_get_boot_ns();
	bpf_ringbuf_submit(n, BPF_RB_FORCE_WAKEUP);
}

/* The process has ended, or runs another program. */
static __always_inline void host__forget(__u32 tgid)
{
	bpf_map_delete_elem(&host_gates, &tgid);
	bpf_map_delete_elem(&host_stops, &tgid);
}

/* Eight bytes of the text, or fewer at its end: as they are wanted? On a stack there is not much
 * room. */
static __always_inline int host_range__part(__u64 text, __u32 n, __u64 want)
{
	__u64 v = 0;

	return !bpf_probe_read_user(&v, n, (const void *)text) && v == want;
}

/* Is this the text, with its NUL? */
static __always_inline int host_range__is(__u64 text)
{
	const union {
		char c[32];
		__u64 v[4];
	} want = { .c = MT_HOST_RANGE };

	return text && host_range__part(text, 8, want.v[0]) &&
	       host_range__part(text + 8, 8, want.v[1]) &&
	       host_range__part(text + 16, 8, want.v[2]) &&
	       host_range__part(text + 24, sizeof(MT_HOST_RANGE) - 24, want.v[3]);
}

/*
 * Stop the process, that it makes no call before the probes are there; memtap, or its watchdog,
 * lets it go on. Not when it belongs to a debugger, or when somebody else stops it just now: we
 * would continue what is not ours. (A stop that is sent after this look, before ours is taken, is
 * one with ours.)
 */
static __always_inline __u32 host__stop(struct probe *p)
{
	struct task_struct *t = (void *)bpf_get_current_task();
	struct signal_struct *sig = BPF_CORE_READ(t, signal);
	struct mt_host_stop s = { .time = bpf_ktime_get_boot_ns(), .start = p->start };
	__u64 pending;

	if (p->cfg->stop_uid != MT_UID_ANY && (__u32)bpf_get_current_uid_gid() != p->cfg->stop_uid)
		return MT_STOP_USER;
	if (BPF_CORE_READ(t, ptrace) || BPF_CORE_READ(t, group_leader, ptrace))
		return MT_STOP_TRACED;
	pending = BPF_CORE_READ(t, pending.signal.sig[0]) |
		  BPF_CORE_READ(sig, shared_pending.signal.sig[0]);
	if (BPF_CORE_READ(sig, group_stop_count) || pending & MT_STOP_SIGNALS)
		return MT_STOP_OTHERS;
	if (bpf_map_update_elem(&host_stops, &p->tgid, &s, BPF_NOEXIST))
		return bpf_map_lookup_elem(&host_stops, &p->tgid) ? MT_STOP_BUSY : MT_STOP_FAILED;
	/* To this thread, which so takes no step more; it stops the others. */
	if (!bpf_send_signal_thread(MT_SIGSTOP)) {
		/* The watchdog may have taken it, and continued what was not stopped yet. */
		bpf_map_update_elem(&host_stops, &p->tgid, &s, BPF_ANY);
		return MT_STOP_SENT;
	}
	bpf_map_delete_elem(&host_stops, &p->tgid);
	return MT_STOP_FAILED;
}

static __always_inline void host_key__make(struct mt_host_key *k, struct probe *p, __u64 id,
					   __u64 domain)
{
	k->tgid = p->tgid;
	k->tid = id ? 0 : p->tid;
	k->id = id;
	k->domain = domain;
}

/* One more of a gate that is open. 0: there is none, or the last range has closed it meanwhile. */
static __always_inline int host_gate__join(struct probe *p, struct mt_host_key *k)
{
	struct mt_host_gate *g = bpf_map_lookup_elem(&host_gates, &p->tgid);
	struct mt_host_range r = { .depth = 1 };

	if (!g)
		return 0;
	r.since = g->since;
	__sync_fetch_and_add(&g->open, 1);
	bpf_map_update_elem(&host_ranges, k, &r, BPF_ANY);
	g = bpf_map_lookup_elem(&host_gates, &p->tgid);
	return g && g->since == r.since;
}

/* The first one of the process opens its gate; of threads that do so at once one does. */
static __always_inline void host_gate__enter(struct probe *p, struct mt_host_key *k)
{
	struct mt_host_range r = { .since = p->now, .depth = 1 };
	struct mt_host_gate fresh = { .since = p->now, .open = 1 };
	__u32 stop = MT_STOP_NO;

	if (host_gate__join(p, k)) {
		/* It runs on until the stop for another one reaches it. */
		if (p->cfg->exact && bpf_map_lookup_elem(&host_stops, &p->tgid))
			host__note(p->tgid, p->start, MT_HOST_OPENED, MT_STOP_BUSY);
		return;
	}
	/* First, so that whoever finds the gate finds the stop. */
	if (p->cfg->exact)
		stop = host__stop(p);
	if (!bpf_map_update_elem(&host_gates, &p->tgid, &fresh, BPF_NOEXIST)) {
		bpf_map_update_elem(&host_ranges, k, &r, BPF_ANY);
	} else if (!host_gate__join(p, k)) {
		host__lose();
		if (stop == MT_STOP_NO)
			return;
	} else if (stop == MT_STOP_NO) {
		return;
	}
	host__note(p->tgid, p->start, MT_HOST_OPENED, stop);
}

/* A range has been opened; without an id it is the newest one of its thread. */
static __always_inline void host_range__opened(struct probe *p, __u64 id, __u64 domain, __u64 text)
{
	struct mt_host_range *r;
	struct mt_host_key k;

	if (p->cfg->host != MT_HOST_RANGES)
		return;
	host_key__make(&k, p, id, domain);
	if (!id) {
		struct mt_host_gate *g = bpf_map_lookup_elem(&host_gates, &p->tgid);

		r = bpf_map_lookup_elem(&host_ranges, &k);
		if (g && r && r->since == g->since) {
			r->depth++;
			return;
		}
	}
	if (host_range__is(text))
		host_gate__enter(p, &k);
}

static __always_inline void host_range__closed(struct probe *p, __u64 id, __u64 domain, int python)
{
	struct mt_host_gate *g;
	struct mt_host_range *r;
	struct mt_host_key k;

	if (p->cfg->host != MT_HOST_RANGES)
		return;
	g = bpf_map_lookup_elem(&host_gates, &p->tgid);
	if (!g)
		return;
	host_key__make(&k, p, id, domain);
	r = bpf_map_lookup_elem(&host_ranges, &k);
	if (!r && id && python) { /* its start was seen without its id */
		host_key__make(&k, p, 0, domain);
		r = bpf_map_lookup_elem(&host_ranges, &k);
	}
	if (!r || r->since != g->since)
		return;
	if (r->depth > 1) {
		r->depth--;
		return;
	}
	if (bpf_map_delete_elem(&host_ranges, &k))
		return;
	/* Of threads that close theirs at once the last one sees 0, several may: one deletes it. */
	__sync_fetch_and_add(&g->open, -1);
	if (*(volatile __u32 *)&g->open || bpf_map_delete_elem(&host_gates, &p->tgid))
		return;
	/* One that has joined between the two lines above has no gate. */
	if (*(volatile __u32 *)&g->open)
		host__lose();
	host__note(p->tgid, p->start, MT_HOST_CLOSED, MT_STOP_NO);
}

#endif
