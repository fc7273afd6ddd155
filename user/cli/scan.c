// SPDX-License-Identifier: Apache-2.0
/* Files of one process: mapped ones, and those that it could load. */
#include "cli/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Mapped since notices are missing, by a process that is traced. */
static void note_if_late(struct scan *c, int fd, const char *path)
{
	const struct probed_file *f = prober__file_of(c->s->prober, fd);

	if (f && f->attached && f->attach_time > c->s->rescan_began &&
	    session__traces(c->s, c->pid))
		session__note_late(c->s, f, path, c->pid, c->s->rescan_since);
}

int scan__mapping(void *ctx, const struct mapping *m)
{
	struct scan *c = ctx;
	const char *base = path_base(m->path);
	struct elf_image *img;
	bool wanted = catalogue__wants(base) && !path__is_stub(m->path);
	struct hkey k = { hash__bytes(base, strlen(base), 0), 0 };
	int fd;

	if (session__interrupted(c->s))
		return -EINTR;
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
		if (c->s->rescan_since)
			note_if_late(c, fd, m->path);
	}
	if (!c->only_missing && !elf_image__open_fd(fd, m->path, &img)) {
		add_runpath(c, elf_image__runpath(img), m->path);
		elf_image__close(img);
	}
	close(fd);
	return 0;
}

int scan__candidate(void *ctx, pid_t pid, const char *path)
{
	struct scan *c = ctx;
	int fd = session__interrupted(c->s) ? -EINTR : proc__open(pid, path);

	if (fd == -EINTR)
		return fd;
	if (fd < 0)
		return 0;
	c->ahead++;
	probe_fd(c, fd, path);
	close(fd);
	return 0;
}

void scan__free(struct scan *c)
{
	size_t i;

	for (i = 0; i < c->n_dirs; i++)
		free(c->dirs[i]);
	free(c->dirs);
	hmap__free(&c->names);
}

/* Everything that a process has mapped or could load. 0 or -errno. */
int scan__process(struct scan *c)
{
	const char *const *libs;
	size_t n;
	int err = proc__each_mapping(c->pid, scan__mapping, c);

	if (err < 0)
		return err;
	libs = catalogue__libs(&n);
	return proc__each_candidate(c->pid, libs, n, (const char *const *)c->dirs, c->n_dirs,
				    scan__candidate, c);
}

/* A command that has not begun yet: its file, by the rules of execvp(3). */
void scan__command(struct scan *c, const char *name)
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
