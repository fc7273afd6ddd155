/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to cli/: Python functions that can only be probed once a process has imported them. */
#ifndef MEMTAP_LATER_H
#define MEMTAP_LATER_H

#include <stdio.h>

#include "cli/session.h"

/*
 * A process has mapped a file of which something is unfilled (prober__look). It
 * is looked at now and then, until the functions are found there or in another
 * process, it has ended, or ten minutes are over. `empty`: boot time at which
 * none of them could have been called yet.
 */
void later__watch(struct session *s, const struct probed_file *f, pid_t pid, uint64_t empty);
/* The same for one that had it mapped before we came: also looked at now. */
void later__mapped(struct session *s, const struct probed_file *f, pid_t pid);
/* A process has come, a forked one say: it may have such a file mapped already. */
void later__born(struct session *s, pid_t pid);
/* Looks at one process if it is time to. Called from the loop, every 20 ms. */
void later__tick(struct session *s);
/* At the end: counts in s->functions_unseen what a process has mapped and was never found. */
void later__settle(struct session *s);
/* The same as lines of the summary. */
void later__print(struct session *s, FILE *out);
void later__free(struct session *s);

#endif
