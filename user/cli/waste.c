// SPDX-License-Identifier: Apache-2.0
/* --analysis=inefficient while the recording runs: the marks go into the rows of their blocks. */
#include <errno.h>
#include <string.h>

#include "analyze/waste.h"
#include "cli/cli.h"
#include "cli/msleaks_options.h"
#include "cli/session.h"

#define IDLE 3000 /* msleaks.md 7 */

/* What a block may be, in any order: their texts live as long as we do. */
static const char *words(const struct ineff_block *b)
{
	static char texts[1 + INEFF_MAX * (1 + (INEFF_MAX - 1) * 2)][64];
	static size_t n;
	char text[64] = "";
	size_t len = 0, i;

	for (i = 0; i < b->n_kinds; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
					ineff__name((enum ineff)b->kinds[i]));
	for (i = 0; i < n; i++)
		if (!strcmp(texts[i], text))
			return texts[i];
	/* All that there are have room. */
	if (n == MT_ARRAY_SIZE(texts))
		return NULL;
	memcpy(texts[n], text, sizeof(text));
	return texts[n++];
}

static void on_mark(void *ctx, const struct ineff_block *b)
{
	struct session *s = ctx;

	out__waste(s->out, b->pid, b->type, b->ptr, words(b));
}

int waste__open(struct session *s)
{
	/* In the order of time a MALLOC row is written before anything is known of its block. */
	if (!(s->opts.analysis & MSLEAKS_INEFFICIENT) || s->opts.order != OUT_ORDER_BLOCK)
		return 0;
	s->waste = inefficient__new(IDLE, 0);
	if (!s->waste)
		return -ENOMEM;
	inefficient__live(s->waste, on_mark, s);
	return 0;
}

void waste__row(struct session *s, const struct row *r)
{
	struct item it = { .time = r->time,
			   .id = r->id,
			   .ptr = r->ptr,
			   .size = r->size,
			   .pid = r->pid,
			   .tid = r->tid,
			   .device = r->device,
			   .event = (uint8_t)r->event,
			   .type = (uint8_t)r->type,
			   .pool = (uint8_t)r->type,
			   .flags = r->attrs & ATTR_SHADOW ? ITEM_SHADOW : 0 };

	if (!s->waste)
		return;
	if (r->event == ROW_ACCESS) {
		it.pool = (uint8_t)r->pool;
		it.ptr = r->block_ptr;
	}
	if (!inefficient__item(s->waste, &it))
		return;
	pr_warn("inefficient: out of memory: from here on rows get no inefficient_type; the "
		"analysis of the file does not need them");
	inefficient__free(s->waste);
	s->waste = NULL;
}

void waste__ended(struct session *s, uint32_t pid)
{
	if (s->waste)
		inefficient__forget(s->waste, pid);
}
