// SPDX-License-Identifier: Apache-2.0
/*
 * Files that a process could load later. A uprobe belongs to the file and takes
 * effect at mmap, so a library probed before it is loaded loses no call.
 *
 * Everything is looked at as the process sees it (root.h). What it names may be
 * hostile: lists without end, directories that hold millions of files.
 */
#include "target/finder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/ldpath.h"
#include "target/root.h"

#define MAX_DIRS 4096 /* a large Python environment with CANN names some hundred */
#define MAX_ASKED 65536 /* the same ones again and again */
#define MAX_ENTRIES 2000000 /* of all directories: some 2 s */

int finder__open(pid_t pid, const char *const *names, size_t n_names, struct finder **out)
{
	struct finder *f = calloc(1, sizeof(*f));
	int err;

	*out = NULL;
	if (!f)
		return -ENOMEM;
	f->pid = pid;
	f->names = names;
	f->n_names = n_names;
	f->root = root__of(pid);
	if (f->root < 0) {
		err = f->root;
		free(f);
		return err;
	}
	if (root__link(pid, "cwd", f->cwd))
		f->cwd[0] = '\0';
	if (root__link(pid, "exe", f->exe))
		f->exe[0] = '\0';
	*out = f;
	return 0;
}

void finder__close(struct finder *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->n_dirs; i++)
		free(f->dirs[i]);
	free(f->dirs);
	free(f->trouble);
	hmap__free(&f->seen);
	hmap__free(&f->listed);
	close(f->root);
	free(f);
}

void finder__note(struct finder *f, const char *path, int err)
{
	const char *what = err == -ENOSPC   ? "too many places to look through"
			   : err == -ENOMEM ? "out of memory"
					    : "may not be read; needs CAP_DAC_READ_SEARCH "
					      "(man memtap, CAPABILITIES)";

	/* What is not there, or in a loop, the process cannot load either. */
	if (err != -ENOSPC && err != -ENOMEM && err != -EACCES && err != -EPERM)
		return;
	pr_debug("%s (pid %d): %s", path, (int)f->pid, what);
	if (!f->trouble && asprintf(&f->trouble, "%s: %s", path, what) < 0)
		f->trouble = NULL;
}

const char *finder__trouble(const struct finder *f)
{
	return f->trouble;
}

/* ---- the queue ---- */

int finder__dir(struct finder *f, const char *name)
{
	size_t n = strlen(name);
	char *dir;
	bool fresh;
	void *p;

	while (n > 1 && name[n - 1] == '/')
		n--;
	if (name[0] != '/' || n >= PATH_MAX)
		return 0;
	if (f->n_dirs >= MAX_DIRS || f->asked++ >= MAX_ASKED) {
		finder__note(f, name, -ENOSPC);
		return -ENOSPC;
	}
	if (!hmap__put(&f->seen, (struct hkey){ hash__bytes(name, n, 0), 0 }, &fresh))
		return -ENOMEM;
	if (!fresh)
		return 0;
	p = realloc(f->dirs, (f->n_dirs + 1) * sizeof(*f->dirs));
	dir = p ? strndup(name, n) : NULL;
	if (p)
		f->dirs = p;
	if (!dir) {
		finder__note(f, name, -ENOMEM);
		return -ENOMEM;
	}
	f->dirs[f->n_dirs++] = dir;
	return 0;
}

bool finder__entry(struct finder *f, const char *dir)
{
	if (f->entries++ < MAX_ENTRIES)
		return true;
	finder__note(f, dir, -ENOSPC);
	return false;
}

static int queue_dir(void *ctx, const char *dir)
{
	return finder__dir(ctx, dir);
}

/* The folder of site-packages that a file lies in: its neighbours may come next. */
static void add_site_of(struct finder *f, const char *path)
{
	static const char *const names[] = { "/site-packages/", "/dist-packages/" };
	char dir[PATH_MAX];
	size_t i, n;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++) {
		const char *p = strstr(path, names[i]);

		n = p ? (size_t)(p - path) + strlen(names[i]) - 1 : 0;
		if (!n || n >= sizeof(dir))
			continue;
		memcpy(dir, path, n);
		dir[n] = '\0';
		finder__site(f, dir);
	}
}

void finder__file(struct finder *f, const char *path, const char *runpath)
{
	char origin[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct ldpath how = { ":", f->cwd, origin, true };

	add_site_of(f, path);
	if (!runpath || !slash || (size_t)(slash - path) >= sizeof(origin))
		return;
	memcpy(origin, path, (size_t)(slash - path));
	origin[slash - path] = '\0';
	ldpath__each(runpath, &how, queue_dir, f);
}

/* ---- what a file needs ---- */

static bool wanted(const struct finder *f, const char *base)
{
	size_t i;

	for (i = 0; i < f->n_names; i++)
		if (fnmatch(f->names[i], base, FNM_EXTMATCH) == 0)
			return true;
	return false;
}

/*
 * lib/../lib is lib: a RUNPATH of $ORIGIN/../lib would lead on and on. A directory
 * that is mounted in two places may hold other mounts there.
 */
static bool is_listed(struct finder *f, int fd)
{
	struct statx st;
	uint64_t id[4];
	bool fresh = true;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &st))
		return false;
	id[0] = st.stx_dev_major;
	id[1] = st.stx_dev_minor;
	id[2] = st.stx_ino;
	id[3] = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
	hmap__put(&f->listed, (struct hkey){ hash__bytes(id, sizeof(id), 0), id[2] }, &fresh);
	return !fresh;
}

struct needing {
	struct finder *f;
	const char *name;
	finder_fn fn;
	void *ctx;
};

/* In this directory? Then it is looked for in no other one. */
static int needed_in(void *ctx, const char *dir)
{
	struct needing *x = ctx;
	char path[PATH_MAX];
	struct hkey k;
	int fd;

	if (x->f->asked++ >= MAX_ASKED) {
		finder__note(x->f, dir, -ENOSPC);
		return 1;
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, x->name) >= sizeof(path))
		return 0;
	/* Apart from the directories, which may have the same names. */
	k = (struct hkey){ hash__bytes(path, strlen(path), 1), 1 };
	if (hmap__get(&x->f->seen, k))
		return 1;
	fd = root__open_file(x->f->root, path);
	if (fd < 0)
		return 0;
	hmap__put(&x->f->seen, k, NULL);
	if (!is_listed(x->f, fd))
		x->fn(x->ctx, x->f->pid, path, fd);
	close(fd);
	return 1;
}

void finder__needed(struct finder *f, const char *path, const char *runpath, const char *name,
		    finder_fn fn, void *ctx)
{
	struct needing x = { f, name, fn, ctx };
	char origin[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct ldpath how = { ":", f->cwd, origin, true };

	/* What is wanted is found with all of its directory. */
	if (!runpath || !slash || (size_t)(slash - path) >= sizeof(origin) || strchr(name, '/') ||
	    wanted(f, name))
		return;
	memcpy(origin, path, (size_t)(slash - path));
	origin[slash - path] = '\0';
	ldpath__each(runpath, &how, needed_in, &x);
}

bool finder__is_program(const struct finder *f, const char *path)
{
	return !strcmp(f->exe, path);
}

/* ---- listing ---- */

/* Every wanted file of one directory. */
static int list(struct finder *f, const char *dir, finder_fn fn, void *ctx)
{
	DIR *d = root__open_dir(f->root, dir);
	char path[PATH_MAX];
	struct dirent *e;
	int r = 0, fd;

	if (!d) {
		finder__note(f, dir, -errno);
		return 0;
	}
	if (is_listed(f, dirfd(d))) {
		closedir(d);
		return 0;
	}
	while (!r && (e = readdir(d)) && finder__entry(f, dir)) {
		if (e->d_name[0] == '.' || e->d_type == DT_DIR || !wanted(f, e->d_name))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= sizeof(path) ||
		    path__is_stub(path))
			continue;
		fd = root__open_file(f->root, path);
		if (fd < 0) {
			finder__note(f, path, fd);
			continue;
		}
		r = fn(ctx, f->pid, path, fd);
		close(fd);
	}
	closedir(d);
	return r;
}

int finder__run(struct finder *f, finder_fn fn, void *ctx)
{
	int r = 0;

	finder__places(f);
	/* fn may add directories: the RUNPATH of what was found. */
	while (!r && f->next < f->n_dirs)
		r = list(f, f->dirs[f->next++], fn, ctx);
	return r;
}
