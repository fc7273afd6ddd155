// SPDX-License-Identifier: Apache-2.0
/* Names in compressed blocks: filled once, read one at a time. */
#include "symbol/namestore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define BLOCK 32768u
#define LEVEL 1

static void *grow(void *p, size_t *cap, size_t need, size_t entry)
{
	size_t n = *cap ? *cap : 16;
	void *q;

	while (n < need)
		n *= 2;
	if (n == *cap)
		return p;
	q = realloc(p, n * entry);
	if (q)
		*cap = n;
	return q;
}

static int pack(struct namestore *ns)
{
	size_t bound = ZSTD_compressBound(ns->open.len), n;
	struct name_block *b;
	void *z;

	if (!ns->open.len)
		return 0;
	if (!ns->compressor)
		ns->compressor = ZSTD_createCCtx();
	if (!ns->compressor || ns->z_len + bound > UINT32_MAX)
		goto fail;
	z = grow(ns->z, &ns->z_cap, ns->z_len + bound, 1);
	if (!z)
		goto fail;
	ns->z = z;
	b = grow(ns->blocks, &ns->blocks_cap, ns->n_blocks + 1, sizeof(*b));
	if (!b)
		goto fail;
	ns->blocks = b;
	n = ZSTD_compressCCtx(ns->compressor, ns->z + ns->z_len, bound, ns->open.data, ns->open.len,
			      LEVEL);
	if (ZSTD_isError(n))
		goto fail;
	b[ns->n_blocks++] = (struct name_block){ ns->total, (uint32_t)ns->z_len };
	ns->z_len += n;
	ns->total += (uint32_t)ns->open.len;
	strbuf__reset(&ns->open);
	return 0;
fail:
	ns->open.failed = true;
	return -ENOMEM;
}

uint32_t namestore__add(struct namestore *ns, const char *name, size_t len, const char *suffix)
{
	size_t k = strlen(suffix);
	uint32_t no;

	if (!len || len > NAME_MAX_LEN || ns->open.failed)
		return NAME_NONE;
	if (ns->open.len + len + k + 1 > BLOCK && pack(ns))
		return NAME_NONE;
	if (ns->total > UINT32_MAX - 2 * BLOCK)
		return NAME_NONE;
	no = ns->total + (uint32_t)ns->open.len;
	strbuf__add(&ns->open, name, len);
	strbuf__add(&ns->open, suffix, k + 1);
	return ns->open.failed ? NAME_NONE : no;
}

int namestore__finish(struct namestore *ns)
{
	int err = ns->open.failed ? -ENOMEM : pack(ns);
	void *p;

	ZSTD_freeCCtx(ns->compressor);
	ns->compressor = NULL;
	strbuf__free(&ns->open);
	if (err || !ns->n_blocks)
		return err;
	p = realloc(ns->z, ns->z_len);
	if (p) {
		ns->z = p;
		ns->z_cap = ns->z_len;
	}
	p = realloc(ns->blocks, ns->n_blocks * sizeof(*ns->blocks));
	if (p) {
		ns->blocks = p;
		ns->blocks_cap = ns->n_blocks;
	}
	return 0;
}

int namestore__get(const struct namestore *ns, uint32_t name, struct strbuf *sb)
{
	size_t lo = 0, hi = ns->n_blocks, z_end, text_end, got;
	const struct name_block *b;
	char text[BLOCK];
	uint32_t at;

	if (name >= ns->total)
		return -ENOENT;
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (ns->blocks[mid].start <= name)
			lo = mid;
		else
			hi = mid;
	}
	b = &ns->blocks[lo];
	z_end = lo + 1 < ns->n_blocks ? b[1].at : ns->z_len;
	text_end = lo + 1 < ns->n_blocks ? b[1].start : ns->total;
	at = name - b->start;
	got = ZSTD_decompress(text, sizeof(text), ns->z + b->at, z_end - b->at);
	if (ZSTD_isError(got) || got != text_end - b->start)
		return -ENOMEM; /* its own bytes: only memory can fail */
	/* Names were copied out of a file that may change: one can hold a NUL, too. */
	strbuf__add(sb, text + at, strnlen(text + at, got - at));
	return sb->failed ? -ENOMEM : 0;
}

size_t namestore__bytes(const struct namestore *ns)
{
	return ns->z_cap + ns->blocks_cap * sizeof(*ns->blocks) + ns->open.cap;
}

void namestore__free(struct namestore *ns)
{
	ZSTD_freeCCtx(ns->compressor);
	strbuf__free(&ns->open);
	free(ns->z);
	free(ns->blocks);
	*ns = (struct namestore){ 0 };
}
