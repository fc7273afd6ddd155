// SPDX-License-Identifier: Apache-2.0
/*
 * What was not seen, nobody knows how much: calls of a library that was probed
 * later than it was mapped, and mappings of which no notice came. Each is told at
 * once, in the summary, and by a LOST row with count N/A.
 */
#include "cli/scan.h"

#include <stdlib.h>
#include <string.h>

static struct gap *add(struct session *s, const struct gap *g)
{
	void *p = realloc(s->gaps, (s->n_gaps + 1) * sizeof(*s->gaps));

	if (!p)
		return NULL;
	s->gaps = p;
	s->gaps[s->n_gaps] = *g;
	return &s->gaps[s->n_gaps++];
}

/* A library has several executable segments: one gap. */
static struct gap *same_library(struct session *s, const struct gap *g)
{
	size_t i;

	for (i = s->n_gaps; i-- > 0;) {
		struct gap *o = &s->gaps[i];

		if (o->path && o->pid == g->pid && o->last == g->last && !strcmp(o->path, g->path))
			return o;
	}
	return NULL;
}

void session__note_late(struct session *s, const struct probed_file *f, const char *path, pid_t pid,
			uint64_t mapped)
{
	struct gap g = { .path = strdup(path),
			 .pid = pid,
			 .first = MT_MAX(mapped, s->t_attached),
			 .last = f->attach_time },
		   *same;
	struct mt_target t;

	if (!g.path)
		return;
	same = same_library(s, &g);
	if (same) {
		same->first = MT_MIN(same->first, g.first);
		free(g.path);
		return;
	}
	/* Without it the row stands at any process: this one is gone. */
	if (target__is(s, pid, &t))
		g.start = t.start;
	else
		(void)proc__start(pid, &g.start);
	pr_warn("%s: mapped by pid %d without notice: probed %.1f ms later, calls before are "
		"missing",
		path, (int)pid, (double)(g.last - g.first) / 1e6);
	if (!add(s, &g))
		free(g.path);
}

void session__note_unwatched(struct session *s, uint64_t since)
{
	struct gap g = { .first = MT_MAX(since, s->t_attached), .last = clock__boot() };
	struct gap *o = s->n_gaps ? &s->gaps[s->n_gaps - 1] : NULL;

	if (o && !o->path && !o->told) {
		o->first = MT_MIN(o->first, g.first);
		o->last = g.last;
		return;
	}
	pr_warn("notices of new mappings were lost in a burst of them: their libraries have been "
		"looked for, calls of the last %.1f ms may be missing",
		(double)(g.last - g.first) / 1e6);
	add(s, &g);
}

void session__gap_rows(struct session *s, uint64_t now)
{
	size_t i;

	for (i = 0; i < s->n_gaps; i++) {
		struct gap *g = &s->gaps[i];
		struct lost_row row = { .reason = g->path ? "late library" : "mapping notices lost",
					.probe = "all",
					.library = g->path,
					.tgid = g->start ? (uint32_t)g->pid : 0,
					.start = g->start,
					.device = -1,
					.count = LOST_UNKNOWN,
					.first = g->first,
					.last = g->last,
					.now = now };

		/* Behind the rows of the gap; a process nobody has met may still show itself. */
		if (g->told || g->last > now)
			continue;
		if (row.tgid && !s->t_stop && !model__knows(s->model, row.tgid, row.start))
			continue;
		g->told = model__lost(s->model, &row);
	}
}

void session__free_gaps(struct session *s)
{
	while (s->n_gaps)
		free(s->gaps[--s->n_gaps].path);
	free(s->gaps);
}
