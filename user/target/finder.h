/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to target/: a search for libraries in progress. */
#ifndef MEMTAP_FINDER_H
#define MEMTAP_FINDER_H

#include "base/base.h"
#include "target/target.h"

struct finder {
	pid_t pid;
	int root; /* its root directory */
	char cwd[PATH_MAX]; /* as the process sees it; empty = unknown */
	char exe[PATH_MAX]; /* likewise */
	const char *const *names; /* patterns of fnmatch(3) */
	size_t n_names;
	struct hmap seen; /* names of directories asked for already */
	struct hmap listed; /* directories listed, whatever their names */
	char **dirs; /* those, in order; what stands before `next` is listed */
	size_t n_dirs, next;
	size_t asked, entries; /* bounds: directories named, directory entries read */
	char *trouble;
};

/* A directory to be listed, absolute. 0, or -ENOSPC when there are too many. */
int finder__dir(struct finder *f, const char *dir);
/* What frameworks have below a site-packages folder. */
int finder__site(struct finder *f, const char *dir);
/* site-packages of each Python 3 below a prefix. */
void finder__prefix(struct finder *f, const char *prefix);
/* Remember the first thing that could not be looked through. */
void finder__note(struct finder *f, const char *path, int err);
/* Another entry of a directory that is being read: false = too many. */
bool finder__entry(struct finder *f, const char *dir);

/* places.c: all that environment and system tell, into the queue. */
void finder__places(struct finder *f);

#endif
