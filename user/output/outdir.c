// SPDX-License-Identifier: Apache-2.0
/*
 * The output folder: DIR/dump and DIR/trace, names after local time, files
 * that nobody else can have put there.
 */
#include "output/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A second is taken only by other runs into the same folder. */
#define MAX_BUMP 3600

int outdir__open(struct outdir *d, const char *dir)
{
	int err;

	memset(d, 0, sizeof(*d));
	d->dump_fd = d->trace_fd = -1;
	d->made = access(dir, F_OK) && errno == ENOENT;
	err = path__mkdirs(dir);
	if (err)
		goto fail;
	d->path = realpath(dir, NULL);
	if (!d->path) {
		err = -errno;
		goto fail;
	}
	if (access(d->path, W_OK | X_OK)) {
		err = -errno;
		goto fail;
	}
	return 0;
fail:
	pr_err("cannot write into %s: %s", dir, strerror(-err));
	outdir__close(d);
	return err;
}

/* Of a run that failed. What others have put there keeps it. */
static void remove_empty(const struct outdir *d)
{
	static const char *const subs[] = { "/dump", "/trace", "" };
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(subs); i++)
		if ((size_t)snprintf(path, sizeof(path), "%s%s", d->path, subs[i]) < sizeof(path))
			rmdir(path);
}

void outdir__close(struct outdir *d)
{
	size_t i;

	if (d->made && d->path && !d->n_paths)
		remove_empty(d);
	if (d->dump_fd >= 0)
		close(d->dump_fd);
	if (d->trace_fd >= 0)
		close(d->trace_fd);
	for (i = 0; i < d->n_paths; i++)
		free(d->paths[i]);
	free(d->paths);
	free(d->path);
	memset(d, 0, sizeof(*d));
	d->dump_fd = d->trace_fd = -1;
}

/* Opened without following a link, so that names below it are ours. */
static int open_sub(struct outdir *d, const char *sub)
{
	int *fd = *sub == 'd' ? &d->dump_fd : &d->trace_fd;
	char path[PATH_MAX];

	if (*fd >= 0)
		return *fd;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", d->path, sub) >= sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0750) && errno != EEXIST)
		goto fail;
	*fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return *fd;
fail:
	*fd = -1;
	pr_err("cannot use the folder %s: %s", path, strerror(errno));
	return -errno;
}

static bool is_taken(int dirfd, const char *const *taken, const char *ts)
{
	char name[NAME_MAX + 1];
	struct stat st;

	for (; taken && *taken; taken++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(name, sizeof(name), *taken, ts);
#pragma GCC diagnostic pop
		if (!fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) || errno != ENOENT)
			return true;
	}
	return false;
}

int outdir__create(struct outdir *d, const char *sub, const char *stem, const char *ext,
		   const char *const *taken, char ts[16])
{
	int dirfd = open_sub(d, sub), fd, i, err;
	time_t t = time(NULL);
	char name[NAME_MAX + 1];
	struct tm tm;

	if (dirfd < 0)
		return dirfd;
	for (i = 0; i < MAX_BUMP; i++, t++) {
		localtime_r(&t, &tm);
		if (!strftime(ts, 16, "%Y%m%d%H%M%S", &tm))
			return -EOVERFLOW;
		if (is_taken(dirfd, taken, ts))
			continue;
		snprintf(name, sizeof(name), "%s%s%s", stem, ts, ext);
		fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			/* Tells recovery that this file has a living writer. */
			(void)flock(fd, LOCK_EX | LOCK_NB);
			return fd;
		}
		if (errno != EEXIST) {
			err = -errno;
			pr_err("cannot create %s/%s/%s: %s", d->path, sub, name, strerror(-err));
			return err;
		}
	}
	pr_err("no free name for %s*%s in %s/%s", stem, ext, d->path, sub);
	return -EEXIST;
}

int outdir__note(struct outdir *d, const char *sub, const char *name)
{
	char **p = realloc(d->paths, (d->n_paths + 2) * sizeof(*p));

	if (!p)
		return -ENOMEM;
	d->paths = p;
	if (asprintf(&p[d->n_paths], "%s/%s/%s", d->path, sub, name) < 0) {
		p[d->n_paths] = NULL;
		return -ENOMEM;
	}
	p[++d->n_paths] = NULL;
	return 0;
}
