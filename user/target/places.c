// SPDX-License-Identifier: Apache-2.0
/* Where a process would look for libraries: environment, system, CANN, Python. */
#include "target/finder.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/ldcache.h"
#include "target/ldpath.h"
#include "target/root.h"

/* ---- the dynamic linker ---- */

static int add_dir(void *ctx, const char *dir)
{
	return finder__dir(ctx, dir);
}

/* $ORIGIN in LD_LIBRARY_PATH is the folder of the program. */
static void add_library_path(struct finder *f)
{
	char origin[PATH_MAX], *slash, *v = proc__env(f->pid, "LD_LIBRARY_PATH");
	/* ld.so(8): colons or semicolons */
	struct ldpath how = { ":;", f->cwd, NULL, true };

	memcpy(origin, f->exe, sizeof(origin));
	slash = strrchr(origin, '/');
	if (slash) {
		*slash = '\0';
		how.origin = origin;
	}
	if (v)
		ldpath__each(v, &how, add_dir, f);
	free(v);
}

static int from_cache(void *ctx, const char *name, const char *path)
{
	struct finder *f = ctx;
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	size_t i;

	if (!slash || (size_t)(slash - path) >= sizeof(dir))
		return 0;
	for (i = 0; i < f->n_names; i++) {
		if (fnmatch(f->names[i], name, FNM_EXTMATCH) != 0)
			continue;
		/* The file's whole directory: what lies beside it is found as well. */
		memcpy(dir, path, (size_t)(slash - path));
		dir[slash - path] = '\0';
		return finder__dir(f, dir);
	}
	return 0;
}

static void add_below(struct finder *f, const char *dir, const char *const *sub, size_t n)
{
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < n; i++)
		if ((size_t)snprintf(path, sizeof(path), "%s%s", dir, sub[i]) < sizeof(path))
			finder__dir(f, path);
}

/* Below <ASCEND_HOME_PATH> and <Ascend>/driver (ascend-abi.md 1.1). */
static void add_cann(struct finder *f)
{
	static const char *const homes[] = { "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME" };
	static const char *const roots[] = { "/usr/local/Ascend", "/opt/Ascend" };
	static const char *const cann[] = { "/lib64", "/runtime/lib64", "/x86_64-linux/lib64",
					    "/aarch64-linux/lib64", "/lib" };
	static const char *const ascend[] = { "/driver/lib64",
					      "/driver/lib64/driver",
					      "/driver/lib64/common",
					      "/ascend-toolkit/latest/lib64",
					      "/ascend-toolkit/latest/runtime/lib64",
					      "/cann/lib64",
					      "/latest/lib64" };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(homes); i++) {
		char *v = proc__env(f->pid, homes[i]);

		if (v)
			add_below(f, v, cann, MT_ARRAY_SIZE(cann));
		free(v);
	}
	for (i = 0; i < MT_ARRAY_SIZE(roots); i++)
		add_below(f, roots[i], ascend, MT_ARRAY_SIZE(ascend));
}

/* ---- Python ---- */

int finder__site(struct finder *f, const char *dir)
{
	static const char *const sub[] = { "",
					   "/msleaks",
					   "/torch_npu/lib",
					   "/torch_npu",
					   "/torch/lib",
					   "/mindspore/lib",
					   "/mindspore/lib/plugin",
					   "/mindspore/lib/plugin/ascend" };

	add_below(f, dir, sub, MT_ARRAY_SIZE(sub));
	return 0;
}

static int add_site(void *ctx, const char *dir)
{
	return finder__site(ctx, dir);
}

void finder__prefix(struct finder *f, const char *prefix)
{
	static const char *const libs[] = { "/lib", "/lib64", "/local/lib" };
	static const char *const sites[] = { "/site-packages", "/dist-packages" };
	char lib[PATH_MAX], python[PATH_MAX], dir[PATH_MAX];
	struct dirent *e;
	size_t i, k;
	DIR *d;

	for (i = 0; i < MT_ARRAY_SIZE(libs); i++) {
		if ((size_t)snprintf(lib, sizeof(lib), "%s%s", prefix, libs[i]) >= sizeof(lib))
			return;
		d = root__open_dir(f->root, lib);
		if (!d) {
			finder__note(f, lib, -errno);
			continue;
		}
		while ((e = readdir(d)) && finder__entry(f, lib)) {
			if (strncmp(e->d_name, "python3", 7) != 0 ||
			    (size_t)snprintf(python, sizeof(python), "%s/%s", lib, e->d_name) >=
				    sizeof(python))
				continue;
			for (k = 0; k < MT_ARRAY_SIZE(sites); k++)
				if ((size_t)snprintf(dir, sizeof(dir), "%s%s", python, sites[k]) <
				    sizeof(dir))
					finder__site(f, dir);
		}
		closedir(d);
	}
}

/* PREFIX of PREFIX/bin/python; path is cut there. */
static void add_prefix_of(struct finder *f, char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash - path < 4 || memcmp(slash - 4, "/bin", 4) != 0)
		return;
	slash[-4] = '\0';
	finder__prefix(f, path);
}

struct command {
	struct finder *f;
	const char *name;
};

/* A directory of PATH: the command's file, if it is there. */
static int in_path(void *ctx, const char *dir)
{
	struct command *c = ctx;
	char path[PATH_MAX];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, c->name) >= sizeof(path))
		return 0;
	fd = root__open_file(c->f->root, path);
	if (fd < 0)
		return 0;
	close(fd);
	add_prefix_of(c->f, path);
	return 1;
}

/*
 * The python of a virtual environment is a link to another one: its prefix is
 * only in the name that it was started by, and that may be looked up in PATH.
 */
static void add_environment(struct finder *f)
{
	struct ldpath how = { ":", f->cwd, NULL, false };
	struct command c = { .f = f };
	char link[64], path[PATH_MAX], *v, *argv0;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/cmdline", (int)f->pid);
	if (file__read(link, 1u << 20, &argv0) < 0)
		return;
	c.name = argv0;
	if (argv0[0] == '/') {
		n = snprintf(path, sizeof(path), "%s", argv0);
	} else if (strchr(argv0, '/') && f->cwd[0]) {
		n = snprintf(path, sizeof(path), "%s/%s", f->cwd, argv0);
	} else {
		n = -1;
		v = argv0[0] ? proc__env(f->pid, "PATH") : NULL;
		if (v)
			ldpath__each(v, &how, in_path, &c);
		free(v);
	}
	if (n > 0 && n < (ssize_t)sizeof(path))
		add_prefix_of(f, path);
	free(argv0);
}

/* libmemtap_marks, where it was installed with us, and where the program is told it is. */
static void add_marks(struct finder *f)
{
	char *v = proc__env(f->pid, "MEMTAP_MARKS"), *slash = v ? strrchr(v, '/') : NULL;

	finder__dir(f, MEMTAP_LIBDIR);
	if (slash && slash > v) {
		*slash = '\0';
		finder__dir(f, v);
	}
	free(v);
}

static void add_python(struct finder *f)
{
	struct ldpath how = { ":", f->cwd, NULL, false };
	char path[PATH_MAX], *v;

	v = proc__env(f->pid, "PYTHONPATH");
	if (v)
		ldpath__each(v, &how, add_site, f);
	free(v);
	v = proc__env(f->pid, "VIRTUAL_ENV");
	if (v)
		finder__prefix(f, v);
	free(v);
	add_environment(f);
	v = proc__env(f->pid, "HOME");
	if (v && snprintf(path, sizeof(path), "%s/.local", v) < (int)sizeof(path))
		finder__prefix(f, path);
	free(v);
	memcpy(path, f->exe, sizeof(path));
	add_prefix_of(f, path);
}

void finder__places(struct finder *f)
{
	static const char *const system[] = { "/lib", "/usr/lib", "/lib64", "/usr/lib64",
					      "/usr/local/lib" };

	add_library_path(f);
	ldcache__each(f->root, from_cache, f);
	add_below(f, "", system, MT_ARRAY_SIZE(system));
	add_cann(f);
	add_marks(f);
	add_python(f);
}
