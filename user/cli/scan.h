/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to cli/: looking for files to probe in one process. */
#ifndef MEMTAP_SCAN_H
#define MEMTAP_SCAN_H

#include <string.h>

#include "cli/session.h"

struct scan {
	struct session *s; /* NULL: for `probes`, nothing is recorded */
	struct prober *prober;
	pid_t pid;
	const char *command; /* of `-- CMD`, not executed yet: what it will load */
	size_t mapped; /* wanted libraries that it has mapped */
	size_t ahead; /* wanted files found ahead */
	size_t added;
	struct finder *finder;
	unsigned int depth; /* libraries that need each other by their RUNPATHs */
	uint64_t last_ino;
	uint32_t last_dev[2];
	struct hmap names; /* base names mapped already or found ahead */
	bool only_missing; /* other processes' files: only names the targets lack */
	struct hmap *have;
};

/* Everything that a process has mapped or could load is probed. 0 or -errno (-EINTR: a signal). */
int scan__process(struct scan *c);
/* Only what it could load. */
int scan__ahead(struct scan *c);
/* Only what it has mapped: a callback of proc__each_mapping; ctx is a struct scan. */
int scan__mapping(void *ctx, const struct mapping *m);
void scan__free(struct scan *c);
/* The message for a file that prober__add refuses. */
void scan__tell_unprobed(const char *path, pid_t pid, int err);

/* Does the program of a process load nothing by itself: no dynamic linker? */
bool process__is_static(pid_t pid);

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
