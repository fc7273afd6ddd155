// SPDX-License-Identifier: Apache-2.0
/* What a block was found to be since its MALLOC row: its owners, and how it holds memory for
 * nothing. */
#include "output/journal.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_LABELS 400 /* bytes of the labels of one block */

int became__label(struct became *b, const char *label)
{
	size_t had = b->labels ? strlen(b->labels) : 0;
	char *more;

	if (had + strlen(label) + 1 > MAX_LABELS)
		return -ENOSPC;
	more = realloc(b->labels, had + strlen(label) + 2);
	if (!more)
		return -ENOMEM;
	more[had] = '@';
	memcpy(more + had + 1, label, strlen(label) + 1);
	b->labels = more;
	return 0;
}

/* How many bytes of the owner that a row was written with name its pool; the rest are labels. */
static size_t pool_part(const struct row *r, const char *own)
{
	const char *pool = row_type__name(r->type);
	size_t n = strlen(pool);

	return !strncmp(own, pool, n) && (!own[n] || own[n] == '@') ? n : 0;
}

int became__dress(const struct became *b, bool newer, struct row *r, char **owner)
{
	const char *own = r->attrs & ATTR_OWNER && r->owner ? r->owner : "";
	size_t pool = pool_part(r, own);
	/* Only a pool is owned by operators: without the analysis there are labels alone. */
	bool ops = b->touched && r->type == ROW_PTA && pool;
	const char *base = b->owner;

	*owner = NULL;
	if (b->waste) {
		r->attrs |= ATTR_WASTE;
		r->waste = b->waste;
	}
	if (!b->owner && !b->labels && !ops)
		return 0;
	/* msleaks.md 8 and 17.7: what V-seed knows of a tensor wins, V-now has both. */
	if (asprintf(owner, "%.*s%s%s%s%s", base ? 0 : (int)pool, own, base ? base : "",
		     !ops    ? ""
		     : newer ? "@ops"
		     : base  ? ""
			     : "@ops@aten",
		     own + pool, b->labels ? b->labels : "") < 0) {
		*owner = NULL;
		return -ENOMEM;
	}
	r->attrs |= ATTR_OWNER;
	r->owner = *owner;
	return 0;
}

void became__free(struct became *b)
{
	free(b->labels);
}
