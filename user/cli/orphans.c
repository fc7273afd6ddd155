// SPDX-License-Identifier: Apache-2.0
/*
 * Notices of mappings by processes that are gone when they are read, and whose birth has not been
 * handed out yet: a child may live for less than that takes. Kept until it is known whose they are.
 */
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ORPHANS 256 /* of libraries that are probed; each takes 4 KiB */
#define KEEP_NS 3000000000ULL

struct orphan {
	struct map_event e;
	uint64_t until;
};

void orphans__keep(struct session *s, const struct map_event *e)
{
	struct orphan *o = s->n_orphans < MAX_ORPHANS ? malloc(sizeof(*o)) : NULL;

	if (!s->orphans)
		s->orphans = calloc(MAX_ORPHANS, sizeof(*s->orphans));
	if (!o || !s->orphans) {
		free(o);
		s->mapwatch_lost++;
		return;
	}
	*o = (struct orphan){ *e, clock__boot() + KEEP_NS };
	s->orphans[s->n_orphans++] = o;
}

void orphans__claim(struct session *s, void (*fn)(struct session *s, const struct map_event *e))
{
	uint64_t now = s->n_orphans ? clock__boot() : 0;
	size_t i, kept = 0;

	for (i = 0; i < s->n_orphans; i++) {
		struct orphan *o = s->orphans[i];

		if (model__start(s->model, (uint32_t)o->e.pid))
			fn(s, &o->e);
		else if (now < o->until) {
			s->orphans[kept++] = o;
			continue;
		}
		free(o);
	}
	s->n_orphans = kept;
}

void orphans__free(struct session *s)
{
	while (s->n_orphans)
		free(s->orphans[--s->n_orphans]);
	free(s->orphans);
}
