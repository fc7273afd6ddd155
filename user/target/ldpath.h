/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to target/: lists of directories, as the dynamic linker and Python read them. */
#ifndef MEMTAP_LDPATH_H
#define MEMTAP_LDPATH_H

#include <stdbool.h>

struct ldpath {
	const char *separators;
	const char *cwd; /* of the process; NULL = unknown, relative entries are left out */
	const char *origin; /* what $ORIGIN stands for; NULL = unknown, such entries are left out */
	bool tokens; /* replace $ORIGIN, $LIB, $PLATFORM (ld.so(8), Dynamic string tokens) */
};

/*
 * fn for each directory that a list names, absolute, until it returns non-zero;
 * returns that. An empty entry is the current directory. What $LIB and $PLATFORM
 * are was decided when the process's ld.so was built: each known value is tried.
 */
int ldpath__each(const char *list, const struct ldpath *how, int (*fn)(void *ctx, const char *dir),
		 void *ctx);

#endif
