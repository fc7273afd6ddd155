// SPDX-License-Identifier: Apache-2.0
/* Which files are probed for the targets: at the start, and as new ones are mapped. */
#include "cli/scan.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/host.h"
#include "cli/later.h"
#include "symbol/stacks.h"

/* ---- probing them ---- */

/* Named by the user: others may just not be NPU processes yet. */
static bool is_named(const struct session *s, pid_t pid)
{
	size_t i;

	for (i = 0; i < s->opts.n_pids; i++)
		if (s->opts.pids[i] == pid)
			return true;
	return false;
}

static int refuse(struct session *s, pid_t pid, const char *why)
{
	char comm[16] = "?";

	(void)s;
	proc__comm(pid, comm);
	pr_err("pid %d (%s): %s", (int)pid, comm, why);
	return -ENOEXEC;
}

static int refuse_stranger(struct session *s, pid_t pid)
{
	char why[700];

	if (!proc__has_program(pid))
		return refuse(s, pid, "has ended, or is a kernel thread");
	if (process__is_static(pid))
		snprintf(why, sizeof(why),
			 "not an NPU process: it is statically linked, loads no libraries when it "
			 "starts, and none of %s is mapped or found where dlopen would look",
			 catalogue__libs_text());
	else
		snprintf(why, sizeof(why),
			 "not an NPU process: none of %s is mapped or found where it would look",
			 catalogue__libs_text());
	return refuse(s, pid, why);
}

struct everyone {
	struct session *s;
	struct hmap *have;
	bool only_missing;
};

static int scan_other(void *ctx, pid_t pid)
{
	struct everyone *e = ctx;
	struct scan c = { .s = e->s,
			  .prober = e->s->prober,
			  .pid = pid,
			  .only_missing = e->only_missing,
			  .have = e->have };
	struct mt_target t;

	if (session__interrupted(e->s))
		return -EINTR;
	if (pid == getpid() || (e->only_missing && target__is(e->s, pid, &t)))
		return 0;
	if (e->only_missing) {
		proc__each_mapping(pid, scan__mapping, &c);
	} else {
		/* Everything mapped anywhere; what could be loaded only for NPU processes. */
		proc__each_mapping(pid, scan__mapping, &c);
		if (c.mapped) {
			scan__process(&c);
			session__check_unseen(e->s, pid, clock__boot());
		}
	}
	scan__free(&c);
	return 0;
}

int session__probe_targets(struct session *s)
{
	struct everyone all = { .s = s };
	struct hmap have = { 0 };
	uint32_t key, *prev = NULL;
	const struct probed_file *f;
	size_t found = 0, i;
	pid_t stranger = 0;
	int err = 0;

	while (!bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		struct scan c = { .s = s, .prober = s->prober, .pid = (pid_t)key };
		struct hkey k;
		size_t pos = 0;

		prev = &key;
		if (c.pid == s->child)
			c.command = s->opts.cmd[0];
		err = scan__process(&c);
		while (hmap__next(&c.names, &pos, &k, NULL))
			hmap__put(&have, k, NULL);
		found += c.mapped + c.ahead;
		if (err == -EINTR) {
			scan__free(&c);
			goto out;
		}
		if (!is_named(s, c.pid) || s->t_attached) {
			err = 0;
		} else if (err == -EACCES || err == -EPERM) {
			refuse(s, c.pid,
			       "its mappings may not be read: another user's, or of another user "
			       "namespace; needs CAP_SYS_PTRACE there (man memtap, "
			       "CAPABILITIES)");
		} else if (!err && !c.mapped && !c.ahead) {
			stranger = c.pid;
		} else if (!err && !c.mapped) {
			pr_info("pid %d has no NPU library mapped yet: %zu files are probed "
				"ahead%s",
				(int)c.pid, c.ahead,
				process__is_static(c.pid) ? "; it is statically linked and will "
							    "only load one if it calls dlopen"
							  : "");
		}
		scan__free(&c);
		if (err && err != -ESRCH)
			goto out;
		err = 0;
	}
	/* A launcher is no NPU process, but its children may be. */
	if (stranger && !found) {
		err = refuse_stranger(s, stranger);
		goto out;
	}
	all.have = &have;
	all.only_missing = !s->opts.all;
	proc__each(scan_other, &all);
	if (s->opts.all && !prober__file(s->prober, 0)) {
		/* Nobody yet: where the first one would load from. */
		struct scan c = { .s = s, .prober = s->prober, .pid = getpid() };

		scan__ahead(&c);
		scan__free(&c);
	}
	if (session__interrupted(s)) {
		err = -EINTR;
		goto out;
	}
	for (i = 0; (f = prober__file(s->prober, i)); i++)
		if (f->segments)
			session__segments_left(s, f);
	session__check_unseen(s, 0, clock__boot());
out:
	hmap__free(&have);
	return err;
}
/* ---- later: new mappings ---- */

/* Notices are missing since then: what they told of is looked for. */
static void rescan(struct session *s, uint64_t since)
{
	s->rescan_since = since;
	s->rescan_began = clock__boot();
	session__find_names(s);
	session__probe_targets(s);
	s->rescan_since = 0;
	session__note_unwatched(s, since);
}

/* The dynamic linker is mapped once an exec: a new program has begun. */
static bool is_linker(const char *base)
{
	return strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld-musl", 7) == 0 ||
	       fnmatch("ld-[0-9]*.so", base, 0) == 0;
}

/* A process that has entered the cgroup since the start. */
static bool in_cgroup(const struct session *s, pid_t pid)
{
	return s->opts.cgroup && cgroup__has(s->opts.cgroup, pid) == 1;
}

bool session__traces(struct session *s, pid_t pid)
{
	struct mt_target t;

	return target__is(s, pid, &t) || s->opts.all || in_cgroup(s, pid);
}

/* Of a process that has ended: the file itself may still be where it was. */
static int open_same(const struct map_event *e)
{
	int fd = proc__open(getpid(), e->path);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != e->ino)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Is it a file that is probed, as far as its number tells? */
static bool is_probed(struct session *s, const struct map_event *e)
{
	const struct probed_file *f;
	size_t i;

	for (i = 0; (f = prober__file(s->prober, i)); i++)
		if (f->ino == e->ino && !strcmp(path_base(f->path), path_base(e->path)))
			return true;
	return false;
}

/* One that was traced, and is gone before its notice is read. */
static bool has_ended(struct session *s, pid_t pid)
{
	uint32_t start;

	return proc__start(pid, &start) && model__start(s->model, (uint32_t)pid);
}

static void on_library(struct session *s, const struct map_event *e)
{
	struct mapping m = {
		.start = e->start, .end = e->start + e->len, .ino = e->ino, .path = e->path
	};
	const struct probed_file *f;
	uint32_t start;
	int fd, err;

	if (!session__traces(s, e->pid) && !has_ended(s, e->pid)) {
		if (!proc__start(e->pid, &start))
			return;
		/* What its name was nobody can tell any more. */
		if (s->opts.n_names)
			session__note_process(s, e->pid, e->time);
		orphans__keep(s, e);
		return;
	}
	fd = mapping__open(e->pid, &m);
	if (fd < 0)
		fd = open_same(e);
	if (fd < 0) {
		if (!is_probed(s, e))
			session__note_late(s, NULL, e->path, e->pid, e->time);
		return;
	}
	err = prober__add(s->prober, fd, e->path, e->pid);
	if (err < 0)
		scan__tell_unprobed(e->path, e->pid, err);
	f = prober__file_of(s->prober, fd);
	if (f && f->segments)
		session__segments_of(s, e->pid, f);
	if (f)
		later__watch(s, f, e->pid, e->time);
	/* Now, or while its program was being looked through: later than it was mapped. */
	if (f && f->attached && f->attach_time > MT_MAX(e->time, s->t_attached))
		session__note_late(s, f, e->path, e->pid, e->time);
	else if (f && f->overlay && f->attached)
		session__check_unseen(s, e->pid, e->time);
	close(fd);
}

static void on_linker(struct session *s, const struct map_event *e)
{
	bool ours = session__traces(s, e->pid);
	struct scan c = { .s = s, .prober = s->prober, .pid = e->pid };
	size_t i;

	for (i = 0; !ours && i < s->opts.n_names; i++)
		if (proc__named(e->pid, s->opts.names[i])) {
			ours = session__join(s, e->pid, e->time);
			break;
		}
	if (ours)
		scan__process(&c);
	scan__free(&c);
}

static void on_map(void *ctx, const struct map_event *e)
{
	struct session *s = ctx;
	const char *base = path_base(e->path);
	struct mt_target t;

	if (e->pid == getpid() || e->path[0] != '/' || (s->t_stop && e->time >= s->t_stop))
		return;
	/* Those that allocate: with -a the others are none of ours. */
	if (s->stacks && !stacks__watches(s->stacks) && !s->t_stop && target__is(s, e->pid, &t))
		callstack__mapped(s, e->pid);
	if (!s->t_stop && s->host && target__is(s, e->pid, &t))
		host__mapped(s, e->pid, e->path, e->time);
	if (catalogue__wants(base) && !path__is_stub(e->path))
		on_library(s, e);
	else if (is_linker(base) && !s->t_stop)
		on_linker(s, e);
}

void session__read_maps(struct session *s)
{
	struct map_gap gap;

	if (!s->watch)
		return;
	mapwatch__read(s->watch, on_map, s, &gap);
	orphans__claim(s, on_library);
	s->mapwatch_lost += gap.lost;
	if (!gap.missing)
		return;
	if (s->t_stop)
		session__note_unwatched(s, gap.since);
	else
		rescan(s, gap.since);
}
