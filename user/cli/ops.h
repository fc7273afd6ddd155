/* SPDX-License-Identifier: Apache-2.0 */
/* The option that chooses operators of torch. */
#ifndef MEMTAP_CLI_OPS_H
#define MEMTAP_CLI_OPS_H

#include <stdbool.h>

struct ops_opts {
	bool asked; /* --ops: else only for accesses, or as the front end does */
	bool quiet; /* the front end: where they cannot be had it goes on without */
	const char *regex; /* which of them; NULL: all */
};

/* --ops[=REGEX]; arg may be NULL. 0, -EINVAL, or -EEXIST when it has said why. */
int ops__option(struct ops_opts *o, const char *arg);

#endif
