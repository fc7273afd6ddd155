/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to cli/: looking for files to probe in one process. */
#ifndef MEMTAP_SCAN_H
#define MEMTAP_SCAN_H

#include <string.h>

#include "cli/session.h"

struct scan {
	struct session *s;
	pid_t pid;
	size_t mapped; /* wanted libraries that it has mapped */
	size_t ahead; /* wanted files found ahead */
	size_t added;
	char **dirs; /* RUNPATH of its files */
	size_t n_dirs;
	uint64_t last_ino;
	struct hmap names; /* base names mapped already */
	bool only_missing; /* other processes' files: only names the targets lack */
	struct hmap *have;
};

/* Everything that a process has mapped or could load is probed. 0 or -errno (-EINTR: a signal). */
int scan__process(struct scan *c);
/* What the command of `-- CMD` will load, before it is executed. */
void scan__command(struct scan *c, const char *name);
/* Callbacks of proc__each_mapping and proc__each_candidate; ctx is a struct scan. */
int scan__mapping(void *ctx, const struct mapping *m);
int scan__candidate(void *ctx, pid_t pid, const char *path);
void scan__free(struct scan *c);

/* Is a process in the set that the programs filter by? */
bool target__is(struct session *s, pid_t pid, struct mt_target *t);
/* Is a process traced, also by -a and --cgroup? */
bool session__traces(struct session *s, pid_t pid);
/* Into that set. 0 or -errno (-ESRCH: it has gone). */
int target__add(struct session *s, pid_t pid);
/* Last component of a path. */
static inline const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
