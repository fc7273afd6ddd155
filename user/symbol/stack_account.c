// SPDX-License-Identifier: Apache-2.0
/* What there is to tell of the stacks of a recording: counts of the programs, and ours. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"

static uint64_t sum_of(int fd, uint32_t key)
{
	uint64_t sum = 0, *v;
	int n = libbpf_num_possible_cpus(), i;

	v = n > 0 ? calloc((size_t)n, sizeof(*v)) : NULL;
	if (v && fd >= 0 && !bpf_map_lookup_elem(fd, &key, v))
		for (i = 0; i < n; i++)
			sum += v[i];
	free(v);
	return sum;
}

void stacks__stats(struct stacks *s, struct stacks_stats *out)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	if (s->opts.c) {
		stack_copies__settle(s, true);
		/* A record that waits to be read is counted as the programs have counted it. */
		for (i = 1; i < MT_END_MAX; i++) {
			out->ends[i] = sum_of(s->opts.maps.ends, i);
			/* Rows may be more than walks: a call with several has one stack. */
			if (s->copies.moved[i] < 0 && out->ends[i] < (uint64_t)-s->copies.moved[i])
				out->ends[i] = 0;
			else
				out->ends[i] += (uint64_t)s->copies.moved[i];
		}
		for (i = 0; i < MT_COPY_COUNTS; i++)
			out->copied[i] = sum_of(s->opts.maps.copies, i);
		out->completed = s->copies.completed;
		out->copies_longer = s->copies.longer;
		out->copies_useless = s->copies.failed;
		out->copies_dropped = s->copies.dropped;
		out->unsent = sum_of(s->opts.maps.ends, MT_END_NOT);
	}
	if (s->opts.python) {
		for (i = 0; i < MT_PY_WHY_MAX; i++)
			out->py[i] = sum_of(s->opts.maps.py_ends, i);
		out->py_unsent = sum_of(s->opts.maps.py_ends, MT_PY_WHY_MAX);
	}
	out->kept = s->store.n[0];
	out->py_kept = s->store.n[1];
	out->frames = s->store.frames;
	out->guessed = s->store.guessed;
	out->collisions = s->store.collisions;
	out->evicted = s->store.evicted;
	out->unknown = s->unknown;
	out->unnamed = s->unnamed;
	out->unanswered = s->unanswered;
	memcpy(out->merged, s->merged, sizeof(out->merged));
	if (s->sources) {
		struct sources_stats src;

		sources__stats(s->sources, &src);
		out->sources = src.found;
		out->no_source = src.unknown;
		out->source_bytes = src.bytes;
	}
	out->bytes = s->store.bytes + s->store.old_bytes + s->store.line_bytes + s->text_bytes;
	symbols__stats(s->symbols, &out->symbols);
	pthread_mutex_lock(&s->lock);
	out->unwind = s->unwind_stats;
	out->programs = s->n_procs;
	out->silent = s->silent;
	out->held_back = s->held_back;
	out->notices_lost = s->notices_lost;
	pthread_mutex_unlock(&s->lock);
}
