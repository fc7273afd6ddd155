// SPDX-License-Identifier: Apache-2.0
/*
 * Whom to believe: the self-check of torch_npu's records (design.md, PTA
 * self-check), by process. A probe in the wrong place shows in the first records
 * of every process; nonsense of one process alone is its own.
 */
#include "capture/capture.h"

#include <stdlib.h>

/*
 * Enough records to see mallocs and frees of both components; a wrong probe
 * shows at the first one or two.
 */
#define CHECKED_RECORDS 64

static struct pta_voice *voice(struct pta_judge *j, const struct mt_hdr *h)
{
	struct pta_voice *v = j->n ? &j->voices[j->last] : NULL;
	uint64_t *at;
	bool fresh;
	void *more;

	/* Records of one process come one after the other. */
	if (v && v->tgid == h->tgid && v->start == h->start)
		return v;
	at = hmap__put(&j->by_process, (struct hkey){ h->tgid, h->start }, &fresh);
	if (!at)
		return NULL;
	if (fresh) {
		more = realloc(j->voices, (j->n + 1) * sizeof(*j->voices));
		if (!more) {
			hmap__del(&j->by_process, (struct hkey){ h->tgid, h->start }, NULL);
			return NULL;
		}
		j->voices = more;
		j->voices[j->n] = (struct pta_voice){ .tgid = h->tgid, .start = h->start };
		*at = j->n++;
	}
	j->last = *at;
	return &j->voices[j->last];
}

static enum pta_judgement judge(struct pta_judge *j, struct pta_voice *v, const char *wrong)
{
	if (!wrong) {
		if (!v->seen++)
			j->right++;
		return PTA_BELIEVED;
	}
	if (v->seen)
		j->right--;
	j->wrong++;
	v->wrong = wrong;
	return j->wrong > j->right ? PTA_NONSENSE : PTA_NEWLY_DOUBTED;
}

enum pta_judgement pta_judge__report(struct pta_judge *j, const struct mt_pta *r,
				     enum pta_layout known, enum pta_layout *layout)
{
	struct pta_voice *v = voice(j, &r->h);
	enum pta_judgement verdict;
	enum pta_layout learnt;
	const char *wrong;

	if (!v || v->wrong)
		return PTA_DOUBTED;
	learnt = pta_learner__feed(&v->learner, r);
	*layout = known ? known : learnt ? learnt : j->layout;
	if (v->seen >= CHECKED_RECORDS)
		return PTA_BELIEVED;
	wrong = pta__implausible(r, *layout);
	if (!wrong && learnt && (*layout == PTA_LAYOUT_C) != (learnt == PTA_LAYOUT_C))
		wrong = "records are not of the layout that the code says";
	verdict = judge(j, v, wrong);
	if (verdict == PTA_BELIEVED && !j->layout)
		j->layout = learnt;
	return verdict;
}

enum pta_judgement pta_judge__call(struct pta_judge *j, const struct mt_call *r)
{
	struct pta_voice *v = voice(j, &r->h);

	if (!v || v->wrong)
		return PTA_DOUBTED;
	return v->seen >= CHECKED_RECORDS ? PTA_BELIEVED : judge(j, v, pta__implausible_call(r));
}

void pta_judge__forget(struct pta_judge *j, uint32_t tgid, uint32_t start)
{
	const uint64_t *at = hmap__get(&j->by_process, (struct hkey){ tgid, start });
	struct pta_voice *v = at ? &j->voices[*at] : NULL;

	if (!v)
		return;
	if (v->wrong)
		j->wrong--;
	else if (v->seen)
		j->right--;
	*v = (struct pta_voice){ .tgid = tgid, .start = start };
}

void pta_judge__free(struct pta_judge *j)
{
	hmap__free(&j->by_process);
	free(j->voices);
}
