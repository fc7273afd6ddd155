// SPDX-License-Identifier: Apache-2.0
/* Libraries that a process could still load: where they are looked for. */
#include "target_test.h"

#include <sched.h>

#include "target/ldcache.h"

TestSuite(find, .init = make_dir, .fini = remove_dir);

#define LIB "libascend_hal.so?(.+([0-9.]))"

static const char *const names[] = { LIB, "mstx?(.*).so" };

struct found {
	char paths[64][PATH_MAX];
	size_t n, stop_after;
};

static struct found f;

static int on_path(void *ctx, pid_t pid, const char *path)
{
	cr_assert_gt(pid, 0);
	cr_assert_eq(ctx, &f);
	if (strncmp(path, dir, strlen(dir)) != 0)
		return 0; /* what this machine has of its own */
	cr_assert_lt(f.n, MT_ARRAY_SIZE(f.paths));
	snprintf(f.paths[f.n++], PATH_MAX, "%s", path + strlen(dir));
	return f.stop_after == f.n ? 9 : 0;
}

static int look(pid_t pid, const char *const *dirs, size_t n_dirs)
{
	f.n = 0;
	return proc__each_candidate(pid, names, MT_ARRAY_SIZE(names), dirs, n_dirs, on_path, &f);
}

static unsigned int times(const char *path)
{
	unsigned int n = 0;
	size_t i;

	for (i = 0; i < f.n; i++)
		n += strcmp(f.paths[i], path) == 0;
	return n;
}

/* A process with this variable; %s in it stands for the folder of the test. */
static pid_t with_env(const char *name, const char *value)
{
	char var[4 * PATH_MAX], *env[] = { var, NULL };
	size_t n = (size_t)snprintf(var, sizeof(var), "%s=", name);

	for (; *value; value++) {
		if (value[0] == '%' && value[1] == 's') {
			n += (size_t)snprintf(var + n, sizeof(var) - n, "%s", dir);
			value++;
		} else {
			var[n++] = *value;
		}
		cr_assert_lt(n, sizeof(var) - PATH_MAX);
	}
	var[n] = '\0';
	return program_of("sleep", "sleep", NULL, env);
}

static void found_by_env(const char *name, const char *value, const char *file)
{
	pid_t pid = with_env(name, value);

	write_file(file + 1, "lib");
	cr_expect_eq(look(pid, NULL, 0), 0);
	cr_expect_eq(times(file), 1, "%s=%s: %s %u times", name, value, file, times(file));
	end_child(pid);
	pid = with_env("OTHER", value);
	look(pid, NULL, 0);
	cr_expect_eq(times(file), 0, "%s without %s", file, name);
	end_child(pid);
}

Test(find, library_path)
{
	found_by_env("LD_LIBRARY_PATH", "%s/a", "/a/libascend_hal.so");
	found_by_env("LD_LIBRARY_PATH", "/nowhere::%s/b/:%s/a", "/b/libascend_hal.so.1");
	found_by_env("LD_LIBRARY_PATH", "%s/d:%s/d/:%s/d", "/d/libascend_hal.so");
	/* ld.so(8): colons or semicolons */
	found_by_env("LD_LIBRARY_PATH", "/nowhere;%s/c", "/c/libascend_hal.so");
}

Test(find, homes_and_python)
{
	found_by_env("ASCEND_HOME_PATH", "%s/cann", "/cann/runtime/lib64/libascend_hal.so");
	found_by_env("ASCEND_TOOLKIT_HOME", "%s/cann2", "/cann2/lib64/libascend_hal.so");
	found_by_env("PYTHONPATH", "%s/p:%s/q", "/q/torch_npu/lib/libascend_hal.so");
	found_by_env("PYTHONPATH", "%s/p:%s/q", "/p/mstx.cpython-311-x86_64-linux-gnu.so");
	found_by_env("VIRTUAL_ENV", "%s/venv", "/venv/lib/python3.11/site-packages/mstx.so");
	found_by_env("HOME", "%s/home", "/home/.local/lib/python3.9/site-packages/mstx.so");
}

Test(find, directories_of_the_caller)
{
	pid_t pid = with_env("A", "b");
	char runpath[PATH_MAX + 16];
	const char *dirs[] = { "/nowhere", runpath, "relative", "" };

	snprintf(runpath, sizeof(runpath), "%s/run", dir);
	write_file("run/libascend_hal.so", "lib");
	write_file("run/libascend_hal.so.7.0", "lib");
	cr_expect_eq(look(pid, dirs, 4), 0);
	cr_expect_eq(f.n, 2);
	cr_expect_eq(times("/run/libascend_hal.so"), 1);
	cr_expect_eq(times("/run/libascend_hal.so.7.0"), 1);
	end_child(pid);
}

Test(find, wanted_names_only)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/a:%s/stub:%s/devlib");

	write_file("a/libascend_hal.so.p", "x");
	write_file("a/libascend_hal_impl.so", "x");
	write_file("a/xlibascend_hal.so", "x");
	write_file("a/libascend_hal.so.1/file", "x"); /* a directory */
	write_file("a/.libascend_hal.so", "x");
	write_file("stub/libascend_hal.so", "x");
	write_file("devlib/libascend_hal.so", "x");
	cr_expect_eq(look(pid, NULL, 0), 0);
	cr_expect_eq(f.n, 0, "%s", f.paths[0]);
	end_child(pid);
}

Test(find, links_and_odd_names)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/with space\n:%s/link");

	write_file("with space\n/libascend_hal.so", "x");
	write_file("real/libascend_hal.so.1.0", "x");
	cr_assert_eq(symlink("libascend_hal.so.1.0", in_dir("real/libascend_hal.so")), 0);
	cr_assert_eq(symlink("real", in_dir("link")), 0);
	cr_expect_eq(look(pid, NULL, 0), 0);
	cr_expect_eq(times("/with space\n/libascend_hal.so"), 1);
	cr_expect_eq(times("/link/libascend_hal.so"), 1);
	cr_expect_eq(times("/link/libascend_hal.so.1.0"), 1);
	cr_expect_eq(f.n, 3);
	end_child(pid);
}

Test(find, stops_when_told)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/a:%s/b");

	write_file("a/libascend_hal.so", "x");
	write_file("a/libascend_hal.so.1", "x");
	write_file("b/libascend_hal.so", "x");
	f.stop_after = 2;
	cr_expect_eq(look(pid, NULL, 0), 9);
	cr_expect_eq(f.n, 2);
	f.stop_after = 0;
	end_child(pid);
	cr_expect_eq(look(pid, NULL, 0), 0); /* gone: nothing */
	cr_expect_eq(f.n, 0);
}

/* ---- ld.so.cache ---- */

#define MAGIC "glibc-ld.so.cache1.1"

struct entry {
	int32_t flags;
	uint32_t key, value, osversion;
	uint64_t hwcap;
};

struct cache {
	char magic[20];
	uint32_t n, len_strings, unused[5];
	struct entry e[2];
	char text[64];
};

static struct cache good_cache(void)
{
	struct cache c = { .n = 2, .len_strings = 64 };
	uint32_t at = offsetof(struct cache, text);

	memcpy(c.magic, MAGIC, 20);
	memcpy(c.text, "liba.so\0/x/liba.so\0libb.so\0/y/libb.so", 38);
	c.e[0] = (struct entry){ .key = at, .value = at + 8 };
	c.e[1] = (struct entry){ .key = at + 19, .value = at + 27 };
	return c;
}

static char said[512];
static int stop;

static int on_entry(void *ctx, const char *name, const char *path)
{
	size_t n = strlen(said);

	snprintf(said + n, sizeof(said) - n, "%s=%s ", name, path);
	return stop;
}

/* From memory that ends where the bytes end, so that a tool would see a read behind it. */
static const char *parsed(const void *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);

	cr_assert(copy);
	memcpy(copy, bytes, len);
	said[0] = '\0';
	cr_expect_eq(ldcache__parse(copy, len, on_entry, NULL), *said ? stop : 0);
	free(copy);
	return said;
}

#define BOTH "liba.so=/x/liba.so libb.so=/y/libb.so "

Test(ldcache, good)
{
	struct cache c = good_cache();

	cr_expect_str_eq(parsed(&c, sizeof(c)), BOTH);
	stop = 5;
	cr_expect_str_eq(parsed(&c, sizeof(c)), "liba.so=/x/liba.so ");
	stop = 0;
}

Test(ldcache, behind_an_old_table)
{
	/* 16 bytes of head and one entry of 12: the new one begins at 32 */
	struct {
		char magic[12];
		uint32_t n;
		char entries[16];
		struct cache c;
	} old = { .n = 1, .c = good_cache() };

	memcpy(old.magic, "ld.so-1.7.0", 11);
	cr_expect_str_eq(parsed(&old, sizeof(old)), BOTH);
	old.n = UINT32_MAX;
	cr_expect_str_eq(parsed(&old, sizeof(old)), "");
	old.n = 2; /* the new one is not there */
	cr_expect_str_eq(parsed(&old, sizeof(old)), "");
}

Test(ldcache, hostile)
{
	struct cache c = good_cache();
	size_t n;

	for (n = 0; n < offsetof(struct cache, text); n++)
		cr_expect_str_eq(parsed(&c, n), "", "%zu bytes", n);
	/* a text that does not end, a text that is not there */
	cr_expect_str_eq(parsed(&c, offsetof(struct cache, text) + 30), "liba.so=/x/liba.so ");
	c.e[0].value = sizeof(c);
	cr_expect_str_eq(parsed(&c, sizeof(c)), "libb.so=/y/libb.so ");
	c.e[0].value = UINT32_MAX;
	c.e[1].key = UINT32_MAX;
	cr_expect_str_eq(parsed(&c, sizeof(c)), "");
	c = good_cache();
	memset(c.text, 'a', sizeof(c.text));
	cr_expect_str_eq(parsed(&c, sizeof(c)), "");
	/* more entries than there is room for */
	c = good_cache();
	c.n = UINT32_MAX;
	cr_expect_str_eq(parsed(&c, sizeof(c)), "");
	c.n = 5;
	cr_expect_str_eq(parsed(&c, sizeof(c)), "");
	c = good_cache();
	c.magic[19] = '2';
	cr_expect_str_eq(parsed(&c, sizeof(c)), "");
}

/* ---- a process with a root of its own ---- */

static char root[PATH_MAX];

static void change_root(void)
{
	if (geteuid() && unshare(CLONE_NEWUSER))
		_exit(1);
	if (chroot(root) || chdir("/"))
		_exit(1);
}

static int on_root_path(void *ctx, pid_t pid, const char *path)
{
	int fd = proc__open(pid, path);
	char got[8] = "";

	cr_expect_geq(fd, 0, "%s", path);
	cr_expect_gt(read(fd, got, sizeof(got) - 1), 0);
	cr_expect_str_eq(got, "inside", "%s", path);
	close(fd);
	++*(int *)ctx;
	return 0;
}

Test(find, cache_of_another_root)
{
	struct cache c = good_cache();
	uint32_t at = offsetof(struct cache, text);
	int n = 0, fd;
	pid_t pid;

	/* names no other place would give: only the cache leads to /odd */
	memset(c.text, 0, sizeof(c.text));
	memcpy(c.text, "libascend_hal.so\0/odd/libascend_hal.so", 38);
	c.e[0] = (struct entry){ .key = at, .value = at + 17 };
	c.n = 1;
	write_file("etc/ld.so.cache", "");
	fd = open(in_dir("etc/ld.so.cache"), O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fd__write_all(fd, &c, sizeof(c)), 0);
	close(fd);
	write_file("odd/libascend_hal.so", "inside");
	write_file("usr/lib64/libascend_hal.so", "inside");
	snprintf(root, sizeof(root), "%s", dir);
	pid = child_of(change_root);
	proc__each_candidate(pid, names, 1, NULL, 0, on_root_path, &n);
	cr_expect_eq(n, 2);
	end_child(pid);
}
