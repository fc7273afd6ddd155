// SPDX-License-Identifier: Apache-2.0
/* Who is traced, and which files are probed for them: mapped ones and those to come. */
#include "cli/session.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_target(struct session *s, pid_t pid, struct mt_target *t)
{
	uint32_t key = (uint32_t)pid;

	return !bpf_map_lookup_elem(s->targets_fd, &key, t);
}

/* Into the set that the programs filter by. 0 or -errno. */
static int add_target(struct session *s, pid_t pid)
{
	struct mt_target t = { 0 };
	uint32_t key = (uint32_t)pid;
	int err = proc__start(pid, &t.start);

	if (err)
		return err;
	if (bpf_map_update_elem(s->targets_fd, &key, &t, BPF_ANY))
		return -errno;
	s->n_targets++;
	return model__process(s->model, key, t.start, clock__boot());
}

/* ---- files of one process ---- */

struct scan {
	struct session *s;
	pid_t pid;
	size_t mapped; /* wanted libraries that it has mapped */
	size_t ahead; /* wanted files found ahead */
	size_t added;
	char **dirs; /* RUNPATH of its files */
	size_t n_dirs;
	uint64_t last_ino;
	struct hmap names; /* base names mapped already */
	bool only_missing; /* other processes' files: only names the targets lack */
	struct hmap *have;
};

static void add_dir(struct scan *c, const char *dir, size_t len)
{
	void *p = realloc(c->dirs, (c->n_dirs + 1) * sizeof(*c->dirs));
	char *copy = p ? strndup(dir, len) : NULL;

	if (p)
		c->dirs = p;
	if (copy)
		c->dirs[c->n_dirs++] = copy;
}

/* Directories of a RUNPATH, $ORIGIN replaced. */
static void add_runpath(struct scan *c, const char *list, const char *file)
{
	const char *slash = strrchr(file, '/');
	size_t origin = slash ? (size_t)(slash - file) : 0;

	while (list && *list) {
		size_t n = strcspn(list, ":"), skip = 0;
		char dir[PATH_MAX];
		int m;

		if (strncmp(list, "$ORIGIN", 7) == 0)
			skip = 7;
		else if (strncmp(list, "${ORIGIN}", 9) == 0)
			skip = 9;
		m = skip ? snprintf(dir, sizeof(dir), "%.*s%.*s", (int)origin, file,
				    (int)(n - skip), list + skip)
			 : snprintf(dir, sizeof(dir), "%.*s", (int)n, list);
		if (m > 0 && m < (int)sizeof(dir) && dir[0] == '/')
			add_dir(c, dir, (size_t)m);
		list += n + (list[n] == ':');
	}
}

static void probe_fd(struct scan *c, int fd, const char *path)
{
	int r = prober__add(c->s->prober, fd, path, c->pid);

	if (r > 0)
		c->added++;
	else if (r < 0)
		pr_warn("%s (pid %d): cannot be probed: %s", path, (int)c->pid, strerror(-r));
}

static int on_mapping(void *ctx, const struct mapping *m)
{
	struct scan *c = ctx;
	const char *base = base_name(m->path);
	struct elf_image *img;
	bool wanted = catalogue__wants(base) && !path__is_stub(m->path);
	struct hkey k = { hash__bytes(base, strlen(base), 0), 0 };
	int fd;

	if (m->ino == c->last_ino)
		return 0;
	c->last_ino = m->ino;
	if (c->only_missing && (!wanted || hmap__get(c->have, k)))
		return 0;
	fd = mapping__open(c->pid, m);
	if (fd < 0)
		return 0;
	if (wanted) {
		c->mapped++;
		hmap__put(&c->names, k, NULL);
		probe_fd(c, fd, m->path);
	}
	if (!c->only_missing && !elf_image__open_fd(fd, m->path, &img)) {
		add_runpath(c, elf_image__runpath(img), m->path);
		elf_image__close(img);
	}
	close(fd);
	return 0;
}

static int on_candidate(void *ctx, pid_t pid, const char *path)
{
	struct scan *c = ctx;
	int fd = proc__open(pid, path);

	if (fd < 0)
		return 0;
	c->ahead++;
	probe_fd(c, fd, path);
	close(fd);
	return 0;
}

static void scan__free(struct scan *c)
{
	size_t i;

	for (i = 0; i < c->n_dirs; i++)
		free(c->dirs[i]);
	free(c->dirs);
	hmap__free(&c->names);
}

/* Everything that a process has mapped or could load. 0 or -errno. */
static int scan_process(struct scan *c)
{
	const char *const *libs;
	size_t n;
	int err = proc__each_mapping(c->pid, on_mapping, c);

	if (err < 0)
		return err;
	libs = catalogue__libs(&n);
	proc__each_candidate(c->pid, libs, n, (const char *const *)c->dirs, c->n_dirs, on_candidate,
			     c);
	return 0;
}

/* A command that has not begun yet: its file, by the rules of execvp(3). */
static void scan_command(struct scan *c, const char *name)
{
	const char *list = getenv("PATH");
	char path[PATH_MAX];
	struct elf_image *img;

	if (strchr(name, '/')) {
		if (!realpath(name, path))
			return;
	} else {
		for (;; list++) {
			size_t n = list ? strcspn(list, ":") : 0;

			if (!list || (size_t)snprintf(path, sizeof(path), "%.*s/%s", (int)n, list,
						      name) >= sizeof(path))
				return;
			if (!access(path, X_OK))
				break;
			list += n;
			if (!*list)
				return;
		}
	}
	if (elf_image__open(path, &img))
		return; /* a script: its interpreter is seen when it starts */
	add_runpath(c, elf_image__runpath(img), path);
	elf_image__close(img);
}

/* ---- the initial set ---- */

static int by_name(void *ctx, pid_t pid)
{
	struct session *s = ctx;
	size_t i;

	if (pid == getpid())
		return 0;
	for (i = 0; i < s->opts.n_names; i++)
		if (proc__named(pid, s->opts.names[i])) {
			int err = add_target(s, pid);

			if (err && err != -ESRCH)
				return err;
			break;
		}
	return 0;
}

static int by_cgroup(void *ctx, pid_t pid)
{
	int err = pid == getpid() ? 0 : add_target(ctx, pid);

	return err == -ESRCH ? 0 : err;
}

int session__find_targets(struct session *s)
{
	size_t i;
	int err;

	for (i = 0; i < s->opts.n_pids; i++) {
		err = add_target(s, s->opts.pids[i]);
		if (err == -ESRCH) {
			pr_err("pid %d: no such process", (int)s->opts.pids[i]);
			return err;
		}
		if (err) {
			pr_err("pid %d: %s", (int)s->opts.pids[i], strerror(-err));
			return err;
		}
	}
	if (s->opts.n_names) {
		size_t before = s->n_targets;

		err = proc__each(by_name, s);
		if (err)
			return err;
		if (s->n_targets == before)
			pr_info("no process is named '%s' yet: waiting for one", s->opts.names[0]);
	}
	if (s->opts.cgroup) {
		err = cgroup__each(s->opts.cgroup, by_cgroup, s);
		if (err) {
			pr_err("cgroup %s: %s", s->opts.cgroup, strerror(-err));
			return err;
		}
		uint64_t id = 0;

		err = cgroup__id(s->opts.cgroup, &id, &s->cfg.cgroup_level);
		s->cfg.cgroup_id = id;
		if (err)
			pr_warn("cgroup %s: only its present processes and their children are "
				"traced: %s",
				s->opts.cgroup,
				err == -ENODEV ? "it is a cgroup of version 1" : strerror(-err));
	}
	return 0;
}

/* Makes the child of `-- CMD`, which waits for its probes before it executes. */
int session__spawn(struct session *s)
{
	int p[2], err;
	pid_t pid;

	/* The end of the child closes when it executes; before that it may say why not. */
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p))
		return -errno;
	pid = fork();
	if (pid < 0) {
		err = -errno;
		close(p[0]);
		close(p[1]);
		return err;
	}
	if (!pid) {
		sigset_t none;
		char c;

		close(p[1]);
		if (read(p[0], &c, 1) != 1)
			_exit(127);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execvp(s->opts.cmd[0], s->opts.cmd);
		err = errno;
		if (write(p[0], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(127);
	}
	close(p[0]);
	s->child = pid;
	s->child_go = p[1];
	return add_target(s, pid);
}

/* Lets it execute. 0, or -errno when there is no such program. */
int session__release(struct session *s)
{
	int err = 0;

	if (s->child_go <= 0)
		return 0;
	if (write(s->child_go, "g", 1) != 1)
		err = errno;
	else if (read(s->child_go, &err, sizeof(err)) < 0)
		err = errno;
	close(s->child_go);
	s->child_go = -1;
	if (err)
		pr_err("%s: %s", s->opts.cmd[0], strerror(err));
	return -err;
}

/* ---- probing them ---- */

static int refuse(struct session *s, pid_t pid, const char *why)
{
	char comm[16] = "?";

	(void)s;
	proc__comm(pid, comm);
	pr_err("pid %d (%s): %s", (int)pid, comm, why);
	return -ENOEXEC;
}

struct everyone {
	struct session *s;
	struct hmap *have;
	bool only_missing;
};

static int scan_other(void *ctx, pid_t pid)
{
	struct everyone *e = ctx;
	struct scan c = { .s = e->s, .pid = pid, .only_missing = e->only_missing, .have = e->have };
	struct mt_target t;

	if (pid == getpid() || (e->only_missing && is_target(e->s, pid, &t)))
		return 0;
	if (e->only_missing) {
		proc__each_mapping(pid, on_mapping, &c);
	} else {
		/* Everything mapped anywhere; what could be loaded only for NPU processes. */
		proc__each_mapping(pid, on_mapping, &c);
		if (c.mapped)
			scan_process(&c);
	}
	scan__free(&c);
	return 0;
}

int session__probe_targets(struct session *s)
{
	struct everyone all = { .s = s };
	struct hmap have = { 0 };
	uint32_t key, *prev = NULL;
	size_t n_libs;
	char why[700];
	const char *const *libs = catalogue__libs(&n_libs);
	int err = 0;

	while (!bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		struct scan c = { .s = s, .pid = (pid_t)key };
		struct hkey k;
		size_t pos = 0;

		prev = &key;
		if (c.pid == s->child)
			scan_command(&c, s->opts.cmd[0]);
		err = scan_process(&c);
		while (hmap__next(&c.names, &pos, &k, NULL))
			hmap__put(&have, k, NULL);
		if (err == -EACCES || err == -EPERM) {
			refuse(s, c.pid,
			       "its mappings may not be read; needs CAP_SYS_PTRACE (man memtap, "
			       "CAPABILITIES)");
		} else if (!err && !c.mapped && !c.ahead && s->opts.n_pids && !s->t_attached) {
			if (proc__has_program(c.pid))
				snprintf(why, sizeof(why),
					 "not an NPU process: none of %s is mapped or found where "
					 "it "
					 "would look",
					 catalogue__libs_text());
			else
				snprintf(why, sizeof(why), "has ended, or is a kernel thread");
			err = refuse(s, c.pid, why);
		} else if (!err && !c.mapped && s->opts.n_pids && !s->t_attached) {
			pr_info("pid %d has no NPU library mapped yet: %zu files are probed ahead",
				(int)c.pid, c.ahead);
		}
		scan__free(&c);
		if (err && err != -ESRCH)
			goto out;
		err = 0;
	}
	all.have = &have;
	all.only_missing = !s->opts.all;
	proc__each(scan_other, &all);
	if (s->opts.all && !prober__file(s->prober, 0)) {
		/* Nobody yet: where the first one would load from. */
		struct scan c = { .s = s, .pid = getpid() };

		proc__each_candidate(c.pid, libs, n_libs, NULL, 0, on_candidate, &c);
		scan__free(&c);
	}
out:
	hmap__free(&have);
	return err;
}

/* ---- later: new mappings ---- */

static void note_late(struct session *s, const char *path, pid_t pid, uint64_t gap)
{
	void *p = realloc(s->late, (s->n_late + 1) * sizeof(*s->late));

	pr_warn("%s: mapped by pid %d without notice: probed %.1f ms later, calls before are "
		"missing",
		path, (int)pid, (double)gap / 1e6);
	if (!p)
		return;
	s->late = p;
	s->late[s->n_late++] = (struct late_lib){ strdup(path), pid, gap };
}

/* Notices of new mappings were lost: what they told of must be looked for. */
void session__rescan(struct session *s)
{
	const struct probed_file *f;
	size_t before = 0, i;

	while (prober__file(s->prober, before))
		before++;
	session__probe_targets(s);
	for (i = before; (f = prober__file(s->prober, i)); i++)
		if (f->attached && f->attach_time > s->t_attached)
			note_late(s, f->path, 0, f->attach_time - s->t_attached);
}

/* The dynamic linker is mapped once an exec: a new program has begun. */
static bool is_linker(const char *base)
{
	return strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld-musl", 7) == 0 ||
	       fnmatch("ld-[0-9]*.so", base, 0) == 0;
}

static int same_pid(void *ctx, pid_t pid)
{
	return *(pid_t *)ctx == pid;
}

/* A process that has entered the cgroup since the start. */
static bool in_cgroup(struct session *s, pid_t pid)
{
	return s->opts.cgroup && cgroup__each(s->opts.cgroup, same_pid, &pid) == 1;
}

void session__on_map(void *ctx, const struct map_event *e)
{
	struct session *s = ctx;
	const char *base = base_name(e->path);
	struct scan c = { .s = s, .pid = e->pid };
	struct mapping m;
	struct mt_target t;
	const struct probed_file *f;
	bool wanted, ours;
	int fd;

	if (e->pid == getpid() || e->path[0] != '/')
		return;
	wanted = catalogue__wants(base) && !path__is_stub(e->path);
	if (!wanted && !is_linker(base))
		return;
	ours = is_target(s, e->pid, &t);
	if (!wanted) {
		size_t i;

		for (i = 0; !ours && i < s->opts.n_names; i++)
			if (proc__named(e->pid, s->opts.names[i]))
				ours = !add_target(s, e->pid);
		if (ours || s->opts.all)
			scan_process(&c);
		scan__free(&c);
		return;
	}
	if (!ours && !s->opts.all && !in_cgroup(s, e->pid))
		return;
	m = (struct mapping){ .start = e->start, .end = e->start + e->len, .path = e->path };
	fd = mapping__open(e->pid, &m);
	if (fd < 0)
		return;
	prober__add(s->prober, fd, e->path, e->pid);
	f = prober__file_of(s->prober, fd);
	if (f && f->segments)
		session__segments_of(s, e->pid, f);
	/* Now, or while its program was being looked through: later than it was mapped. */
	if (f && f->attached && s->t_attached && e->time > s->t_attached &&
	    f->attach_time > e->time)
		note_late(s, e->path, e->pid, f->attach_time - e->time);
	close(fd);
}

bool session__alive(struct session *s)
{
	uint32_t key;
	int status;

	if (s->child && !s->child_done && waitpid(s->child, &status, WNOHANG) == s->child) {
		s->child_done = true;
		s->child_status = status;
	}
	if (s->opts.all || s->opts.cgroup || s->opts.n_names)
		return true;
	/* The programs take a process out of the set when its last thread is gone. */
	return !bpf_map_get_next_key(s->targets_fd, NULL, &key);
}
