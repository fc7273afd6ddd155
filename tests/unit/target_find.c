// SPDX-License-Identifier: Apache-2.0
/* Libraries that a process could still load: where they are looked for. */
#include "target_test.h"

#include <sched.h>
#include <sys/mman.h>

#include "target/finder.h"
#include "target/ldcache.h"

TestSuite(find, .init = make_dir, .fini = remove_dir);

#define LIB "libascend_hal.so?(.+([0-9.]))"

static const char *const names[] = { LIB, "mstx?(.*).so" };

struct found {
	char paths[64][PATH_MAX];
	size_t n, stop_after;
};

static struct found f;

static int on_path(void *ctx, pid_t pid, const char *path, int fd)
{
	struct stat st;

	cr_assert_gt(pid, 0);
	cr_assert_eq(ctx, &f);
	cr_assert_eq(fstat(fd, &st), 0);
	cr_expect(S_ISREG(st.st_mode), "%s", path);
	if (strncmp(path, dir, strlen(dir)) != 0)
		return 0; /* what this machine has of its own */
	cr_assert_lt(f.n, MT_ARRAY_SIZE(f.paths));
	snprintf(f.paths[f.n++], PATH_MAX, "%s", path + strlen(dir));
	return f.stop_after == f.n ? 9 : 0;
}

static char trouble[2 * PATH_MAX];
static size_t listed;

/* `runpath` stands in the file `file`. */
static int look_from(pid_t pid, const char *file, const char *runpath)
{
	struct finder *finder;
	int r = finder__open(pid, names, MT_ARRAY_SIZE(names), &finder);

	f.n = 0;
	trouble[0] = '\0';
	if (r)
		return r;
	if (file)
		finder__file(finder, file, runpath);
	r = finder__run(finder, on_path, &f);
	if (finder__trouble(finder))
		snprintf(trouble, sizeof(trouble), "%s", finder__trouble(finder));
	listed = finder->n_dirs;
	finder__close(finder);
	return r;
}

static int look(pid_t pid)
{
	return look_from(pid, NULL, NULL);
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
	cr_expect_eq(look(pid), 0);
	cr_expect_eq(times(file), 1, "%s=%s: %s %u times", name, value, file, times(file));
	end_child(pid);
	pid = with_env("OTHER", value);
	look(pid);
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

/* With %s for the folder of the test, twice at most. */
static const char *with_dir(const char *text)
{
	static char buf[4 * PATH_MAX];

	snprintf(buf, sizeof(buf), text, dir, dir);
	return buf;
}

Test(find, runpath)
{
	pid_t pid = with_env("A", "b");
	char file[PATH_MAX + 32];

	write_file("run/libascend_hal.so", "lib");
	write_file("run/libascend_hal.so.7.0", "lib");
	cr_assert_eq(path__mkdirs(in_dir("app/lib")), 0);
	snprintf(file, sizeof(file), "%s/app/lib/libx.so", dir);
	cr_expect_eq(look_from(pid, file, with_dir("/nowhere:%s/run:")), 0);
	cr_expect_eq(f.n, 2);
	cr_expect_eq(times("/run/libascend_hal.so"), 1);
	cr_expect_eq(times("/run/libascend_hal.so.7.0"), 1);
	look_from(pid, file, with_dir("%s/run;/nowhere"));
	cr_expect_eq(f.n, 0, "semicolons are for LD_LIBRARY_PATH only");
	look_from(pid, file, "$ORIGIN/../../run");
	cr_expect_eq(times("/app/lib/../../run/libascend_hal.so"), 1);
	look_from(pid, file, "/nowhere:${ORIGIN}/../../run/");
	cr_expect_eq(f.n, 2);
	look_from(pid, file, "$ORIGINAL/../../run");
	cr_expect_eq(f.n, 0);
	look_from(pid, file, NULL);
	cr_expect_eq(f.n, 0);
	end_child(pid);
}

/* Each file that is found has a RUNPATH of its own. */
static int on_link(void *ctx, pid_t pid, const char *path, int fd)
{
	struct finder *finder = *(struct finder **)ctx;

	if (strncmp(path, dir, strlen(dir)) != 0)
		return 0;
	f.n++;
	finder__file(finder, path, strstr(path, "/../") ? "$ORIGIN/../$LIB" : "$ORIGIN/../2");
	return 0;
}

Test(find, runpath_of_a_file_that_was_found)
{
	struct finder *finder;
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/1");

	f.n = 0;
	write_file("1/libascend_hal.so", "lib");
	write_file("2/libascend_hal.so", "lib");
	write_file("lib/libascend_hal.so", "lib"); /* leads to itself by ever new names */
	cr_assert_eq(finder__open(pid, names, MT_ARRAY_SIZE(names), &finder), 0);
	cr_expect_eq(finder__run(finder, on_link, &finder), 0);
	cr_expect_eq(f.n, 3, "%zu files", f.n);
	cr_expect_null(finder__trouble(finder));
	finder__close(finder);
	end_child(pid);
}

static char work_dir[PATH_MAX];

static void go_to_work(void)
{
	if (chdir(work_dir))
		_exit(1);
}

/* Relative to the current directory of the process. */
Test(find, current_directory)
{
	const char *lists[] = { "sub", "./sub/", "../work/sub", "/nowhere:sub" };
	const char *mine[] = { ":/nowhere", "/nowhere:", "/nowhere::/nowhere", ".", ";" };
	char env[64], *const envp[] = { env, NULL };
	pid_t pid;
	size_t i;

	write_file("work/sub/libascend_hal.so", "lib");
	write_file("work/libascend_hal.so.1", "lib");
	snprintf(work_dir, sizeof(work_dir), "%s", in_dir("work"));
	go_to_work();
	for (i = 0; i < MT_ARRAY_SIZE(lists); i++) {
		snprintf(env, sizeof(env), "LD_LIBRARY_PATH=%s", lists[i]);
		pid = program_of("sleep", "sleep", NULL, envp);
		cr_expect_eq(look(pid), 0);
		cr_expect_eq(f.n, 1, "%s: %zu files", env, f.n);
		cr_expect(strstr(f.paths[0], "sub/libascend_hal.so"), "%s: %s", env, f.paths[0]);
		end_child(pid);
	}
	for (i = 0; i < MT_ARRAY_SIZE(mine); i++) {
		snprintf(env, sizeof(env), "LD_LIBRARY_PATH=%s", mine[i]);
		pid = program_of("sleep", "sleep", NULL, envp);
		cr_expect_eq(look(pid), 0);
		cr_expect_eq(f.n, 1, "%s: %zu files", env, f.n);
		cr_expect(strstr(f.paths[0], "work/") && strstr(f.paths[0], "/libascend_hal.so.1"),
			  "%s: %s", env, f.paths[0]);
		end_child(pid);
	}
	/* an empty variable is none: glibc elf/dl-load.c */
	pid = program_of("sleep", "sleep", NULL, (char *const[]){ "LD_LIBRARY_PATH=", NULL });
	cr_expect_eq(look(pid), 0);
	cr_expect_eq(f.n, 0);
	/* a RUNPATH may be relative, too */
	look_from(pid, "/nowhere/libx.so", "sub");
	cr_expect_eq(f.n, 1);
	end_child(pid);
}

/* $ORIGIN of LD_LIBRARY_PATH: where the program lies. */
Test(find, tokens_of_the_library_path)
{
	char *const envp[] = { "LD_LIBRARY_PATH=$ORIGIN/../$LIB/npu:${ORIGIN}/$PLATFORM", NULL };
	pid_t pid;
#ifdef __aarch64__
	const char *platform = "app/bin/aarch64/libascend_hal.so";
#else
	const char *platform = "app/bin/x86_64/libascend_hal.so";
#endif

	copy_program("sleep", "sleeper");
	cr_assert_eq(path__mkdirs(in_dir("app/bin")), 0);
	cr_assert_eq(rename(in_dir("sleeper"), in_dir("app/bin/sleeper")), 0);
	write_file("app/lib64/npu/libascend_hal.so.1", "lib");
	write_file("app/lib/npu/libascend_hal.so.2", "lib");
	write_file(platform, "lib");
	pid = program_of(in_dir("app/bin/sleeper"), "sleeper", NULL, envp);
	cr_expect_eq(look(pid), 0);
	cr_expect_eq(times("/app/bin/../lib64/npu/libascend_hal.so.1"), 1);
	cr_expect_eq(times("/app/bin/../lib/npu/libascend_hal.so.2"), 1);
	cr_expect_eq(f.n, 3);
	end_child(pid);
}

/* The python of a virtual environment is a link; how it was started tells its prefix. */
Test(find, virtual_environment)
{
	char path_var[2 * PATH_MAX], *const env[] = { path_var, NULL };
	const char *file = "/venv/lib/python3.11/site-packages/torch_npu/lib/libascend_hal.so";
	pid_t pid;

	write_file(file + 1, "lib");
	cr_assert_eq(path__mkdirs(in_dir("venv/bin")), 0);
	cr_assert_eq(symlink("/bin/sleep", in_dir("venv/bin/sleep")), 0);
	snprintf(path_var, sizeof(path_var), "PATH=/nowhere:%s/venv/bin:/bin", dir);
	/* absolute */
	pid = program_of("/bin/sleep", in_dir("venv/bin/sleep"), NULL, env + 1);
	look(pid);
	cr_expect_eq(times(file), 1);
	end_child(pid);
	/* through PATH, as an image of a container has it */
	pid = program_of("/bin/sleep", "sleep", NULL, env);
	look(pid);
	cr_expect_eq(times(file), 1);
	end_child(pid);
	/* relative to the current directory */
	snprintf(work_dir, sizeof(work_dir), "%s", dir);
	go_to_work();
	pid = program_of("/bin/sleep", "venv/bin/sleep", NULL, env + 1);
	look(pid);
	cr_expect_eq(times(file), 1);
	end_child(pid);
	/* by a neighbour that is mapped */
	pid = program_of("/bin/sleep", "a title", NULL, env + 1);
	look(pid);
	cr_expect_eq(f.n, 0);
	look_from(pid, in_dir("venv/lib/python3.11/site-packages/numpy/x.so"), NULL);
	cr_expect_eq(times(file), 1);
	end_child(pid);
}

/* ---- what is no library, or not to be read ---- */

Test(find, fifos_directories_and_loops)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/a:%s/loop:%s/a/file:%s/b");

	write_file("a/file", "x");
	write_file("b/libascend_hal.so", "x");
	cr_assert_eq(mkfifo(in_dir("a/libascend_hal.so"), 0600), 0);
	cr_assert_eq(symlink("libascend_hal.so.2", in_dir("a/libascend_hal.so.1")), 0);
	cr_assert_eq(symlink("libascend_hal.so.1", in_dir("a/libascend_hal.so.2")), 0);
	cr_assert_eq(symlink("/dev/null", in_dir("a/libascend_hal.so.3")), 0);
	cr_assert_eq(symlink("/dev", in_dir("a/libascend_hal.so.4")), 0);
	cr_assert_eq(symlink("nothing", in_dir("a/libascend_hal.so.5")), 0);
	cr_assert_eq(mkdir(in_dir("a/libascend_hal.so.6"), 0700), 0);
	cr_assert_eq(symlink("loop", in_dir("loop")), 0);
	alarm(20); /* opening the FIFO would block */
	cr_expect_eq(look(pid), 0);
	alarm(0);
	cr_expect_eq(f.n, 1);
	cr_expect_eq(times("/b/libascend_hal.so"), 1);
	cr_expect_str_empty(trouble);
	end_child(pid);
}

Test(find, no_permission)
{
	pid_t pid;

	if (!geteuid())
		cr_assert_eq(chown(dir, 65534, 65534), 0);
	write_file("a/libascend_hal.so", "x");
	write_file("b/libascend_hal.so", "x");
	cr_assert_eq(chmod(in_dir("a"), 0), 0);
	cr_assert_eq(chmod(in_dir("b"), 0755), 0);
	cr_assert_eq(chmod(in_dir("b/libascend_hal.so"), 0), 0);
	if (!geteuid())
		cr_assert_eq(setresuid(65534, 65534, 65534), 0);
	pid = with_env("LD_LIBRARY_PATH", "%s/a");
	cr_expect_eq(look(pid), 0);
	cr_expect_eq(f.n, 0);
	cr_expect(strstr(trouble, "/a: may not be read; needs CAP_"), "%s", trouble);
	end_child(pid);
	pid = with_env("LD_LIBRARY_PATH", "%s/b");
	cr_expect_eq(look(pid), 0);
	cr_expect_eq(f.n, 0);
	cr_expect(strstr(trouble, "/b/libascend_hal.so: may not be read"), "%s", trouble);
	end_child(pid);
	chmod(in_dir("a"), 0700);
}

Test(find, lists_without_end)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/a");
	size_t n = 4u << 20, i;
	char *list = malloc(n + 1);

	cr_assert(list);
	write_file("a/libascend_hal.so", "x");
	memset(list, ':', n);
	list[n] = '\0';
	cr_expect_eq(look_from(pid, "/x/libx.so", list), 0);
	cr_expect(strstr(trouble, "too many places"), "%s", trouble);
	/* different ones */
	for (i = 0; i + 16 < n; i += 16)
		memcpy(list + i, (char[17]){ "/0000000000/abc:" }, 16);
	for (i = 0; i + 16 < n; i += 16)
		list[i + 1 + fmt__u64(list + i + 1, i)] = '/';
	cr_expect_eq(look_from(pid, "/x/libx.so", list), 0);
	cr_expect(strstr(trouble, "too many places"), "%s", trouble);
	cr_expect(listed > 1000 && listed < 10000, "%zu directories", listed);
	/* one, longer than any path */
	memset(list, 'a', n);
	list[0] = '/';
	cr_expect_eq(look_from(pid, "/x/libx.so", list), 0);
	cr_expect_str_empty(trouble);
	cr_expect_eq(times("/a/libascend_hal.so"), 1);
	/* tokens that grow */
	for (i = 0; i + 8 < n; i += 8)
		memcpy(list + i, "$ORIGIN/", 8);
	cr_expect_eq(look_from(pid, "/x/libx.so", list), 0);
	cr_expect_eq(times("/a/libascend_hal.so"), 1);
	free(list);
	end_child(pid);
}

Test(find, directories_without_end)
{
	pid_t pid = with_env("LD_LIBRARY_PATH", "%s/a");
	struct finder *finder;

	write_file("a/libascend_hal.so", "x");
	cr_assert_eq(finder__open(pid, names, MT_ARRAY_SIZE(names), &finder), 0);
	finder->entries = SIZE_MAX / 2; /* as if it had read so many */
	f.n = 0;
	cr_expect_eq(finder__run(finder, on_path, &f), 0);
	cr_expect_eq(f.n, 0);
	cr_expect(finder__trouble(finder) && strstr(finder__trouble(finder), "too many places"));
	finder__close(finder);
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
	cr_expect_eq(look(pid), 0);
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
	cr_expect_eq(look(pid), 0);
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
	cr_expect_eq(look(pid), 9);
	cr_expect_eq(f.n, 2);
	f.stop_after = 0;
	end_child(pid);
	cr_expect_eq(look(pid), -ESRCH);
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

static int on_root_path(void *ctx, pid_t pid, const char *path, int fd)
{
	char got[8] = "";
	int again = proc__open(pid, path);

	cr_expect_gt(read(fd, got, sizeof(got) - 1), 0);
	cr_expect_str_eq(got, "inside", "%s", path);
	cr_expect_geq(again, 0, "%s", path);
	close(again);
	++*(int *)ctx;
	return 0;
}

/* Only the names of other roots: what lies there, and how often it is found. */
static int count_in_root(pid_t pid)
{
	struct finder *finder;
	int n = 0;

	cr_assert_eq(finder__open(pid, names, 1, &finder), 0);
	cr_expect_eq(finder__run(finder, on_root_path, &n), 0);
	finder__close(finder);
	return n;
}

Test(find, cache_of_another_root)
{
	struct cache c = good_cache();
	uint32_t at = offsetof(struct cache, text);
	pid_t pid;
	int fd;

	/* names no other place would give: only the cache leads to /odd */
	memset(c.text, 0, sizeof(c.text));
	memcpy(c.text, "libascend_hal.so\0/odd/libascend_hal.so", 38);
	c.e[0] = (struct entry){ .key = at, .value = at + 17 };
	c.n = 1;
	/* by an absolute link, which means that root */
	write_file("cache", "");
	fd = open(in_dir("cache"), O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fd__write_all(fd, &c, sizeof(c)), 0);
	close(fd);
	cr_assert_eq(mkdir(in_dir("etc"), 0755), 0);
	cr_assert_eq(symlink("/cache", in_dir("etc/ld.so.cache")), 0);
	write_file("odd/libascend_hal.so", "inside");
	write_file("usr/lib64/libascend_hal.so", "inside");
	snprintf(root, sizeof(root), "%s", dir);
	pid = child_of(change_root);
	cr_expect_eq(count_in_root(pid), 2);
	end_child(pid);
}

/* /usr/local/Ascend/latest -> /usr/local/Ascend/8.0, as the installer makes it. */
Test(find, absolute_links_of_another_root)
{
	char inner[PATH_MAX + 64];
	pid_t pid;

	write_file("usr/local/Ascend/8.0/lib64/libascend_hal.so.8", "inside");
	write_file("usr/lib64/driver/libascend_hal.so.1", "inside");
	cr_assert_eq(symlink("/usr/local/Ascend/8.0", in_dir("usr/local/Ascend/latest")), 0);
	cr_assert_eq(symlink("/usr/lib64/driver/libascend_hal.so.1",
			     in_dir("usr/local/Ascend/8.0/lib64/libascend_hal.so")),
		     0);
	/* the same path on this side holds another file */
	snprintf(inner, sizeof(inner), "%s/decoy/libascend_hal.so", dir);
	write_file("decoy/libascend_hal.so", "outside");
	write_file(inner + 1, "inside");
	cr_assert_eq(symlink(inner, in_dir("usr/lib64/libascend_hal.so")), 0);
	snprintf(root, sizeof(root), "%s", dir);
	pid = child_of(change_root);
	cr_expect_eq(count_in_root(pid), 3);
	end_child(pid);
}

/* maps tells this side's paths of a process that has changed its root. */
static int find_mine(void *ctx, const struct mapping *m)
{
	const char *const *path = ctx;

	if (strcmp(m->path, path[0]) != 0)
		return 0;
	cr_expect_eq(m->outside, path[1] != NULL);
	return 7;
}

static void change_root_with_mapping(void)
{
	int fd = open(in_dir("in/side.so"), O_RDONLY | O_CLOEXEC);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
	change_root();
}

Test(find, mappings_of_another_root)
{
	char exe[PATH_MAX];
	const char *inside[] = { "/in/side.so", NULL }, *outside[] = { exe, "yes" };
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct mapping m = { .start = 1, .end = 2, .path = "/in/side.so" };
	pid_t pid;
	int fd;

	cr_assert_gt(n, 0);
	exe[n] = '\0';
	write_file("in/side.so", "inside");
	snprintf(root, sizeof(root), "%s", dir);
	pid = child_of(change_root_with_mapping);
	cr_expect_eq(proc__each_mapping(pid, find_mine, inside), 7);
	cr_expect_eq(proc__each_mapping(pid, find_mine, outside), 7);
	/* without map_files: by the path, below that root, if it is that file */
	fd = mapping__open(pid, &m);
	cr_expect_geq(fd, 0);
	close(fd);
	m.ino = 1;
	cr_expect_eq(mapping__open(pid, &m), -ESTALE);
	m.ino = 0;
	m.outside = true;
	cr_expect_lt(mapping__open(pid, &m), 0);
	end_child(pid);
}
