// SPDX-License-Identifier: Apache-2.0
/* Memory of the process by pages, each read once in a pass: objects lie close together. */
#include "objects/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_mem(void *ctx, uint64_t addr, void *buf, size_t n)
{
	return heap__read(ctx, addr, buf, n);
}

int heap__init(struct heap *h, const struct py_mem *from, const struct py_layout *l)
{
	*h = (struct heap){
		.from = from, .mem = { read_mem, h }, .layout = *l, .minor = PY_MINOR(l->version)
	};
	h->tags = calloc(HEAP_PAGES, sizeof(*h->tags));
	h->pages = malloc((size_t)HEAP_PAGES * HEAP_PAGE);
	if (h->tags && h->pages)
		return 0;
	heap__free(h);
	return -ENOMEM;
}

void heap__free(struct heap *h)
{
	free(h->tags);
	free(h->pages);
	h->tags = NULL;
	h->pages = NULL;
}

void heap__forget(struct heap *h)
{
	memset(h->tags, 0, HEAP_PAGES * sizeof(*h->tags));
}

/* Also of what is kept: a structure that leads in a circle ends with the time. */
static bool over(struct heap *h, unsigned int mask)
{
	return !(++h->reads & mask) && h->deadline && clock__boot() > h->deadline;
}

int heap__read_now(struct heap *h, uint64_t addr, void *buf, size_t n)
{
	if (over(h, 15))
		return -ETIME;
	return py_mem__read(h->from, addr, buf, n);
}

static int page_at(struct heap *h, uint64_t addr, const uint8_t **page)
{
	uint64_t at = addr & ~(uint64_t)(HEAP_PAGE - 1);
	size_t i = at / HEAP_PAGE * 0x9e3779b97f4a7c15ULL >> 54; /* of 1024 */
	uint8_t *p = h->pages + i * HEAP_PAGE;
	int err;

	*page = p;
	if (h->tags[i] == at + 1)
		return 0;
	h->tags[i] = 0;
	err = heap__read_now(h, at, p, HEAP_PAGE);
	if (!err)
		h->tags[i] = at + 1;
	return err;
}

int heap__read(struct heap *h, uint64_t addr, void *buf, size_t n)
{
	uint8_t *to = buf;

	/* Addresses come from the process: they may be anything. */
	if (addr > UINT64_MAX / 2 || n > UINT32_MAX)
		return -EFAULT;
	if (over(h, 1023))
		return -ETIME;
	while (n) {
		size_t in = addr & (HEAP_PAGE - 1), part = MT_MIN(n, HEAP_PAGE - in);
		const uint8_t *p;
		int err = page_at(h, addr, &p);

		if (err)
			return err;
		memcpy(to, p + in, part);
		addr += part;
		to += part;
		n -= part;
	}
	return 0;
}

int heap__u64(struct heap *h, uint64_t addr, uint64_t *v)
{
	*v = 0;
	return heap__read(h, addr, v, sizeof(*v));
}
