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
#define CGROUP_MAGIC 0x27e0eb /* CGROUP_SUPER_MAGIC */
#define MOUNT "/sys/fs/cgroup"
#define MAX_DEPTH 32

/* 1: version 1, 2: version 2, 0: no cgroup. */
static int version_of(const char *dir)
{
	struct statfs fs;

	if (statfs(dir, &fs))
		return 0;
	return fs.f_type == CGROUP2_MAGIC ? 2 : fs.f_type == CGROUP_MAGIC ? 1 : 0;
}

/*
 * A folder of the cgroup file system, or a path below where that is usually mounted,
 * as /proc/PID/cgroup has it. Anything else is refused: it would be walked through.
 */
static int resolve(const char *path, char out[PATH_MAX])
{
	static const char *const below[] = { "", MOUNT "/", MOUNT "/unified/" };
	bool exists = false;
	struct stat st;
	size_t i;

	for (i = path[0] == '/' ? 0 : 1; i < MT_ARRAY_SIZE(below); i++) {
		if (snprintf(out, PATH_MAX, "%s%s", below[i], path) >= PATH_MAX)
			return -ENAMETOOLONG;
		if (stat(out, &st))
			continue;
		exists = true;
		if (S_ISDIR(st.st_mode) && version_of(out))
			return 0;
	}
	return exists ? -EMEDIUMTYPE : -ENOENT;
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

static int same_pid(void *ctx, pid_t pid)
{
	return *(pid_t *)ctx == pid;
}

/*
 * Is dir the folder of a path below a mount, or above it? -1: there is no such folder, as where
 * only a part is mounted or the path leads out of our namespace.
 */
static int is_above(const char *dir, const char *mount, const char *path)
{
	char full[2 * PATH_MAX];
	size_t n = strlen(dir);
	struct stat st;

	snprintf(full, sizeof(full), "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
	if (strstr(path, "/..") || stat(full, &st))
		return -1;
	while (n > 1 && dir[n - 1] == '/')
		n--;
	return strncmp(full, dir, n) == 0 && (!full[n] || full[n] == '/');
}

/*
 * By the lines "id:controllers:path" of /proc/PID/cgroup, where the folder lies at a usual
 * mount. 1 or 0; -1 = it does not.
 */
static int told_by_proc(const char *dir, pid_t pid)
{
	char path[64], *text, *line, *save = NULL, *controllers, *where;
	int known = -1;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (file__read(path, 1 << 20, &text) < 0)
		return 0;
	for (line = strtok_r(text, "\n", &save); line && known < 1;
	     line = strtok_r(NULL, "\n", &save)) {
		char mount[PATH_MAX];
		size_t n;

		controllers = strchr(line, ':');
		where = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!where)
			continue;
		*where++ = '\0';
		controllers++;
		if (strncmp(controllers, "name=", 5) == 0)
			controllers += 5;
		if (*controllers)
			snprintf(mount, sizeof(mount), MOUNT "/%s", controllers);
		else
			snprintf(mount, sizeof(mount), "%s",
				 version_of(MOUNT) == 2 ? MOUNT : MOUNT "/unified");
		n = strlen(mount);
		if (strncmp(dir, mount, n) == 0 && (!dir[n] || dir[n] == '/'))
			known = is_above(dir, mount, where);
	}
	free(text);
	return known;
}

int cgroup__has(const char *path, pid_t pid)
{
	char dir[PATH_MAX];
	int r = resolve(path, dir);

	if (r)
		return r;
	r = told_by_proc(dir, pid);
	return r >= 0 ? r : each_below(dir, 0, same_pid, &pid);
}

int cgroup__id(const char *path, uint64_t *id)
{
	char dir[PATH_MAX];
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + 8];
	} fh = { .h.handle_bytes = 8 };
	int mnt, err = resolve(path, dir);

	if (err)
		return err;
	if (version_of(dir) != 2)
		return -ENODEV;
	/* The 8-byte handle of a cgroup directory is the id BPF sees (kernfs, 5.5). */
	if (name_to_handle_at(AT_FDCWD, dir, &fh.h, &mnt, 0))
		return -errno;
	memcpy(id, fh.h.f_handle, 8);
	return 0;
}
