// SPDX-License-Identifier: Apache-2.0
/* Probes of the operators of torch: thousands of functions that share a few sites. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/aten.h"
#include "probe/prober.h"

#define MAX_RETS 16
#define MAX_SHARED 256
#define ARGS_KEPT 8 /* registers of arguments that must be untouched at the entry */

/* Sites by where the stack pointer is there: what else a program wants, the cookie brings. */
struct shared {
	int sp_off;
	bool is_return;
	unsigned int no;
};

struct plan {
	struct batch *b;
	const struct probe_def *d;
	struct probe_report *rep;
	unsigned int pair;
	struct shared v[MAX_SHARED];
	size_t n;
	size_t done, skipped; /* operators */
	uint64_t cost[2], ends[2]; /* entries and ends by their cost */
};

void ops__free(struct prober *pr)
{
	size_t i;

	for (i = 0; i < pr->n_ops; i++)
		free(pr->ops[i]);
	free(pr->ops);
}

const char *prober__op(const struct prober *pr, uint32_t no)
{
	return no && no <= pr->n_ops ? pr->ops[no - 1] : NULL;
}

size_t prober__ops_refused(const struct prober *pr)
{
	return pr->ops_refused;
}

size_t prober__ops(const struct prober *pr)
{
	return pr->n_ops;
}

/* Its number, 0 = no room. */
static uint32_t new_op(struct prober *pr, const char *name)
{
	void *more;

	if (pr->n_ops + 1 >= MT_MAX_OPS)
		return 0;
	if (pr->n_ops == pr->cap_ops) {
		size_t cap = pr->cap_ops ? pr->cap_ops * 2 : 1024;

		more = realloc(pr->ops, cap * sizeof(*pr->ops));
		if (!more)
			return 0;
		pr->ops = more;
		pr->cap_ops = cap;
	}
	pr->ops[pr->n_ops] = strdup(name);
	if (!pr->ops[pr->n_ops])
		return 0;
	return (uint32_t)++pr->n_ops;
}

/* A site of its own where there are no cookies. */
static unsigned int site_for(struct plan *p, int sp_off, bool is_return, uint32_t op)
{
	struct prober *pr = p->b->pr;
	struct mt_site *cfg;
	bool cookies = features__has(pr->f, FEAT_COOKIE) || features__has(pr->f, FEAT_MULTI);
	unsigned int no;
	size_t i;

	for (i = 0; cookies && i < p->n; i++)
		if (p->v[i].sp_off == sp_off && p->v[i].is_return == is_return)
			return p->v[i].no;
	no = batch__site(p->b, p->d, p->rep->symbol, p->pair, sp_off, is_return);
	if (!no)
		return 0;
	cfg = &pr->sites[no].cfg;
	cfg->flags |= (pr->opts.access ? MT_SITE_ACCESS : 0) |
		      (pr->opts.op_rows ? 0 : MT_SITE_NO_OPS);
	cfg->off[0] = (__u16)(cookies ? 0 : op);
	if (pr->progs && bpf_map_update_elem(progs__map(pr->progs, "sites"), &no, cfg, 0))
		return 0;
	if (cookies && p->n < MAX_SHARED)
		p->v[p->n++] = (struct shared){ sp_off, is_return, no };
	return no;
}

static int request(struct plan *p, const char *prog, const struct site *s, bool is_return,
		   uint32_t op)
{
	unsigned int no = site_for(p, s->sp_off, is_return, op);
	int err = batch__request(p->b, p->d, prog, ATTACH_ENTRY, s->off, no);

	if (err)
		return err;
	p->b->reqs[p->b->n - 1].op = op;
	p->b->reqs[p->b->n - 1].is_return = is_return;
	return 0;
}

/* Only what has rows is read. */
static void leave_out(const struct prober_opts *opts, struct mt_op *op)
{
	unsigned int i, n = 0;

	if (op->out == MT_OUT_LIST && !opts->lists)
		op->out = MT_OUT_NONE;
	/* Those of operators made of others tell whether gradients are wanted. */
	if (op->flags & MT_OP_COMPOSITE && !(op->flags & MT_OP_REDISPATCH))
		return;
	for (i = 0; i < op->n_args; i++) {
		if ((op->arg[i].bits & (MT_ARG_LIST | MT_ARG_ILIST) && !opts->lists) ||
		    (!(op->arg[i].bits & MT_ARG_WRITE) && op->flags & MT_OP_NO_INPUTS))
			continue;
		op->arg[n++] = op->arg[i];
	}
	op->n_args = (__u8)n;
}

/* Where its end is seen: at one cheap instruction if there is one, else at its returns. */
static int find_ends(struct batch *b, struct aten_op *o, struct site *ends)
{
	struct site_value v;

	o->op.from = MT_FROM_RC;
	if (!site__end(b->img, o->vaddr, &ends[0], &v)) {
		static const uint8_t regs[16] = {
			[3] = MT_FROM_BX,   [5] = MT_FROM_BP,	[12] = MT_FROM_R12,
			[13] = MT_FROM_R13, [14] = MT_FROM_R14, [15] = MT_FROM_R15,
		};

		if (v.from == VALUE_REG)
			o->op.from = regs[v.reg & 15];
		else if (v.from == VALUE_MEM)
			o->op.from = MT_FROM_FRAME;
		o->op.disp = v.disp;
		if (v.from || o->op.out == MT_OUT_NONE)
			return 1;
	}
	o->op.from = MT_FROM_RC;
	return site__returns(b->img, o->vaddr, ends, MAX_RETS);
}

/* One operator: returns first, and only where all of them are known. 1 = left out. */
static int plan_op(struct plan *p, struct aten_op *o)
{
	struct prober *pr = p->b->pr;
	struct site entry, rets[MAX_RETS];
	int n, i, err;
	uint32_t no;

	err = site__entry(p->b->img, o->vaddr, ARGS_KEPT, pr->f->emu, &entry);
	if (err || entry.refused)
		return 1;
	n = find_ends(p->b, o, rets);
	if (n <= 0)
		return elf_image__over(p->b->img) ? -E2BIG : 1;
	no = new_op(pr, o->name);
	if (!no)
		return -ENOSPC;
	o->op.vaddr = entry.vaddr;
	o->op.torch = (__u8)pr->n_torches;
	leave_out(&pr->opts, &o->op);
	if (pr->progs && bpf_map_update_elem(progs__map(pr->progs, "ops"), &no, &o->op, 0))
		return -errno;
	for (i = 0; i < n; i++) {
		err = request(p, pr->opts.lists && pr->opts.access ? "atens_r" : "aten_r", &rets[i],
			      true, no);
		if (err)
			return err;
	}
	err = request(p, pr->opts.lists && pr->opts.access ? "atens_e" : "aten_e", &entry, false,
		      no);
	if (err)
		return err;
	p->cost[entry.cost == SITE_STEPPED]++;
	p->ends[rets[0].cost == SITE_STEPPED]++;
	if (!p->rep->off) {
		p->rep->off = entry.off;
		snprintf(p->rep->insn, sizeof(p->rep->insn), "%s", entry.insn);
	}
	return 0;
}

static int too_many(struct prober *pr, const struct aten *a, struct probe_report *rep)
{
	pr->ops_refused = a->operators;
	snprintf(rep->why, sizeof(rep->why),
		 "%zu operators: without uprobe_multi (6.6) at most %d; choose with --ops=REGEX",
		 a->operators, OPS_WITHOUT_MULTI);
	return -E2BIG;
}

int ops__plan(struct batch *b, const struct probe_def *d, struct probe_report *rep)
{
	struct plan p = { .b = b, .d = d, .rep = rep, .pair = ++b->pr->n_pairs };
	struct prober *pr = b->pr;
	uint32_t torch = pr->n_torches;
	struct aten a;
	regex_t only;
	size_t i;
	int err;

	if (pr->opts.ops && regcomp(&only, pr->opts.ops, REG_EXTENDED | REG_NOSUB))
		return -EINVAL; /* looked at where the option is read */
	err = aten__find(b->img, pr->opts.ops ? &only : NULL, &a);
	if (pr->opts.ops)
		regfree(&only);
	if (err)
		return err;
	if (!a.operators) {
		snprintf(rep->why, sizeof(rep->why), "no operator%s in it",
			 pr->opts.ops ? " that --ops names" : "");
		err = -ENOENT;
		goto out;
	}
	err = !features__has(pr->f, FEAT_MULTI) && a.operators > OPS_WITHOUT_MULTI
		      ? too_many(pr, &a, rep)
		      : 0;
	if (!err && torch >= MT_MAX_TORCHES)
		err = -ENOSPC;
	if (!err && pr->progs &&
	    bpf_map_update_elem(progs__map(pr->progs, "torches"), &torch, &a.torch, 0))
		err = -errno;
	for (i = 0; i < a.n && !err; i++) {
		err = plan_op(&p, &a.v[i]);
		if (err == 1) {
			/* The end of it would be missed; of those made of others few are called so.
			 */
			p.skipped += !(a.v[i].op.flags & MT_OP_REDISPATCH);
			err = 0;
		}
	}
	if (err)
		goto out;
	pr->n_torches++;
	rep->cost = p.cost[1] > p.cost[0] ? "stepped" : "emulated";
	rep->returns = "ret sites";
	if (a.unnamed || p.skipped)
		pr_warn("%s: %zu of %zu operators are not traced: of %zu no schema was found, of "
			"%zu not all returns",
			b->file->path, a.unnamed + p.skipped, a.operators + a.unnamed, a.unnamed,
			p.skipped);
	if (pr->opts.access && a.no_access)
		pr_warn("%s: no accesses to tensors: %s", b->file->path, a.no_access);
	pr_debug("%s: %zu operators, %zu functions, %zu requests, ends %llu emulated %llu stepped, "
		 "key_set %u, autograd %u, tls 0x%llx, python 0x%llx",
		 b->file->path, a.operators, a.n, b->n, (unsigned long long)p.ends[0],
		 (unsigned long long)p.ends[1], a.torch.key_set, a.torch.autograd,
		 (unsigned long long)a.torch.tls_slot, (unsigned long long)a.torch.python);
out:
	aten__free(&a);
	return err;
}
