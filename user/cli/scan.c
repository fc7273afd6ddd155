// SPDX-License-Identifier: Apache-2.0
/* Files of one process: mapped ones, and those that it could load. */
#include "cli/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/later.h"

void scan__tell_unprobed(const char *path, pid_t pid, int err)
{
	pr_warn("%s (pid %d): cannot be probed: %s", path, (int)pid, elf__why(err));
}

static void probe_fd(struct scan *c, int fd, const char *path)
{
	int r = prober__add(c->prober, fd, path, c->pid);

	if (r > 0)
		c->added++;
	else if (r < 0)
		scan__tell_unprobed(path, c->pid, r);
}

static bool interrupted(struct scan *c)
{
	return c->s && session__interrupted(c->s);
}

#define MAX_DEPTH 16
#define MAX_NEEDED 256

static int follow_needed(void *ctx, pid_t pid, const char *path, int fd);

/* Where a file leads by its RUNPATH and, before it is started, by those of what it needs. */
static void follow_image(struct scan *c, const struct elf_image *img, const char *path, bool needs)
{
	const char *runpath = elf_image__runpath(img), *name;
	size_t i;

	finder__file(c->finder, path, runpath);
	if (!needs || !runpath || c->depth == MAX_DEPTH)
		return;
	c->depth++;
	for (i = 0; i < MAX_NEEDED && (name = elf_image__needed(img, i)); i++)
		finder__needed(c->finder, path, runpath, name, follow_needed, c);
	c->depth--;
}

static void follow(struct scan *c, int fd, const char *path, bool needs)
{
	struct elf_image *img;

	if (elf_image__open_fd(fd, path, &img))
		return;
	follow_image(c, img, path, needs);
	elf_image__close(img);
}

static int follow_needed(void *ctx, pid_t pid, const char *path, int fd)
{
	(void)pid;
	follow(ctx, fd, path, true);
	return 0;
}

/* Mapped since notices are missing, by a process that is traced. */
static void note_if_late(struct scan *c, int fd, const char *path)
{
	const struct probed_file *f = prober__file_of(c->prober, fd);

	if (f && f->attached && f->attach_time > c->s->rescan_began &&
	    session__traces(c->s, c->pid))
		session__note_late(c->s, f, path, c->pid, c->s->rescan_since);
}

int scan__mapping(void *ctx, const struct mapping *m)
{
	struct scan *c = ctx;
	const char *base = path_base(m->path);
	bool wanted = catalogue__wants(base) && !path__is_stub(m->path);
	struct hkey k = { hash__bytes(base, strlen(base), 0), 0 };
	const struct probed_file *f;
	int fd;

	if (interrupted(c))
		return -EINTR;
	if (m->ino == c->last_ino && m->dev_major == c->last_dev[0] &&
	    m->dev_minor == c->last_dev[1])
		return 0;
	c->last_ino = m->ino;
	c->last_dev[0] = m->dev_major;
	c->last_dev[1] = m->dev_minor;
	if (c->only_missing && (!wanted || hmap__get(c->have, k)))
		return 0;
	fd = mapping__open(c->pid, m);
	if (fd < 0) {
		/* `record` looks at what could not be probed when all is attached. */
		if (wanted && !c->s)
			pr_warn("%s (pid %d): mapped, but cannot be opened: %s; needs "
				"CAP_CHECKPOINT_RESTORE (man memtap, CAPABILITIES)",
				m->path, (int)c->pid, strerror(-fd));
		return 0;
	}
	if (wanted) {
		c->mapped++;
		/* When notices were lost all processes are scanned, also others. */
		if (c->s && (c->s->opts.all || c->s->t_attached) && session__traces(c->s, c->pid))
			callstack__mapped(c->s, c->pid);
		hmap__put(&c->names, k, NULL);
		probe_fd(c, fd, m->path);
		if (c->s && c->s->rescan_since)
			note_if_late(c, fd, m->path);
		f = prober__file_of(c->prober, fd);
		if (c->s && f && !c->only_missing)
			later__mapped(c->s, f, c->pid);
	}
	/* What it needs is mapped as well, unless it is just being started. */
	if (c->finder && !m->outside)
		follow(c, fd, m->path, finder__is_program(c->finder, m->path));
	close(fd);
	return 0;
}

static int on_file(void *ctx, pid_t pid, const char *path, int fd)
{
	struct scan *c = ctx;
	const char *base = path_base(path);

	(void)pid;
	if (interrupted(c))
		return -EINTR;
	c->ahead++;
	hmap__put(&c->names, (struct hkey){ hash__bytes(base, strlen(base), 0), 0 }, NULL);
	probe_fd(c, fd, path);
	follow(c, fd, path, true);
	return 0;
}

void scan__free(struct scan *c)
{
	finder__close(c->finder);
	hmap__free(&c->names);
}

/* A command that has not begun yet: its file, by the rules of execvp(3). */
static void follow_command(struct scan *c)
{
	const char *list = getenv("PATH"), *name = c->command;
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
	follow_image(c, img, path, true);
	elf_image__close(img);
}

/* For all processes once: what one could not look through, others cannot either. */
static void tell(struct scan *c, const char *trouble)
{
	bool fresh = true;

	if (c->s)
		hmap__put(&c->s->told, (struct hkey){ hash__bytes(trouble, strlen(trouble), 0), 0 },
			  &fresh);
	if (fresh)
		pr_warn("%s; libraries that pid %d loads from there are probed only when they are "
			"mapped",
			trouble, (int)c->pid);
}

static int search(struct scan *c)
{
	const char *const *libs;
	size_t n;

	libs = catalogue__libs(&n);
	return finder__open(c->pid, libs, n, &c->finder);
}

/* `err` is of the search: there is no finder then. 0 or -EINTR. */
static int run(struct scan *c, int err)
{
	if (err && err != -ESRCH)
		pr_warn("pid %d: its root directory cannot be entered: %s; libraries that it loads "
			"later are probed only when they are mapped%s",
			(int)c->pid, strerror(-err),
			err == -EACCES ? "; needs CAP_SYS_PTRACE (man memtap, CAPABILITIES)" : "");
	if (err)
		return 0;
	if (c->command)
		follow_command(c);
	err = finder__run(c->finder, on_file, c);
	if (finder__trouble(c->finder))
		tell(c, finder__trouble(c->finder));
	return err;
}

int scan__ahead(struct scan *c)
{
	return run(c, search(c));
}

int scan__process(struct scan *c)
{
	int search_err = search(c), err = proc__each_mapping(c->pid, scan__mapping, c);

	return err < 0 ? err : run(c, search_err);
}

bool process__is_static(pid_t pid)
{
	struct elf_image *img;
	char path[64];
	bool yes;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (elf_image__open(path, &img))
		return false;
	yes = !elf_image__interp(img);
	elf_image__close(img);
	return yes;
}
