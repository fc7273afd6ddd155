/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands on dump files share. */
#ifndef MEMTAP_CLI_OFFLINE_H
#define MEMTAP_CLI_OFFLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
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
/* A decimal number up to max. 0, or EXIT_USAGE with a message that names the option. */
int offline__number(const char *cmd, const char *option, const char *text, uint64_t max,
		    uint64_t *v);
/* EXIT_FAIL, EXIT_INCOMPLETE or EXIT_OK. */
int offline__status(int err, bool incomplete, bool strict);
/* "== PATH ==" above the results of one of several. */
void offline__title(const char *path, int n_paths);
/* "device 0", "host". */
const char *offline__device(int32_t device);
/* The call stacks of a row, indented. */
void offline__stacks(const struct texts *t, uint32_t py, uint32_t c);
/* Text of a csv cell, quoted when it must be; a formula gets a ' in front. */
void offline__csv_text(FILE *f, const char *s, size_t n);

/* The gap tables (gap.c). */
void gap__print(const struct gap *g, size_t n);
/* Is this device one of several processes among these? */
bool gap__shared(const struct gap *g, size_t n, int32_t device);

#endif
