// SPDX-License-Identifier: Apache-2.0
/* Records of the drain to rows: self-check of PTA probes, decoding, losses as rows. */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Enough records to see mallocs and frees of both components; a wrong probe
 * shows at the first one or two (design.md, PTA self-check).
 */
#define CHECKED_RECORDS 64

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

/* How to decode; false when the record must not be believed. */
static bool pta_ok(struct session *s, const struct mt_pta *r, struct reading *how)
{
	const struct probed_file *f = prober__site_file(s->prober, r->h.site);
	struct pta_check *c = f ? check_of(s, f->no) : NULL;
	enum pta_layout learnt;
	const char *wrong;

	if (!c || r->h.fn == MT_FN_C10_REPORT) {
		how->layout = PTA_LAYOUT_UNKNOWN;
		return c && !c->withdrawn;
	}
	if (c->withdrawn)
		return false;
	how->flags = f->pta.merged ? EVF_MERGED : 0;
	how->layout = (enum pta_layout)f->pta_layout;
	learnt = pta_learner__feed(&c->learner, r);
	if (how->layout == PTA_LAYOUT_UNKNOWN)
		how->layout = learnt;
	if (c->seen >= CHECKED_RECORDS)
		return true;
	c->seen++;
	wrong = pta__implausible(r, how->layout);
	if (!wrong && learnt && (how->layout == PTA_LAYOUT_C) != (learnt == PTA_LAYOUT_C))
		wrong = "records are not of the layout that the code says";
	if (!wrong)
		return true;
	c->withdrawn = true;
	withdraw(s, f, wrong);
	return false;
}

/* The same for the allocator's own functions, which come as calls. */
static bool function_ok(struct session *s, const struct mt_call *r)
{
	const struct probed_file *f = prober__site_file(s->prober, r->h.site);
	struct pta_check *c = f ? check_of(s, f->no) : NULL;
	const char *wrong;

	if (!c || c->functions_withdrawn)
		return false;
	if (c->functions_seen >= CHECKED_RECORDS)
		return true;
	c->functions_seen++;
	wrong = pta__implausible_call(r);
	if (!wrong)
		return true;
	c->functions_withdrawn = true;
	withdraw(s, f, wrong);
	return false;
}

static bool believable(struct session *s, const void *rec, size_t size, struct reading *how)
{
	const struct mt_hdr *h = rec;

	if (h->type == MT_REC_PTA && size >= sizeof(struct mt_pta))
		return pta_ok(s, rec, how);
	if (h->type == MT_REC_CALL && size >= sizeof(struct mt_call) &&
	    (h->fn == MT_FN_PTA_ALLOC || h->fn == MT_FN_PTA_FREE))
		return function_ok(s, rec);
	return true;
}

static void on_record(void *ctx, const void *rec, size_t size, bool late)
{
	struct reading how = { .layout = PTA_LAYOUT_UNKNOWN };
	struct session *s = ctx;
	struct event e;

	if (!believable(s, rec, size, &how)) {
		model__no_row(s->model, RULE_WITHDRAWN);
		return;
	}
	if (event__decode(rec, size, how.layout, &e)) {
		s->rows_unknown++;
		return;
	}
	e.flags |= how.flags;
	if (late)
		e.flags |= EVF_LATE;
	if (model__event(s->model, &e))
		s->rows_unknown++;
}

void session__deliver(struct session *s, bool final)
{
	drain__deliver(s->drain, final, on_record, s);
}

/* New losses since the last call become LOST rows. */
void session__losses(struct session *s)
{
	/* In the order of time: what is being written now is a window old. */
	uint64_t now = clock__boot() - (s->t_stop ? 0 : WINDOW_NS);
	struct loss *list;
	size_t n, i;

	session__sweep(s);
	if (losses__read(s->losses_fd, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		const struct loss *l = &list[i];
		struct hkey k = { (uint64_t)l->site << 32 | (uint64_t)l->reason << 16 | l->cpu,
				  (uint64_t)(uint32_t)l->device };
		uint64_t *seen = hmap__put(&s->loss_seen, k, NULL);
		struct lost_row row = { .reason = loss__reason(l->reason),
					.probe = prober__site_name(s->prober, l->site),
					.device = l->device,
					.cpu = l->cpu,
					.physical = prober__site_fn(s->prober, l->site) !=
						    MT_FN_PTA_REPORT,
					.first = l->first,
					.last = l->last,
					.now = now };

		if (!seen || l->count <= *seen)
			continue;
		row.count = l->count - *seen;
		if (*seen) /* the rows before told of the first ones */
			row.first = l->last;
		*seen = l->count;
		s->lost_total += row.count;
		model__lost(s->model, &row);
	}
	free(list);
}
