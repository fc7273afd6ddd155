// SPDX-License-Identifier: Apache-2.0
/* Tensors that were read from Python objects, and the blocks that they lie in. */
#include <errno.h>

#include "capture/capture.h"
#include "model/internal.h"

int model__own(struct model *m, const struct model_owned *o, struct model_owned_block *out)
{
	uint64_t *v = hmap__get(&m->by_tgid, (struct hkey){ o->tgid, o->start });
	struct process *p = v ? m->procs[*v] : NULL;
	const struct block *known;
	struct block *b;

	if (!p || p->ended)
		return -ESRCH;
	known = model__live(m, p, LAYER_PTA, o->addr);
	if (!known)
		return -ENOENT;
	b = &m->blocks[known - m->blocks];
	/* Made while it was read: what was read may be of the one before. */
	if (b->time >= o->t0 || (b->device >= 0 && b->device != o->device))
		return -EAGAIN;
	*out = (struct model_owned_block){ .allocation_id = b->allocation_id,
					   .size = b->size,
					   .device = b->device };
	if (b->object == o->kind + 1)
		return 0;
	b->object = (uint8_t)(o->kind + 1);
	return 1;
}
