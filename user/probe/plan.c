// SPDX-License-Identifier: Apache-2.0
/* What to attach for one function: its sites, their configuration, the requests. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/prober.h"

#define MAX_RETS 64
#define NO_PROBE_ON "kernels put no probe on the instruction "

/* Functions that give memory out or take it back; around a refusal: its stack is that of the OOM.
 */
static bool has_stacks(unsigned int fn)
{
	switch (fn) {
	case MT_FN_HAL_ALLOC:
	case MT_FN_HAL_FREE:
	case MT_FN_HAL_CREATE:
	case MT_FN_HAL_RELEASE:
	case MT_FN_HOST_REG:
	case MT_FN_HOST_UNREG:
	case MT_FN_PTA_ALLOC:
	case MT_FN_PTA_FREE:
	case MT_FN_PTA_REPORT:
	case MT_FN_C10_REPORT:
	case MT_FN_MS_ALLOC:
	case MT_FN_MS_FREE:
	case MT_FN_MS_KEEP:
	case MT_FN_MS_PART:
	case MT_FN_OOM:
	case MT_FN_ENCLOSING:
	case MT_FN_ATB_POOL:
	case MT_FN_HOST_ALLOC:
	case MT_FN_HOST_FREE:
	case MT_FN_ATEN_START: /* of Python */
		return true;
	default:
		return false;
	}
}

unsigned int batch__site(struct batch *b, const struct probe_def *d, const char *symbol,
			 unsigned int pair, int sp_off, bool is_return)
{
	struct prober *pr = b->pr;
	unsigned int no = pr->n_sites;
	struct mt_site s = { .fn = d->fn,
			     .flags = d->flags | MT_SITE_OFF,
			     .pair = (__u16)pair,
			     .sp_off = (__s16)sp_off,
			     .name_kind = d->name_kind };

	if (no >= MT_MAX_SITES) {
		b->full = true;
		snprintf(b->site_why, sizeof(b->site_why), "no site number left");
		return 0;
	}
	if (pr->opts.stacks && has_stacks(d->fn))
		s.flags |= MT_SITE_STACK;
	memcpy(s.arg, d->arg, sizeof(s.arg));
	memcpy(s.off, d->off, sizeof(s.off));
	if (is_ms_pool(d->fn)) {
		const struct mspool_stats *ms = &b->ms[!!(d->flags & MT_SITE_BESTFIT)];

		s.off[2] = (__u16)ms->at[0];
		s.off[3] = (__u16)ms->at[1];
		s.arg[1] = (__s8)ms->used;
		s.arg[2] = (__s8)ms->reserved;
		s.arg[3] = (__s8)ms->besides;
	}
	if (is_atb(d->fn))
		atb__site(b, d, &s);
	if (d->kind == PROBE_PYTHON) {
		/* Unknown version: the layout of the most common ones. */
		s.off[0] = (__u16)(b->py_minor ? b->py_minor : 11);
	} else if (d->fn == MT_FN_PTA_ALLOC || d->fn == MT_FN_PTA_FREE) {
		/* 2.7.3: allocated_bytes, reserved_bytes behind the recursive mutex */
		bool arm = elf_image__machine(b->img) == 183 /* EM_AARCH64 */;

		s.off[0] = (__u16)b->file->pta.block_ptr;
		s.off[1] = (__u16)b->file->pta.block_size;
		s.off[2] = arm ? 432 : 424;
		s.off[3] = arm ? 528 : 520;
	}
	if (pr->progs && bpf_map_update_elem(progs__map(pr->progs, "sites"), &no, &s, 0)) {
		snprintf(b->site_why, sizeof(b->site_why), "its site cannot be configured: %s",
			 strerror(errno));
		return 0;
	}
	pr->sites[no] = (struct site_info){ b->file, symbol, is_return, d->fn, s };
	pr->n_sites++;
	return no;
}

static struct attach_req *new_req(struct batch *b)
{
	if (b->n == b->cap) {
		size_t cap = b->cap ? b->cap * 2 : 64;
		void *p = realloc(b->reqs, cap * sizeof(*b->reqs));

		if (!p)
			return NULL;
		b->reqs = p;
		b->cap = cap;
	}
	memset(&b->reqs[b->n], 0, sizeof(b->reqs[0]));
	return &b->reqs[b->n++];
}

/* Program names with their ending: the string must outlive the request. */
static const char *prog_name(const char *base, char end)
{
	static struct {
		char s[20];
	} pool[64];
	static size_t n;
	char want[20];
	size_t i;

	snprintf(want, sizeof(want), "%s_%c", base, end);
	for (i = 0; i < n; i++)
		if (strcmp(pool[i].s, want) == 0)
			return pool[i].s;
	if (n == MT_ARRAY_SIZE(pool))
		return base;
	memcpy(pool[n].s, want, sizeof(want));
	return pool[n++].s;
}

int batch__request(struct batch *b, const struct probe_def *d, const char *prog,
		   enum attach_kind kind, uint64_t off, unsigned int site)
{
	struct attach_req *r;

	if (!site)
		return -ENOSPC;
	r = new_req(b);
	if (!r)
		return -ENOMEM;
	*r = (struct attach_req){ .prog = prog,
				  .kind = kind,
				  .pair = b->pr->n_pairs,
				  .is_return = b->pr->sites[site].is_return,
				  .group = group_of(b->file, d->fn),
				  .off = off,
				  .site = site };
	return 0;
}

/* sp at a uretprobe: the return address has been popped on x86-64. */
static int uret_sp(const struct elf_image *img)
{
	return elf_image__machine(img) == 62 /* EM_X86_64 */ ? -8 : 0;
}

static int add_rets(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		    const char *prog, uint64_t vaddr, unsigned int pair)
{
	struct site rets[MAX_RETS];
	int n = site__returns(b->img, vaddr, rets, MAX_RETS), i, err;

	if (n <= 0) {
		snprintf(rep->why, sizeof(rep->why), "its returns cannot be probed: %s",
			 n ? strerror(-n) : "none found");
		return n ? n : -ENOENT;
	}
	if (d->kind == PROBE_EXITS) { /* nothing at the entry: the report is of the returns */
		rep->off = rets[0].off;
		rep->cost = rets[0].cost == SITE_EMULATED ? "emulated" : "stepped";
		snprintf(rep->insn, sizeof(rep->insn), "%s", rets[0].insn);
	}
	for (i = 0; i < n; i++) {
		err = batch__request(b, d, prog, ATTACH_ENTRY, rets[i].off,
				     batch__site(b, d, rep->symbol, pair, rets[i].sp_off, true));
		if (err)
			return err;
	}
	return 0;
}

static int plan(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		uint64_t vaddr)
{
	struct probe_def own = *d;
	unsigned int pair = ++b->pr->n_pairs, no;
	struct site s;
	bool uret, session;
	uint64_t *taken;
	bool fresh;
	int err;

	err = site__entry(b->img, vaddr, d->nargs, b->pr->f->emu, &s);
	if (err) {
		snprintf(rep->why, sizeof(rep->why), "no file offset for its address: %s",
			 strerror(-err));
		return err;
	}
	uret = d->kind == PROBE_CALL && !b->pr->opts.ret_sites;
	/*
	 * A uretprobe replaces the return address where it fires, which must still
	 * be at sp (x86-64) or in x30 (arm64: nothing may have been executed).
	 */
	if (uret && (s.sp_off || (uret_sp(b->img) == 0 && s.vaddr != vaddr))) {
		err = site__first(b->img, vaddr, b->pr->f->emu, &s);
		if (err)
			return err;
	}
	rep->off = s.off;
	rep->cost = s.cost == SITE_EMULATED ? "emulated" : "stepped";
	snprintf(rep->insn, sizeof(rep->insn), "%s", s.insn);
	if (s.refused && d->kind != PROBE_EXITS) {
		snprintf(rep->why, sizeof(rep->why), NO_PROBE_ON "%s, with which it begins",
			 s.insn);
		return -ENOTSUP;
	}
	taken = hmap__put(&b->offsets, (struct hkey){ s.off, (uint64_t)d->fn }, &fresh);
	if (taken && !fresh) {
		rep->same = true;
		snprintf(rep->why, sizeof(rep->why), "the same code as another probe");
		return -EALREADY;
	}
	session = uret && features__has(b->pr->f, FEAT_SESSION) &&
		  !(b->pr->progs && progs__why(b->pr->progs, prog_name(d->prog, 's')));
	if (d->kind == PROBE_CALL || d->kind == PROBE_RETS)
		rep->returns = session ? "session" : uret ? "uretprobe" : "ret sites";
	switch (d->kind) {
	case PROBE_ENTRY:
		return batch__request(b, d, d->prog, ATTACH_ENTRY, s.off,
				      batch__site(b, d, rep->symbol, pair, s.sp_off, false));
	case PROBE_PYTHON:
		/* Returns first: without them nesting cannot be told and is not tried. */
		if (!add_rets(b, d, rep, "py_ret", vaddr, pair))
			own.flags |= MT_SITE_GUARD;
		rep->returns = own.flags & MT_SITE_GUARD ? "ret sites" : "-";
		rep->why[0] = '\0';
		return batch__request(b, d, d->prog, ATTACH_ENTRY, s.off,
				      batch__site(b, &own, rep->symbol, pair, s.sp_off, false));
	case PROBE_EXITS:
		return add_rets(b, d, rep, prog_name(d->prog, 'r'), vaddr, pair);
	case PROBE_RETS:
		err = add_rets(b, d, rep, prog_name(d->prog, 'r'), vaddr, pair);
		if (err)
			return err;
		break;
	case PROBE_CALL:
		if (!uret) {
			err = add_rets(b, d, rep, prog_name(d->prog, 'r'), vaddr, pair);
			if (err)
				return err;
			break;
		}
		no = batch__site(b, d, rep->symbol, pair, s.sp_off, false);
		if (session) {
			/* The return uses the next number. */
			if (!batch__site(b, d, rep->symbol, pair, uret_sp(b->img), true))
				return -ENOSPC;
			return batch__request(b, d, prog_name(d->prog, 's'), ATTACH_SESSION, s.off,
					      no);
		}
		err = batch__request(b, d, prog_name(d->prog, 'r'), ATTACH_RETURN, s.off,
				     batch__site(b, d, rep->symbol, pair, uret_sp(b->img), true));
		if (err)
			return err;
		return batch__request(b, d, prog_name(d->prog, 'e'), ATTACH_ENTRY, s.off, no);
	}
	return batch__request(b, d, prog_name(d->prog, 'e'), ATTACH_ENTRY, s.off,
			      batch__site(b, d, rep->symbol, pair, s.sp_off, false));
}

int batch__plan(struct batch *b, const struct probe_def *d, struct probe_report *rep,
		uint64_t vaddr)
{
	unsigned int sites = b->pr->n_sites;
	int err;

	b->site_why[0] = '\0';
	err = d->kind == PROBE_OPS ? ops__plan(b, d, rep) : plan(b, d, rep, vaddr);
	if (!err)
		return 0;
	/* Nothing fires with the numbers that it has got already. */
	b->pr->n_sites = sites;
	if (b->site_why[0])
		snprintf(rep->why, sizeof(rep->why), "%s", b->site_why);
	else if (!rep->why[0])
		snprintf(rep->why, sizeof(rep->why), "%s", strerror(-err));
	return err;
}
