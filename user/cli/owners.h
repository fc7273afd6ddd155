/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of tensors from the Python objects of the targets, while they run. */
#ifndef MEMTAP_CLI_OWNERS_H
#define MEMTAP_CLI_OWNERS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct cJSON;
struct row;
struct session;

/* Where they are asked for (opts.objects). 0 or -errno, said. Without, all of these do nothing. */
int owners__open(struct session *s);
/* A process is a target, or has a new program. */
void owners__process(struct session *s, pid_t pid, uint32_t start);
/* A row: a child that allocates is read from then on. */
void owners__row(struct session *s, const struct row *r);
/* A range of its has ended, a step perhaps: a reading tells most now. Of any thread. */
void owners__range_ended(void *ctx, uint32_t tgid);
/* All events before this boot time were given to the model: readings of before are put to blocks.
 */
void owners__upto(struct session *s, uint64_t time);
/* One more reading of all, before the recording stops. */
void owners__last(struct session *s);
/* What was found and what it cost, in the summary. */
void owners__print(struct session *s, FILE *f);
void owners__json(struct session *s, struct cJSON *top);
void owners__free(struct session *s);

#endif
