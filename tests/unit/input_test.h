/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a test in a folder of its own, and reading them. */
#ifndef MEMTAP_INPUT_TEST_H
#define MEMTAP_INPUT_TEST_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "input/input.h"

#define HEAD                                                                              \
	"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr," \
	"Call Stack(Python),Call Stack(C)\n"

static char dir[64];

static inline void in_setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/memtap-input-XXXXXX");
	cr_assert(mkdtemp(dir));
	log__set_level(LOG_ERROR); /* hostile files are meant to be told of */
}

static inline void in_teardown(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	cr_expect_eq(system(cmd), 0);
}

/* A file below dir; returns its path, of a ring. */
static inline const char *put_file(const char *name, const void *data, size_t n)
{
	static char paths[8][256];
	static unsigned int next;
	char *path = paths[next++ % 8], *slash;
	FILE *f;

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	cr_assert_eq(path__mkdirs(path), 0);
	*slash = '/';
	f = fopen(path, "w");
	cr_assert(f);
	cr_assert_eq(fwrite(data, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
	return path;
}

static inline const char *put_text(const char *name, const char *text)
{
	return put_file(name, text, strlen(text));
}

static inline bool slice_is(struct slice c, const char *text)
{
	return c.s && c.n == strlen(text) && !memcmp(c.s, text, c.n);
}

#define EXPECT_SLICE(c, text) \
	cr_expect(slice_is(c, text), "%.*s for %s", (int)(c).n, (c).s ? (c).s : "", text)

#endif
