/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of user/symbol share: files made by the tools of this machine, in a folder. */
#ifndef MEMTAP_SYMBOL_TEST_H
#define MEMTAP_SYMBOL_TEST_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static char dir[64];

/* A shell command in the folder; $S is that of the sources. Its status is 0? */
MT_PRINTF(1, 2) static bool sh(const char *fmt, ...)
{
	const char *src = getenv("SRCDIR");
	struct strbuf cmd = { 0 };
	char text[4096];
	va_list ap;
	int status;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	strbuf__printf(&cmd, "cd %s && S=%s/tests/unit/data-symbol && { %s ; } 2>>log", dir,
		       src ? src : ".", text);
	status = system(cmd.data);
	strbuf__free(&cmd);
	return status == 0;
}

static void make_dir(void)
{
	strcpy(dir, "/tmp/memtap-symbol-XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void remove_dir(void)
{
	sh("cd / && rm -rf %s", dir);
}

/* The library of names.cc and labels.S: full.so with .symtab and DWARF. */
static bool compile(const char *cxx, const char *flags)
{
	return sh("echo 'VER_1 { versioned; };' >map && "
		  "%s -O2 -g -fPIC -shared -Wl,--build-id -Wl,--version-script=map %s -x c++ "
		  "$S/names.cc "
		  "-x assembler-with-cpp $S/labels.S -o full.so",
		  cxx, flags);
}

/* Good until the second call after it. */
static const char *in_dir(const char *name)
{
	static char path[2][128];
	static int i;

	i = !i;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static int open_file(const char *name)
{
	int fd = open(in_dir(name), O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s: %s", name, strerror(errno));
	return fd;
}

static struct symtab *open_table(const char *name, const char *debug)
{
	int fd = open_file(name), dfd = debug ? open_file(debug) : -1, err;
	struct symtab *t;

	err = symtab__open(fd, dfd, &t);
	cr_assert_eq(err, 0, "%s: %s", name, strerror(-err));
	close(fd);
	if (dfd >= 0)
		close(dfd);
	return t;
}

/* Name at an address; "" without a name, NULL where there is nothing. Until the next call. */
static const char *name_at(const struct symtab *t, uint64_t vaddr, struct symbol *sym)
{
	static struct strbuf sb;
	struct symbol dummy;
	int err;

	strbuf__reset(&sb);
	strbuf__puts(&sb, "");
	err = symtab__find(t, vaddr, sym ? sym : &dummy, &sb);
	cr_assert(!err || err == -ENOENT);
	return err ? NULL : sb.data;
}

/* Address of a symbol of full.so as nm gives it; 0 if there is none. */
static uint64_t address_of(const char *file, const char *name)
{
	char line[4096], cmd[512];
	uint64_t v = 0;
	FILE *p;

	snprintf(cmd, sizeof(cmd), "nm %s | grep ' %s$'", in_dir(file), name);
	p = popen(cmd, "r");
	cr_assert(p);
	if (fgets(line, sizeof(line), p))
		v = strtoull(line, NULL, 16);
	pclose(p);
	return v;
}

#endif
