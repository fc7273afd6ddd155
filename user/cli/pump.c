// SPDX-License-Identifier: Apache-2.0
/* Records of the drain to rows: self-check of PTA probes, decoding. */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/owners.h"

static struct pta_check *check_of(struct session *s, unsigned int file)
{
	if (file >= s->n_checks) {
		size_t n = file + 16;
		void *p = realloc(s->checks, n * sizeof(*s->checks));

		if (!p)
			return NULL;
		s->checks = p;
		memset(s->checks + s->n_checks, 0, (n - s->n_checks) * sizeof(*s->checks));
		s->n_checks = n;
	}
	return &s->checks[file];
}

static void withdraw(struct session *s, const struct probed_file *f, const char *why)
{
	s->pool_unseen = true;
	if (prober__withdraw(s->prober, f->no, why))
		session__segments_left(s, f);
}

/* What the file says of its records. */
struct reading {
	enum pta_layout layout;
	uint32_t flags; /* EVF_ */
};

/* One process alone: its records are dropped, those of others are not. */
static void doubt(struct session *s, const struct probed_file *f, const struct mt_hdr *h,
		  const char *why)
{
	s->pool_unseen = true;
	pr_warn("pid %u: what its allocator in %s tells makes no sense: %s; its tensors are not "
		"recorded from here on, those of other processes are",
		h->tgid, f->path, why);
	model__segments(s->model, h->tgid, h->start);
}

/* Is it to be believed? *rule: why not. */
static bool act(struct session *s, const struct probed_file *f, struct pta_side *side,
		const struct mt_hdr *h, enum pta_judgement judgement, enum rule *rule)
{
	const struct pta_judge *j = &side->judge;

	*rule = RULE_DOUBTED;
	if (judgement == PTA_NEWLY_DOUBTED) {
		doubt(s, f, h, j->voices[j->last].wrong);
	} else if (judgement == PTA_NONSENSE) {
		*rule = RULE_WITHDRAWN;
		side->withdrawn = true;
		withdraw(s, f, j->voices[j->last].wrong);
	}
	return judgement == PTA_BELIEVED;
}

/* How to decode; false when the record must not be believed. */
static bool pta_ok(struct session *s, const struct mt_pta *r, struct reading *how, enum rule *rule)
{
	const struct probed_file *f = prober__site_file(s->prober, r->h.site);
	struct pta_check *c = f ? check_of(s, f->no) : NULL;

	*rule = RULE_WITHDRAWN;
	how->layout = PTA_LAYOUT_UNKNOWN;
	if (!c || c->report.withdrawn)
		return false;
	if (r->h.fn == MT_FN_C10_REPORT)
		return true;
	how->flags = f->pta.merged ? EVF_MERGED : 0;
	return act(s, f, &c->report, &r->h,
		   pta_judge__report(&c->report.judge, r, (enum pta_layout)f->pta_layout,
				     &how->layout),
		   rule);
}

/* The same for the allocator's own functions, which come as calls. */
static bool function_ok(struct session *s, const struct mt_call *r, enum rule *rule)
{
	const struct probed_file *f = prober__site_file(s->prober, r->h.site);
	struct pta_check *c = f ? check_of(s, f->no) : NULL;

	*rule = RULE_WITHDRAWN;
	if (!c || c->functions.withdrawn)
		return false;
	return act(s, f, &c->functions, &r->h, pta_judge__call(&c->functions.judge, r), rule);
}

static bool believable(struct session *s, const void *rec, size_t size, struct reading *how,
		       enum rule *rule)
{
	const struct mt_hdr *h = rec;
	size_t i;

	if (h->type == MT_REC_PTA && size >= sizeof(struct mt_pta))
		return pta_ok(s, rec, how, rule);
	if (h->type == MT_REC_CALL && size >= sizeof(struct mt_call) &&
	    (h->fn == MT_FN_PTA_ALLOC || h->fn == MT_FN_PTA_FREE))
		return function_ok(s, rec, rule);
	for (i = 0; h->type == MT_REC_EXEC && i < s->n_checks; i++) {
		pta_judge__forget(&s->checks[i].report.judge, h->tgid, h->start);
		pta_judge__forget(&s->checks[i].functions.judge, h->tgid, h->start);
	}
	return true;
}

void session__free_checks(struct session *s)
{
	size_t i;

	for (i = 0; i < s->n_checks; i++) {
		pta_judge__free(&s->checks[i].report.judge);
		pta_judge__free(&s->checks[i].functions.judge);
	}
	free(s->checks);
}

/* What its number stands for. */
static bool name_op(const struct session *s, struct event *e)
{
	if (e->kind != EV_OP_START && e->kind != EV_OP_END && e->kind != EV_ACCESS)
		return true;
	e->text = e->key <= UINT32_MAX ? prober__op(s->prober, (uint32_t)e->key) : NULL;
	e->text_len = e->text ? (uint32_t)strlen(e->text) : 0;
	return e->text != NULL;
}

static void on_record(void *ctx, const void *rec, size_t size, bool late)
{
	struct reading how = { .layout = PTA_LAYOUT_UNKNOWN };
	struct session *s = ctx;
	struct event e;
	enum rule rule;

	if (!believable(s, rec, size, &how, &rule)) {
		model__no_row(s->model, rule);
		return;
	}
	if (event__decode(rec, size, how.layout, &e)) {
		session__undecodable(s, rec, false);
		return;
	}
	e.flags |= how.flags;
	if (late)
		e.flags |= EVF_LATE;
	else /* what was asked for before it */
		control__due(s, e.time);
	if (!name_op(s, &e)) {
		session__undecodable(s, rec, false);
		return;
	}
	owners__upto(s, e.time);
	if (model__event(s->model, &e))
		session__undecodable(s, rec, true);
}

void session__deliver(struct session *s, bool final)
{
	callstack__early(s);
	drain__deliver(s->drain, final, on_record, s);
	control__due(s, final ? UINT64_MAX : drain__handed_out(s->drain));
	owners__upto(s, final ? UINT64_MAX : drain__handed_out(s->drain));
}
