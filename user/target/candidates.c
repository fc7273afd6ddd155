// SPDX-License-Identifier: Apache-2.0
/*
 * Files that a process could load later. A uprobe belongs to the file and takes
 * effect at mmap, so a library probed before it is loaded loses no call.
 */
#include "target/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "target/ldcache.h"

struct search {
	pid_t pid;
	const char *const *names;
	size_t n_names;
	int (*fn)(void *ctx, pid_t pid, const char *path);
	void *ctx;
	struct hmap seen; /* directories already listed */
	int r;
};

static bool wanted(const struct search *s, const char *base)
{
	size_t i;

	for (i = 0; i < s->n_names; i++)
		if (fnmatch(s->names[i], base, FNM_EXTMATCH) == 0)
			return true;
	return false;
}

/* Every wanted file of one directory, path as the process sees it. */
static void scan_dir(struct search *s, const char *name)
{
	char path[PATH_MAX + 32], dir[PATH_MAX];
	struct dirent *e;
	size_t n = strlen(name);
	bool fresh;
	DIR *d;

	while (n > 1 && name[n - 1] == '/')
		n--;
	if (s->r || name[0] != '/' || n >= sizeof(dir))
		return;
	memcpy(dir, name, n);
	dir[n] = '\0';
	if (!hmap__put(&s->seen, (struct hkey){ hash__bytes(dir, strlen(dir), 0), 0 }, &fresh) ||
	    !fresh)
		return;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)s->pid, dir);
	d = opendir(path);
	if (!d)
		return;
	while (!s->r && (e = readdir(d))) {
		if (e->d_name[0] == '.' || e->d_type == DT_DIR || !wanted(s, e->d_name))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= sizeof(path) ||
		    path__is_stub(path))
			continue;
		s->r = s->fn(s->ctx, s->pid, path);
	}
	closedir(d);
}

static void scan_sub(struct search *s, const char *dir, const char *const *sub, size_t n)
{
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < n; i++)
		if ((size_t)snprintf(path, sizeof(path), "%s%s", dir, sub[i]) < sizeof(path))
			scan_dir(s, path);
}

/* LD_LIBRARY_PATH: ld.so(8) takes semicolons as well. */
static void scan_list(struct search *s, const char *list)
{
	char dir[PATH_MAX];

	while (list && *list) {
		size_t n = strcspn(list, ":;");

		if (n && n < sizeof(dir)) {
			memcpy(dir, list, n);
			dir[n] = '\0';
			scan_dir(s, dir);
		}
		list += n + (list[n] != '\0');
	}
}

static int from_cache(void *ctx, const char *name, const char *path)
{
	struct search *s = ctx;

	/* The file's whole directory: what lies beside it is found as well. */
	if (wanted(s, name)) {
		char dir[PATH_MAX];
		const char *slash = strrchr(path, '/');

		if (slash && (size_t)(slash - path) < sizeof(dir)) {
			memcpy(dir, path, (size_t)(slash - path));
			dir[slash - path] = '\0';
			scan_dir(s, dir);
		}
	}
	return s->r;
}

/* Below <ASCEND_HOME_PATH> and <Ascend>/driver (ascend-abi.md 1.1). */
static const char *const cann_sub[] = { "/lib64", "/runtime/lib64", "/x86_64-linux/lib64",
					"/aarch64-linux/lib64", "/lib" };
static const char *const ascend_sub[] = { "/driver/lib64",
					  "/driver/lib64/driver",
					  "/driver/lib64/common",
					  "/ascend-toolkit/latest/lib64",
					  "/ascend-toolkit/latest/runtime/lib64",
					  "/cann/lib64",
					  "/latest/lib64" };
/* Below site-packages: the frameworks' own libraries and the mstx module. */
static const char *const site_sub[] = { "",
					"/torch_npu/lib",
					"/torch_npu",
					"/torch/lib",
					"/mindspore/lib",
					"/mindspore/lib/plugin",
					"/mindspore/lib/plugin/ascend" };

static void scan_site(struct search *s, const char *dir)
{
	scan_sub(s, dir, site_sub, MT_ARRAY_SIZE(site_sub));
}

/* site-packages and dist-packages of each Python version below a prefix. */
static void scan_prefix(struct search *s, const char *prefix)
{
	static const char *const libs[] = { "/lib", "/lib64", "/local/lib" };
	char path[PATH_MAX + 64], dir[PATH_MAX];
	struct dirent *e;
	size_t i;
	DIR *d;

	for (i = 0; i < MT_ARRAY_SIZE(libs) && !s->r; i++) {
		snprintf(path, sizeof(path), "/proc/%d/root%s%s", (int)s->pid, prefix, libs[i]);
		d = opendir(path);
		if (!d)
			continue;
		while (!s->r && (e = readdir(d))) {
			if (strncmp(e->d_name, "python3", 7) != 0)
				continue;
			if (snprintf(dir, sizeof(dir), "%s%s/%s/site-packages", prefix, libs[i],
				     e->d_name) < (int)sizeof(dir))
				scan_site(s, dir);
			if (snprintf(dir, sizeof(dir), "%s%s/%s/dist-packages", prefix, libs[i],
				     e->d_name) < (int)sizeof(dir))
				scan_site(s, dir);
		}
		closedir(d);
	}
}

static void scan_python(struct search *s)
{
	char link[64], exe[PATH_MAX], *v, *p, *save = NULL, *buf;
	ssize_t n;

	v = proc__env(s->pid, "PYTHONPATH");
	for (p = v ? strtok_r(v, ":", &save) : NULL; p; p = strtok_r(NULL, ":", &save))
		scan_site(s, p);
	free(v);
	v = proc__env(s->pid, "VIRTUAL_ENV");
	if (v)
		scan_prefix(s, v);
	free(v);
	v = proc__env(s->pid, "HOME");
	if (v && snprintf(exe, sizeof(exe), "%s/.local", v) < (int)sizeof(exe))
		scan_prefix(s, exe);
	free(v);
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)s->pid);
	n = readlink(link, exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = '\0';
		p = strstr(exe, "/bin/");
		if (p) {
			*p = '\0';
			scan_prefix(s, exe);
		}
	}
	/* A virtual environment's python is a link: its prefix is only in argv[0]. */
	snprintf(link, sizeof(link), "/proc/%d/cmdline", (int)s->pid);
	if (file__read(link, 1u << 20, &buf) >= 0) {
		p = strstr(buf, "/bin/");
		if (buf[0] == '/' && p) {
			*p = '\0';
			scan_prefix(s, buf);
		}
		free(buf);
	}
}

int proc__each_candidate(pid_t pid, const char *const *names, size_t n_names,
			 const char *const *dirs, size_t n_dirs,
			 int (*fn)(void *ctx, pid_t pid, const char *path), void *ctx)
{
	static const char *const homes[] = { "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME" };
	static const char *const roots[] = { "/usr/local/Ascend", "/opt/Ascend" };
	static const char *const system[] = { "/lib", "/usr/lib", "/lib64", "/usr/lib64",
					      "/usr/local/lib" };
	struct search s = { .pid = pid, .names = names, .n_names = n_names, .fn = fn, .ctx = ctx };
	size_t i;
	char *v;

	for (i = 0; i < n_dirs; i++)
		scan_dir(&s, dirs[i]);
	v = proc__env(pid, "LD_LIBRARY_PATH");
	scan_list(&s, v);
	free(v);
	ldcache__each(pid, from_cache, &s);
	for (i = 0; i < MT_ARRAY_SIZE(system); i++)
		scan_dir(&s, system[i]);
	for (i = 0; i < MT_ARRAY_SIZE(homes); i++) {
		v = proc__env(pid, homes[i]);
		if (v)
			scan_sub(&s, v, cann_sub, MT_ARRAY_SIZE(cann_sub));
		free(v);
	}
	for (i = 0; i < MT_ARRAY_SIZE(roots); i++)
		scan_sub(&s, roots[i], ascend_sub, MT_ARRAY_SIZE(ascend_sub));
	scan_python(&s);
	hmap__free(&s.seen);
	return s.r;
}
