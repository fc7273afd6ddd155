// SPDX-License-Identifier: Apache-2.0
/*
 * Python functions whose method table code fills in at import. Nothing tells
 * when that happens: processes that have the library mapped are looked at again
 * and again, with pauses that grow with the time since the mapping, so that the
 * time that is not seen stays a small part of the time that the import takes.
 */
#include "cli/later.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define MS 1000000ULL
#define FIRST_PAUSE (20 * MS)
#define LAST_PAUSE (10000 * MS)
#define PAUSE_PART 8 /* a pause is this part of the time since the mapping */
#define GIVE_UP (600000 * MS)
#define MAX_COST 20 /* looks take at most this part of the time: one takes 1 to 2 ms */

/* A process in whose memory the functions are looked for. */
struct later {
	const struct probed_file *f;
	pid_t pid;
	uint32_t start; /* of the process: its identity */
	uint64_t mapped; /* or first seen with it */
	uint64_t empty; /* when none of the functions could have been called yet */
	uint64_t due;
};

static void drop(struct session *s, size_t i)
{
	s->later[i] = s->later[--s->n_later];
}

static struct later *find(struct session *s, const struct probed_file *f, pid_t pid, uint32_t start)
{
	size_t i;

	for (i = 0; i < s->n_later; i++)
		if (s->later[i].f == f && s->later[i].pid == pid && s->later[i].start == start)
			return &s->later[i];
	return NULL;
}

static bool is_gone(const struct later *l)
{
	uint32_t start;

	return proc__start(l->pid, &start) || start != l->start;
}

void later__watch(struct session *s, const struct probed_file *f, pid_t pid, uint64_t empty)
{
	struct later *l;
	uint32_t start;
	void *p;

	if (!f->unfilled || proc__start(pid, &start))
		return;
	l = find(s, f, pid, start);
	if (!l) {
		p = realloc(s->later, (s->n_later + 1) * sizeof(*s->later));
		if (!p)
			return;
		s->later = p;
		l = &s->later[s->n_later++];
		*l = (struct later){ .f = f, .pid = pid, .start = start };
	} else if (l->mapped >= empty) {
		return; /* news of what is known already */
	}
	/* Mapped anew, after an exec say: it begins from the start. */
	l->mapped = l->empty = empty;
	l->due = clock__boot() + FIRST_PAUSE;
	hmap__put(&s->later_seen, (struct hkey){ f->no, 0 }, NULL);
}

/* ---- what was found ---- */

/* Each process that has the file mapped may have called them since it was last looked at. */
static void note_others(struct session *s, const struct probed_file *f, const char *names,
			pid_t but, uint64_t time)
{
	size_t i;

	for (i = 0; i < s->n_later; i++)
		if (s->later[i].f == f && s->later[i].pid != but && !is_gone(&s->later[i]))
			session__note_functions(s, f, names, s->later[i].pid, s->later[i].empty,
						time);
}

/* Something was found in a process by a look that began at `began`; before there was nothing. */
static void note(struct session *s, const struct probed_file *f, pid_t pid, uint64_t empty,
		 uint64_t began)
{
	struct strbuf names = { 0 };
	uint64_t time = 0;
	size_t i;

	/* Before the window nothing is missing in it. */
	for (i = 0; s->t_attached && i < f->n_reports; i++) {
		const struct probe_report *r = &f->reports[i];

		if (r->time < began)
			continue;
		strbuf__printf(&names, "%s%s", time ? " " : "", r->symbol);
		time = r->time;
	}
	if (time && !names.failed) {
		pr_warn("%s: Python functions %s can be probed only since pid %d has imported "
			"them: calls of the %.1f ms before may be missing",
			f->path, names.data, (int)pid,
			(double)(time - MT_MAX(empty, s->t_attached)) / 1e6);
		session__note_functions(s, f, names.data, pid, empty, time);
		note_others(s, f, names.data, pid, time);
	}
	strbuf__free(&names);
}

/* ---- looking ---- */

static void warn_once(struct session *s, const struct probed_file *f, pid_t pid)
{
	uint64_t *said = hmap__put(&s->later_seen, (struct hkey){ f->no, 0 }, NULL);

	if (!said || (*said)++)
		return;
	pr_warn("%s: its Python functions are not probed: the memory of pid %d, which may show "
		"them, cannot be read; needs CAP_SYS_PTRACE (man memtap, CAPABILITIES)",
		f->path, (int)pid);
}

/* Result of prober__look; *empty: when the look began. */
static int look(struct session *s, const struct probed_file *f, pid_t pid, uint64_t *empty)
{
	int n;

	*empty = clock__boot();
	n = prober__look(s->prober, f->no, pid);
	pr_debug("%s: looked for the method table in pid %d: %d, %.1f ms", f->path, (int)pid, n,
		 (double)(clock__boot() - *empty) / 1e6);
	if (n == -EPERM || n == -EACCES)
		warn_once(s, f, pid);
	return n;
}

void later__mapped(struct session *s, const struct probed_file *f, pid_t pid)
{
	struct later *l;
	uint64_t began;
	uint32_t start;
	int n;

	if (!f->unfilled || proc__start(pid, &start))
		return;
	n = look(s, f, pid, &began);
	l = find(s, f, pid, start);
	if (n > 0) /* without notice of its mapping it may have had it since the attach */
		note(s, f, pid, l ? l->empty : s->rescan_since, began);
	if (n >= 0)
		later__watch(s, f, pid, began);
}

struct born {
	struct session *s;
	pid_t pid;
	uint64_t empty;
};

static int on_mapping(void *ctx, const struct mapping *m)
{
	const char *slash = strrchr(m->path, '/');
	const struct probed_file *f;
	struct born *b = ctx;
	int fd;

	if (!slash || !catalogue__wants(slash + 1))
		return 0;
	fd = mapping__open(b->pid, m);
	if (fd < 0)
		return 0;
	f = prober__file_of(b->s->prober, fd);
	close(fd);
	if (f)
		later__watch(b->s, f, b->pid, b->empty);
	return 0;
}

void later__born(struct session *s, pid_t pid)
{
	struct born b = { .s = s, .pid = pid };
	const struct probed_file *f;
	uint32_t start;
	size_t i;

	for (i = 0; (f = prober__file(s->prober, i)); i++)
		if (f->unfilled)
			break;
	if (!f || proc__start(pid, &start))
		return;
	/* Ticks of 10 ms. */
	b.empty = (uint64_t)start * 10 * MS;
	proc__each_mapping(pid, on_mapping, &b);
}

void later__tick(struct session *s)
{
	struct later *l = NULL, was;
	uint64_t now, empty = 0, took;
	size_t i;
	int n;

	for (i = 0; i < s->n_later; i++)
		if (!l || s->later[i].due < l->due)
			l = &s->later[i];
	now = l ? clock__boot() : 0;
	if (!l || l->due > now)
		return;
	was = *l;
	n = !was.f->unfilled || is_gone(l) ? -ESRCH : look(s, was.f, was.pid, &empty);
	took = clock__boot() - now;
	if (n > 0)
		note(s, was.f, was.pid, was.empty, empty);
	if (n < 0 || !was.f->unfilled || now - was.mapped > GIVE_UP) {
		drop(s, (size_t)(l - s->later));
		return;
	}
	l->empty = empty;
	l->due = now + MT_MIN(MT_MAX((now - l->mapped) / PAUSE_PART, FIRST_PAUSE), LAST_PAUSE);
	l->due = MT_MAX(l->due, now + took * MAX_COST);
	if (n > 0) /* the rest will not be long, and most of the time went into attaching */
		l->due = now + took + FIRST_PAUSE;
}

/* ---- what the summary says ---- */

/* Functions of a file that a process has mapped and that were never found. */
static size_t unseen(struct session *s, const struct probed_file *f)
{
	size_t i, n = 0;

	if (!hmap__get(&s->later_seen, (struct hkey){ f->no, 0 }))
		return 0;
	for (i = 0; i < f->n_reports; i++)
		n += f->reports[i].unfilled && f->reports[i].sure;
	return n;
}

void later__settle(struct session *s)
{
	const struct probed_file *f;
	size_t i;

	s->functions_unseen = 0;
	for (i = 0; (f = prober__file(s->prober, i)); i++)
		s->functions_unseen += unseen(s, f);
}

void later__print(struct session *s, FILE *out)
{
	const struct probed_file *f;
	size_t i, n;

	for (i = 0; (f = prober__file(s->prober, i)); i++) {
		n = unseen(s, f);
		if (n)
			fprintf(out,
				"  Python functions of %s that are not probed: %zu, in no method "
				"table when last looked for; calls of them, if any, are missing\n",
				cli__text(f->path), n);
	}
}

void later__free(struct session *s)
{
	free(s->later);
	hmap__free(&s->later_seen);
}
