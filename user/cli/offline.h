/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands on dump files share. */
#ifndef MEMTAP_CLI_OFFLINE_H
#define MEMTAP_CLI_OFFLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/base.h"
#include "input/input.h"

/* At most so many bytes of names and stacks are held. */
#define OFFLINE_TEXTS (512u << 20)

/*
 * Hands all events of a DIR or FILE to `item`, in the order of time. 0 or
 * -errno, a message printed (also for what `item` returns). *incomplete is set
 * when rows are missing, which is said.
 */
int offline__read(const char *path, const struct in_want *want, struct texts *texts,
		  int (*item)(void *ctx, const struct item *it), void *ctx, bool *incomplete);
/* The same for the owners that stand beside the dumps. */
int offline__owners(const char *path, int (*fn)(void *ctx, const struct in_owner *o), void *ctx,
		    bool *incomplete);
/* "DIR or FILE" is missing: a message, EXIT_USAGE. */
int offline__no_path(const char *cmd);
/* EXIT_FAIL, EXIT_INCOMPLETE or EXIT_OK. */
int offline__status(int err, bool incomplete, bool strict);
/* "== PATH ==" above the results of one of several. */
void offline__title(const char *path, int n_paths);
/* "device 0", "host". */
const char *offline__device(int32_t device);
/* A process uses a device: users, which the caller frees, is device -> who. */
void offline__use(struct hmap *users, int32_t device, uint32_t pid);
/* Do several processes use it? */
bool offline__shared(const struct hmap *users, int32_t device);
/* The call stacks of a row, indented. */
void offline__stacks(const struct texts *t, uint32_t py, uint32_t c);
/* Text of a csv cell, quoted when it must be; a formula gets a ' in front. */
void offline__csv_text(FILE *f, const char *s, size_t n);

/* ---- a command: its options, then each path (offline_cmd.c) ---- */

/* Options that several have: --format=text|csv, --stacks, --strict. */
enum { OFFLINE_FORMAT = 512, OFFLINE_STACKS, OFFLINE_STRICT };

struct offline_common {
	bool csv, stacks, strict;
};

struct offline_cmd {
	const char *name; /* "leaks" */
	const struct option *longs; /* "help" is 'h' */
	struct offline_common *common; /* where those of several are put */
	void (*help)(void);
	/* One of its own, with optarg. 0, or EXIT_USAGE or EXIT_FAIL, said. NULL: it has none. */
	int (*option)(int opt);
	/* All are read: as above; -1: nothing is left to do. NULL: all is well. */
	int (*ready)(void);
	/* One DIR or FILE. 0 or -errno. */
	int (*one)(const char *path, bool *incomplete);
};

/* The exit status. An error that `one` has not told is told. */
int offline__run(const struct offline_cmd *c, int argc, char **argv);
/* "OPTION 'TEXT': WANTED is wanted"; EXIT_USAGE. */
int offline__wrong(const char *cmd, const char *option, const char *text, const char *wanted);
/* A decimal number from least to most. 0, or EXIT_USAGE with a message that names the option. */
int offline__number(const char *cmd, const char *option, const char *text, uint64_t least,
		    uint64_t most, uint64_t *v);
/* The same of an address, decimal or 0x…; of a size, with suffix K, M, G. */
int offline__address(const char *cmd, const char *option, const char *text, uint64_t *v);
int offline__size(const char *cmd, const char *option, const char *text, int64_t *v);

/* The gap tables (gap.c). */
void gap__print(const struct gap *g, size_t n);
/* Which processes use which devices among these. */
void gap__users(const struct gap *g, size_t n, struct hmap *users);

#endif
