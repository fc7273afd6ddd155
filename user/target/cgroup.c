// SPDX-License-Identifier: Apache-2.0
/* cgroups as a way to name a group of processes. */
#include "target/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/base.h"

#define CGROUP2_MAGIC 0x63677270 /* linux/magic.h CGROUP2_SUPER_MAGIC */
#define MAX_DEPTH 32

static int resolve(const char *path, char out[PATH_MAX])
{
	struct stat st;

	if (path[0] == '/')
		snprintf(out, PATH_MAX, "%s", path);
	else
		snprintf(out, PATH_MAX, "/sys/fs/cgroup/%s", path);
	if (stat(out, &st))
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int each_below(const char *dir, int depth, int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	char path[PATH_MAX], *buf, *p, *end;
	struct dirent *e;
	int r = 0;
	DIR *d;

	if (depth > MAX_DEPTH || snprintf(path, sizeof(path), "%s/cgroup.procs", dir) >= PATH_MAX)
		return 0;
	if (file__read(path, 16u << 20, &buf) >= 0) {
		for (p = buf; !r && *p; p = end) {
			long pid = strtol(p, &end, 10);

			if (end == p)
				break;
			if (pid > 0)
				r = fn(ctx, (pid_t)pid);
		}
		free(buf);
	}
	d = opendir(dir);
	if (!d)
		return r;
	while (!r && (e = readdir(d))) {
		if (e->d_type == DT_DIR && e->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < PATH_MAX)
			r = each_below(path, depth + 1, fn, ctx);
	}
	closedir(d);
	return r;
}

int cgroup__each(const char *path, int (*fn)(void *ctx, pid_t pid), void *ctx)
{
	char dir[PATH_MAX];
	int err = resolve(path, dir);

	return err ? err : each_below(dir, 0, fn, ctx);
}

int cgroup__id(const char *path, uint64_t *id)
{
	char dir[PATH_MAX];
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + 8];
	} fh = { .h.handle_bytes = 8 };
	struct statfs fs;
	int mnt, err = resolve(path, dir);

	if (err)
		return err;
	if (statfs(dir, &fs))
		return -errno;
	if (fs.f_type != CGROUP2_MAGIC)
		return -ENODEV;
	/* The 8-byte handle of a cgroup directory is the id BPF sees (kernfs, 5.5). */
	if (name_to_handle_at(AT_FDCWD, dir, &fh.h, &mnt, 0))
		return -errno;
	memcpy(id, fh.h.f_handle, 8);
	return 0;
}
