// SPDX-License-Identifier: Apache-2.0
/* Tensors that were read from Python objects, and the blocks that they lie in. */
#include <errno.h>

#include "capture/capture.h"
#include "model/internal.h"

static struct process *process_of(const struct model *m, const struct model_owned *o)
{
	uint64_t *v = hmap__get(&m->by_tgid, (struct hkey){ o->tgid, o->start });
	struct process *p = v ? m->procs[*v] : NULL;

	return p && !p->ended ? p : NULL;
}

/* One that begins at or around an address; NULL: none was seen. */
static const struct block *block_of(const struct model *m, const struct process *p, uint64_t addr,
				    bool around)
{
	struct hkey k;
	uint64_t no;
	size_t pos = 0;

	if (!around)
		return model__live(m, p, LAYER_PTA, addr);
	while (hmap__next(&m->live, &pos, &k, &no)) {
		const struct block *b = &m->blocks[no];

		if (k.b >> 8 == p->index && (k.b & 0xff) == LAYER_PTA && addr >= b->addr &&
		    b->size > 0 && addr - b->addr < (uint64_t)b->size)
			return b;
	}
	return NULL;
}

int model__owned(const struct model *m, const struct model_owned *o, bool around,
		 struct model_owned_block *out)
{
	const struct process *p = process_of(m, o);
	const struct block *b = p ? block_of(m, p, o->addr, around) : NULL;

	if (!b)
		return p ? -ENOENT : -ESRCH;
	/* Made while it was read: what was read may be of the one before. */
	if (b->time >= o->t0 || (b->device >= 0 && b->device != o->device))
		return -EAGAIN;
	*out = (struct model_owned_block){ .addr = b->addr,
					   .allocation_id = b->allocation_id,
					   .size = b->size,
					   .device = b->device };
	return 0;
}

bool model__own(struct model *m, const struct model_owned *o, const struct model_owned_block *b,
		uint8_t kind)
{
	const struct process *p = process_of(m, o);
	const struct block *known = p ? model__live(m, p, LAYER_PTA, b->addr) : NULL;

	if (!known || known->object == kind + 1)
		return false;
	m->blocks[known - m->blocks].object = (uint8_t)(kind + 1);
	return true;
}
