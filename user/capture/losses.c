// SPDX-License-Identifier: Apache-2.0
/* Counters of the BPF side, summed or listed by CPU. */
#include "capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *loss__reason(unsigned int reason)
{
	static const char *const names[] = {
		[MT_LOSS_RING] = "ring full",
		[MT_LOSS_FAULT] = "memory unreadable",
		[MT_LOSS_INFLIGHT] = "too many open calls",
		[MT_LOSS_LENGTH] = "too many blocks in a call",
		[LOSS_NONSENSE] = "record makes no sense",
		[LOSS_MEMORY] = "no memory for a record",
		[LOSS_UNLISTED] = "not listed",
	};

	return reason < MT_ARRAY_SIZE(names) ? names[reason] : "unknown";
}

bool loss__is_physical(unsigned int fn)
{
	return fn != MT_FN_PTA_REPORT && fn != MT_FN_C10_REPORT && fn != MT_FN_PTA_ALLOC &&
	       fn != MT_FN_PTA_FREE && !(fn >= MT_FN_ATB_POOL && fn <= MT_FN_ATB_LAUNCH);
}

int losses__read(int map_fd, struct loss **out, size_t *n)
{
	int cpus = libbpf_num_possible_cpus(), c;
	struct mt_loss_key key, *prev = NULL;
	struct mt_loss_val *vals;
	struct loss *list = NULL;
	size_t cap = 0;
	int err = 0;

	*out = NULL;
	*n = 0;
	if (cpus < 0)
		return cpus;
	vals = calloc((size_t)cpus, sizeof(*vals));
	if (!vals)
		return -ENOMEM;
	while (!bpf_map_get_next_key(map_fd, prev, &key)) {
		prev = &key;
		if (bpf_map_lookup_elem(map_fd, &key, vals))
			continue;
		for (c = 0; c < cpus; c++) {
			if (!vals[c].count)
				continue;
			if (*n == cap) {
				void *p = realloc(list, (cap ? cap * 2 : 64) * sizeof(*list));

				if (!p) {
					err = -ENOMEM;
					goto out;
				}
				list = p;
				cap = cap ? cap * 2 : 64;
			}
			list[(*n)++] = (struct loss){ .site = key.site,
						      .reason = key.reason,
						      .device = key.device,
						      .cpu = (unsigned int)c,
						      .count = vals[c].count,
						      .first = vals[c].first,
						      .last = vals[c].last };
		}
	}
	*out = list;
	list = NULL;
out:
	free(list);
	free(vals);
	return err;
}

static struct hkey told_key(const struct loss *l)
{
	return (struct hkey){ (uint64_t)l->site << 32 | l->cpu,
			      (uint64_t)(uint32_t)l->device << 32 | (uint32_t)l->reason };
}

bool losses_told__news(const struct losses_told *t, const struct loss *now, struct loss *news)
{
	const uint64_t *no = hmap__get(&t->by_key, told_key(now));

	*news = *now;
	if (no) {
		news->count = now->count - MT_MIN(now->count, t->v[*no - 1].count);
		news->first = t->v[*no - 1].last;
	}
	/* Programs that were interrupted by others may have written an earlier time last. */
	news->first = MT_MIN(news->first, news->last);
	return news->count > 0;
}

void losses_told__add(struct losses_told *t, const struct loss *now)
{
	uint64_t *no = hmap__put(&t->by_key, told_key(now), NULL);
	void *p;

	if (no && !*no) {
		p = realloc(t->v, (t->n + 1) * sizeof(*t->v));
		if (p) {
			t->v = p;
			*no = ++t->n;
		} else {
			hmap__del(&t->by_key, told_key(now), NULL);
			no = NULL;
		}
	}
	if (no)
		t->v[*no - 1] = (struct loss_told){ now->count, now->last };
}

void losses_told__free(struct losses_told *t)
{
	hmap__free(&t->by_key);
	free(t->v);
	memset(t, 0, sizeof(*t));
}

int site_stat__read(int map_fd, unsigned int site, struct mt_site_stat *sum)
{
	int cpus = libbpf_num_possible_cpus(), c;
	struct mt_site_stat *vals;
	int err = 0;

	memset(sum, 0, sizeof(*sum));
	if (cpus < 0)
		return cpus;
	vals = calloc((size_t)cpus, sizeof(*vals));
	if (!vals)
		return -ENOMEM;
	if (bpf_map_lookup_elem(map_fd, &site, vals))
		err = -errno;
	for (c = 0; !err && c < cpus; c++) {
		sum->entry += vals[c].entry;
		sum->seen += vals[c].seen;
		sum->submitted += vals[c].submitted;
		sum->lost += vals[c].lost;
		sum->orphan += vals[c].orphan;
		sum->stale += vals[c].stale;
		sum->nested += vals[c].nested;
	}
	free(vals);
	return err;
}

uint64_t losses__unlisted(const struct loss *list, size_t n, unsigned int site, uint64_t lost)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (list[i].site == site)
			lost -= MT_MIN(lost, list[i].count);
	return lost;
}

int losses__read_all(int losses_fd, int stats_fd, unsigned int sites, uint64_t first, uint64_t last,
		     struct loss **out, size_t *n)
{
	size_t listed;
	unsigned int i;
	int err = losses__read(losses_fd, out, n);

	listed = *n;
	/* Site 0 is the lifecycle, which is told by itself. */
	for (i = 1; !err && i < sites; i++) {
		struct mt_site_stat st;
		uint64_t more;
		void *p;

		if (site_stat__read(stats_fd, i, &st))
			continue;
		more = losses__unlisted(*out, listed, i, st.lost);
		if (!more)
			continue;
		p = realloc(*out, (*n + 1) * sizeof(**out));
		if (!p) {
			free(*out);
			*out = NULL;
			return -ENOMEM;
		}
		*out = p;
		(*out)[(*n)++] = (struct loss){ .site = i,
						.reason = LOSS_UNLISTED,
						.device = -1,
						.cpu = NO_CPU,
						.count = more,
						.first = first,
						.last = last };
	}
	return err;
}
