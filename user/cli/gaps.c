// SPDX-License-Identifier: Apache-2.0
/*
 * What was not seen, nobody knows how much: calls of a library that was probed
 * later than it was mapped, or of its Python functions, which may be found only
 * when they are imported, of a process that was found by its name when it ran
 * already, and mappings of which no notice came. Each is told at once, in the
 * summary, and by a LOST row with count N/A.
 */
#include "cli/scan.h"

#include <stdlib.h>
#include <string.h>

#define MANY_GAPS 1000 /* from here on ranges are told together */

static uint64_t window_first(const struct session *s, uint64_t first)
{
	return MT_MAX(first, s->t_attached);
}

static uint64_t window_last(const struct session *s, uint64_t last)
{
	return s->t_stop ? MT_MIN(last, s->t_stop) : last;
}

static struct gap *add(struct session *s, const struct gap *g)
{
	void *p;

	/* Nothing is missing of what is wholly before the beginning or behind the end. */
	if (g->first >= g->last)
		return NULL;
	p = realloc(s->gaps, (s->n_gaps + 1) * sizeof(*s->gaps));
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

		if (o->kind == GAP_LIBRARY && o->pid == g->pid &&
		    (o->last == g->last || (o->never && g->never)) && !strcmp(o->path, g->path))
			return o;
	}
	return NULL;
}

/* Start time of a process that may have ended; 0: the row will stand at any process. */
static uint32_t start_of(struct session *s, pid_t pid)
{
	struct mt_target t;
	uint32_t start;

	if (target__is(s, pid, &t))
		return t.start;
	return proc__start(pid, &start) ? model__start(s->model, (uint32_t)pid) : start;
}

void session__note_late(struct session *s, const struct probed_file *f, const char *path, pid_t pid,
			uint64_t mapped)
{
	struct gap g = { .kind = GAP_LIBRARY,
			 .path = strdup(path),
			 .pid = pid,
			 .never = !f,
			 .first = window_first(s, mapped),
			 .last = window_last(s, f ? f->attach_time : clock__boot()) },
		   *same;

	if (!g.path || g.first >= g.last) {
		free(g.path);
		return;
	}
	same = same_library(s, &g);
	if (same) {
		same->first = MT_MIN(same->first, g.first);
		free(g.path);
		return;
	}
	g.start = start_of(s, pid);
	if (f)
		pr_warn("%s: mapped by pid %d without notice: probed %.1f ms later, calls before "
			"are missing",
			path, (int)pid, (double)(g.last - g.first) / 1e6);
	else
		pr_warn("%s: mapped by pid %d, which ended before the file could be looked at: its "
			"calls are missing",
			path, (int)pid);
	if (!add(s, &g))
		free(g.path);
}

void session__note_functions(struct session *s, const struct probed_file *f, const char *functions,
			     pid_t pid, uint64_t first, uint64_t last)
{
	struct gap g = { .kind = GAP_FUNCTIONS,
			 .path = strdup(f->path),
			 .functions = strdup(functions),
			 .pid = pid,
			 .start = start_of(s, pid),
			 .first = window_first(s, first),
			 .last = window_last(s, last) };

	if (g.path && g.functions && add(s, &g))
		return;
	free(g.path);
	free(g.functions);
}

void session__note_process(struct session *s, pid_t pid, uint64_t first)
{
	struct gap g = { .kind = GAP_PROCESS,
			 .pid = pid,
			 .start = start_of(s, pid),
			 .first = window_first(s, first),
			 .last = window_last(s, clock__boot()) };
	uint32_t now;
	size_t i;

	g.never = proc__start(pid, &now);
	for (i = 0; i < s->n_gaps; i++)
		if (s->gaps[i].kind == GAP_PROCESS && s->gaps[i].pid == pid &&
		    s->gaps[i].last >= g.first)
			return; /* of another mapping of it */
	if (!add(s, &g))
		return;
	if (g.never)
		pr_warn("pid %d: had a library mapped and ended before its name could be looked "
			"at: if it was meant, its calls are missing",
			(int)pid);
	else
		pr_warn("pid %d: found by its name when it had a library mapped already: its calls "
			"of the %.1f ms since it began may be missing",
			(int)pid, (double)(g.last - g.first) / 1e6);
}

/* Ranges that a target opens without end are one gap for each second. */
static bool joins_last(struct session *s, pid_t pid, uint64_t first, uint64_t last)
{
	struct gap *o = s->n_gaps ? &s->gaps[s->n_gaps - 1] : NULL;

	if (s->n_gaps < MANY_GAPS || o->kind != GAP_HOST || o->pid != pid || o->told ||
	    first - o->first > 1000000000ULL)
		return false;
	o->last = MT_MAX(o->last, window_last(s, last));
	return true;
}

void session__note_host(struct session *s, pid_t pid, uint64_t first, uint64_t last)
{
	struct gap g = { .kind = GAP_HOST,
			 .functions = strdup("malloc free"),
			 .pid = pid,
			 .start = start_of(s, pid),
			 .first = window_first(s, first),
			 .last = window_last(s, last) };

	if (joins_last(s, pid, g.first, g.last) || !add(s, &g))
		free(g.functions);
}

void session__note_unwatched(struct session *s, uint64_t since)
{
	struct gap g = { .kind = GAP_NOTICES,
			 .first = window_first(s, since),
			 .last = window_last(s, clock__boot()) };
	struct gap *o = s->n_gaps ? &s->gaps[s->n_gaps - 1] : NULL;

	if (g.first >= g.last)
		return;
	if (o && o->kind == GAP_NOTICES && !o->told) {
		o->first = MT_MIN(o->first, g.first);
		o->last = MT_MAX(o->last, g.last);
		return;
	}
	if (add(s, &g))
		pr_warn("notices of new mappings were lost in a burst of them, or of a processor "
			"that came online: their libraries have been looked for, calls of the last "
			"%.1f ms may be missing",
			(double)(g.last - g.first) / 1e6);
}

void session__gap_rows(struct session *s, uint64_t now)
{
	static const char *const reasons[] = {
		[GAP_LIBRARY] = "late library", [GAP_FUNCTIONS] = "late Python functions",
		[GAP_PROCESS] = "late process", [GAP_NOTICES] = "mapping notices lost",
		[GAP_HOST] = "late allocator",
	};
	size_t i;

	for (i = 0; i < s->n_gaps; i++) {
		struct gap *g = &s->gaps[i];
		struct lost_row row = { .reason = reasons[g->kind],
					.probe = g->functions ? g->functions : "all",
					.library = g->path,
					.tgid = g->start ? (uint32_t)g->pid : 0,
					.start = g->start,
					.device = -1,
					.count = LOST_UNKNOWN,
					.first = g->first,
					.last = g->last,
					.now = s->t_stop ? s->t_stop : now };

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
	while (s->n_gaps) {
		free(s->gaps[--s->n_gaps].path);
		free(s->gaps[s->n_gaps].functions);
	}
	free(s->gaps);
}
