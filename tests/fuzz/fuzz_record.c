// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: records of the rings, as a target that writes nonsense into its
 * own memory makes them: decoding, self-check, model, rows as bytes. See run.sh.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "capture/capture.h"
#include "model/model.h"
#include "output/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	uint64_t rows, last_id;
	struct strbuf bytes;
};

/* A row must survive being written and read. */
static void on_row(void *ctx, const struct row *r)
{
	struct seen *s = ctx;
	struct row back;

	s->rows++;
	strbuf__reset(&s->bytes);
	if (row__encode(&s->bytes, r))
		return;
	if (row__decode((const uint8_t *)s->bytes.data, s->bytes.len, &back) !=
		    (ssize_t)s->bytes.len ||
	    back.event != r->event || back.size != r->size || back.name_len != r->name_len)
		abort();
}

/* Whom to believe, as the session asks; the numbers of voices must add up. */
static bool believed(struct pta_judge *j, const void *rec, size_t n, uint8_t layout)
{
	const struct mt_hdr *h = rec;
	enum pta_layout how = PTA_LAYOUT_UNKNOWN;
	enum pta_judgement verdict = PTA_BELIEVED;

	if (n >= sizeof(struct mt_pta) && h->type == MT_REC_PTA)
		verdict = pta_judge__report(j, rec, (enum pta_layout)(layout & 3), &how);
	else if (n >= sizeof(struct mt_call) && h->type == MT_REC_CALL &&
		 (h->fn == MT_FN_PTA_ALLOC || h->fn == MT_FN_PTA_FREE))
		verdict = pta_judge__call(j, rec);
	else if (n >= sizeof(*h) && h->type == MT_REC_EXEC)
		pta_judge__forget(j, h->tgid, h->start);
	if (how > PTA_LAYOUT_C || j->right > j->n || j->wrong > j->n || j->right + j->wrong > j->n)
		abort();
	return verdict == PTA_BELIEVED;
}

static void one(struct model *m, struct pta_learner *learner, const void *rec, size_t n,
		uint8_t layout)
{
	const struct mt_hdr *h = rec;
	struct event e;

	if (n >= sizeof(struct mt_pta) && h->type == MT_REC_PTA) {
		enum pta_layout learnt = pta_learner__feed(learner, rec);

		if (layout & 4)
			layout = (uint8_t)learnt;
		pta__implausible(rec, (enum pta_layout)(layout & 3));
	} else if (n >= sizeof(struct mt_call)) {
		pta__implausible_call(rec);
	}
	if (!event__decode(rec, n, (enum pta_layout)(layout & 3), &e))
		model__event(m, &e);
}

/* First byte: options and layout; then each record behind its length in one byte. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_ops ops = { .row = on_row };
	struct seen seen = { 0 };
	struct model_opts opts = { 0 };
	struct pta_learner learner = { 0 };
	struct pta_judge judge = { 0 };
	struct model_counts c;
	struct pool_state pools[8];
	struct model *m;
	uint8_t mode;

	if (!size || size > 16384)
		return 0;
	mode = *data++;
	size--;
	opts.vendor = mode & 8;
	opts.level = mode & 16 ? LEVEL_OP : LEVEL_OP | LEVEL_KERNEL;
	opts.events = mode & 32 ? EVENTS_LAUNCH : EVENTS_ALLOC | EVENTS_LAUNCH;
	opts.npu_slots = mode & 64 ? 2 : 0;
	m = model__new(&opts, &ops, &seen);
	if (!m)
		return 0;
	while (size > 1) {
		size_t n = MT_MIN((size_t)data[0], size - 1);
		uint8_t *rec = malloc(n ? n : 1); /* nothing readable behind it */

		if (!rec)
			break;
		memcpy(rec, data + 1, n);
		/* Some runs go on with what is not believed. */
		if (believed(&judge, rec, n, mode & 7) || mode & 128)
			one(m, &learner, rec, n, mode & 7);
		free(rec);
		data += n + 1;
		size -= n + 1;
	}
	pta_judge__free(&judge);
	model__pools(m, pools, MT_ARRAY_SIZE(pools));
	model__stop(m, 1);
	model__counts(m, &c);
	model__free(m);
	strbuf__free(&seen.bytes);
	return 0;
}
