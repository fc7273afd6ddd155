// SPDX-License-Identifier: Apache-2.0
/* Libraries that a target has mapped and whose calls are not seen all the same. */
#include "cli/scan.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <unistd.h>

#define SITES 4 /* of a file, looked at in each process: all or none are there */

static void add(struct session *s, const char *path, pid_t pid, uint64_t since, const char *why)
{
	struct hkey k = { hash__bytes(path, strlen(path), 0), (uint64_t)pid };
	struct unseen_lib u = { .pid = pid, .since = since, .why = why };
	bool fresh = false;
	void *p;

	if (!hmap__put(&s->unseen_said, k, &fresh) || !fresh)
		return;
	pr_warn("%s (pid %d): mapped, but its calls are not seen: %s", path, (int)pid, why);
	p = realloc(s->unseen, (s->n_unseen + 1) * sizeof(*s->unseen));
	if (!p)
		return;
	s->unseen = p;
	u.path = strdup(path);
	if (!u.path)
		return;
	(void)proc__start(pid, &u.start);
	s->unseen[s->n_unseen++] = u;
}

/* What the kernel puts in the place of a probed instruction. */
static bool is_breakpoint(const unsigned char b[4])
{
#ifdef __aarch64__
	return (b[0] & 0x1f) == 0 && (b[2] & 0xe0) == 0x20 && b[3] == 0xd4; /* brk */
#else
	return b[0] == 0xcc || b[0] == 0xe8; /* int3; since 6.18 a call where there was a nop */
#endif
}

/*
 * Are the probes in this process's copy? An overlay file system gives what was
 * changed (chmod does) another file below, under the same path and number; who
 * mapped it before keeps the old one, which can no longer be reached. (Another
 * tracer's breakpoints there would deceive us.)
 */
static bool in_place(pid_t pid, const struct mapping *m, const struct probed_file *f)
{
	size_t i, seen = 0;

	for (i = 0; i < f->n_reports && seen < SITES; i++) {
		const struct probe_report *r = &f->reports[i];
		unsigned char b[4];

		/* "found": an allocator of the host, which is attached to this process alone. */
		if ((strcmp(r->state, "attached") && strcmp(r->state, "found")) ||
		    r->off < m->offset || r->off - m->offset + sizeof(b) > m->end - m->start)
			continue;
		if (proc__memory(pid, m->start + r->off - m->offset, b, sizeof(b)) != sizeof(b))
			return true; /* it has gone, or may not be read: nothing is known */
		if (!is_breakpoint(b))
			return false;
		seen++;
	}
	return true;
}

void session__check_probed(struct session *s, pid_t pid, uint64_t since, const struct mapping *m,
			   int fd)
{
	const struct probed_file *f = prober__file_of(s->prober, fd);

	if (f && !in_place(pid, m, f))
		add(s, m->path, pid, since,
		    f->overlay ? "the file was changed in its overlay file system since it was "
				 "mapped; start the process anew"
			       : "the kernel has not put the probes into its copy");
}

struct check {
	struct session *s;
	pid_t pid;
	uint64_t since;
};

static int check_mapping(void *ctx, const struct mapping *m)
{
	struct check *c = ctx;
	uint32_t start;
	int fd;

	if (!catalogue__wants(path_base(m->path)) || path__is_stub(m->path))
		return 0;
	fd = mapping__open(c->pid, m);
	if (fd < 0) {
		/* Not when the process has just ended. */
		if (!proc__start(c->pid, &start))
			add(c->s, m->path, c->pid, c->since,
			    "it cannot be opened; needs CAP_CHECKPOINT_RESTORE (man memtap, "
			    "CAPABILITIES)");
		return 0;
	}
	session__check_probed(c->s, c->pid, c->since, m, fd);
	close(fd);
	return 0;
}

void session__check_unseen(struct session *s, pid_t pid, uint64_t since)
{
	struct check c = { .s = s, .pid = pid, .since = since };
	uint32_t key, *prev = NULL;

	if (pid) {
		proc__each_mapping(pid, check_mapping, &c);
		return;
	}
	while (!bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		prev = &key;
		c.pid = (pid_t)key;
		proc__each_mapping(c.pid, check_mapping, &c);
	}
}

void session__unseen_rows(struct session *s, uint64_t now)
{
	size_t i;

	for (i = 0; i < s->n_unseen; i++) {
		struct unseen_lib *u = &s->unseen[i];
		struct lost_row row = { .reason = "unseen library",
					.probe = "all",
					.library = u->path,
					.tgid = u->start ? (uint32_t)u->pid : 0,
					.start = u->start,
					.device = -1,
					.count = LOST_UNKNOWN,
					.first = MT_MAX(u->since, s->t_attached),
					.last = s->t_stop,
					.now = s->t_stop ? s->t_stop : now };

		if (!u->told && row.first < row.last)
			u->told = model__lost(s->model, &row);
	}
}

void session__free_unseen(struct session *s)
{
	while (s->n_unseen)
		free(s->unseen[--s->n_unseen].path);
	free(s->unseen);
	hmap__free(&s->unseen_said);
}
