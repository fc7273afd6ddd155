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
	static const char *const names[MT_LOSS_MAX] = {
		[MT_LOSS_RING] = "ring full",
		[MT_LOSS_FAULT] = "memory unreadable",
		[MT_LOSS_INFLIGHT] = "too many open calls",
		[MT_LOSS_LENGTH] = "too many blocks in a call"
	};

	if (reason == LOSS_UNLISTED)
		return "unlisted";
	return reason < MT_LOSS_MAX ? names[reason] : "unknown";
}

bool loss__is_physical(unsigned int fn)
{
	return fn != MT_FN_PTA_REPORT && fn != MT_FN_C10_REPORT && fn != MT_FN_PTA_ALLOC &&
	       fn != MT_FN_PTA_FREE;
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
						.cpu = LOSS_ANY_CPU,
						.count = more,
						.first = first,
						.last = last };
	}
	return err;
}
