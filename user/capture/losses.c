// SPDX-License-Identifier: Apache-2.0
/* Counters of the BPF side, summed or listed by CPU. */
#include "capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *loss__reason(enum mt_loss reason)
{
	static const char *const names[MT_LOSS_MAX] = {
		[MT_LOSS_RING] = "ring full",
		[MT_LOSS_FAULT] = "memory unreadable",
		[MT_LOSS_INFLIGHT] = "too many open calls",
		[MT_LOSS_LENGTH] = "too many blocks in a call"
	};

	return reason < MT_LOSS_MAX ? names[reason] : "unknown";
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
