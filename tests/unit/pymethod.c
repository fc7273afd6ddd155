// SPDX-License-Identifier: Apache-2.0
/* Method tables in memory: those of a library that is compiled and loaded here. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/pymethod.h"

#define WORDS_OF_TABLE 12 /* three methods, and no end behind them */

static struct elf_image *img;
static void *lib;
static struct stat is;
static struct pymethod m[3];

static bool same(void *ctx, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_dev == is.st_dev && st.st_ino == is.st_ino;
}

static int look_at(pid_t pid)
{
	return pymethod__look(img, pid, same, NULL, m, 3);
}

static void call(const char *name)
{
	void (*fn)(void);

	*(void **)&fn = dlsym(lib, name);
	cr_assert(fn, "%s", name);
	fn();
}

static uint64_t truth(const char *symbol)
{
	uint64_t v, size;

	cr_assert_eq(elf_image__symbol(img, symbol, &v, &size), 0);
	return v;
}

static void setup(void)
{
	/* A name that the catalogue wants: others are not looked at. */
	char dir[] = "/tmp/memtap-pymethod-XXXXXX", path[64], cmd[2 * PATH_MAX];
	static const char *const names[] = { "_late_start", "_late_end", "_late_mark" };
	const char *src = getenv("SRCDIR");
	uint64_t v;
	size_t i;

	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/_C.so", dir);
	snprintf(cmd, sizeof(cmd),
		 "cc -O2 -fPIC -shared -nostdlib -w -o %s %s/tests/unit/data-later/late_table.c "
		 "2>/dev/null",
		 path, src ? src : ".");
	if (system(cmd))
		cr_skip("no C compiler on this machine");
	cr_assert_eq(elf_image__open(path, &img), 0);
	cr_assert_eq(stat(path, &is), 0);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cr_assert(lib, "%s", dlerror());
	for (i = 0; i < 3; i++) {
		m[i].name = names[i];
		pymethod__names(img, names[i], &m[i].at);
		/* that is why they are looked for in memory */
		cr_assert_eq(pymethod__find(img, names[i], &v), -ENODATA);
	}
	unlink(path);
	rmdir(dir);
}

static void teardown(void)
{
	elf_image__close(img);
	if (lib)
		dlclose(lib);
}

TestSuite(pymethod, .init = setup, .fini = teardown);

static void finds_all(void)
{
	cr_assert_eq(look_at(getpid()), 3);
	cr_expect_eq(m[0].fn, truth("late_start"));
	cr_expect_eq(m[1].fn, truth("late_end"));
	cr_expect_eq(m[2].fn, truth("late_mark"));
}

Test(pymethod, not_filled)
{
	cr_expect_eq(look_at(getpid()), 0);
	/* half a table: names without functions, or with what is none */
	call("fill_names");
	cr_expect_eq(look_at(getpid()), 0);
	call("fill_data");
	finds_all();
	call("clear");
	cr_expect_eq(look_at(getpid()), 0);
	cr_expect_eq(m[0].fn, 0);
}

Test(pymethod, two_functions_of_one_name)
{
	call("fill_twice");
	cr_expect_eq(look_at(getpid()), 2);
	cr_expect(m[0].twice && !m[1].twice && !m[2].twice);
	call("clear");
	call("fill_data");
	finds_all();
	cr_expect(!m[0].twice);
}

Test(pymethod, table_outside_of_the_library)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	void (*fill)(void *);

	cr_assert_neq(two, MAP_FAILED);
	cr_assert_eq(munmap(two + page / 8, page), 0);
	*(void **)&fill = dlsym(lib, "fill_elsewhere");
	/* nothing is readable behind it */
	fill(two + page / 8 - WORDS_OF_TABLE);
	finds_all();
	/* a module that leads nowhere */
	cr_assert_eq(munmap(two, page), 0);
	cr_expect_eq(look_at(getpid()), 0);
}

Test(pymethod, processes_without_it)
{
	pid_t child;
	ino_t ino;

	call("fill_data");
	ino = is.st_ino;
	is.st_ino = 0;
	cr_expect_eq(look_at(getpid()), -ESRCH);
	is.st_ino = ino;
	/* one that has it from its parent, and has ended */
	child = fork();
	if (!child)
		for (;;)
			pause();
	cr_expect_eq(look_at(child), 3);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_expect_eq(look_at(child), -ESRCH);
}
