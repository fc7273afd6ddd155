/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of memtap cut. */
#ifndef MEMTAP_CLI_CUT_H
#define MEMTAP_CLI_CUT_H

#include "cli/offline.h"

struct cut_edge {
	enum { EDGE_NONE, EDGE_TIME, EDGE_AFTER, EDGE_STEP } kind;
	uint64_t value; /* time; ns after the first row; step */
};

struct cut_window {
	uint64_t from, to; /* rows with from <= time < to */
};

/* "1700000000000000000", "+1.5" or "step:3". 0 or -EINVAL. */
int cut_edge__parse(const char *text, struct cut_edge *e);
/*
 * What the edges mean in these files: a step from its first begin to its last
 * end, of all processes and devices. 0, or -errno with a message printed.
 */
int cut_window__find(const char *path, const struct cut_edge *from, const struct cut_edge *to,
		     struct cut_window *w);

#endif
