/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF unwinder in user space, on arrays that an unwind_store fills. */
#ifndef MEMTAP_UNIT_UNWIND_TEST_H
#define MEMTAP_UNIT_UNWIND_TEST_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/symbol.h"

struct arrays {
	struct mt_uw_chunk *chunks[MT_UW_MAX_CHUNKS];
	struct mt_uw_page *pages;
	struct mt_uw_rule *rules;
	struct mt_uw_map *maps;
	struct mt_uw_proc proc;
	bool has_proc;
};

static struct arrays kernel;
/* Memory of the stack that is walked. */
static int (*read_memory)(void *dst, uint32_t n, uint64_t addr);

static inline int uw_read(void *dst, uint32_t n, uint64_t addr)
{
	return read_memory(dst, n, addr);
}

/* Who notes what a walk needs has it read that only. */
static inline int uw_peek(void *dst, uint32_t n, uint64_t addr)
{
#ifdef UW_NO_PEEK
	return -EFAULT;
#else
	return read_memory(dst, n, addr);
#endif
}

static inline struct mt_uw_map *uw_map_at(uint32_t i)
{
	return i < MT_UW_MAX_MAPS ? &kernel.maps[i] : NULL;
}

static inline struct mt_uw_page *uw_page_at(uint32_t i)
{
	return i < MT_UW_MAX_PAGES ? &kernel.pages[i] : NULL;
}

static inline struct mt_uw_rule *uw_rule_at(uint32_t i)
{
	return i < MT_UW_MAX_RULES ? &kernel.rules[i] : NULL;
}

static inline struct mt_uw_chunk *uw_chunk_at(uint32_t i)
{
	return i < MT_UW_MAX_CHUNKS ? kernel.chunks[i] : NULL;
}

/* Nobody has put a return probe on a stack that is walked here. */
#define uw_replaced(u) 0

#if defined(__aarch64__)
#define UW_ARM64
#endif
#include "../../bpf/lib/unwind.bpf.h"

static int put_chunk(void *ctx, uint32_t no, const struct mt_uw_chunk *c)
{
	if (!c) {
		free(kernel.chunks[no]);
		kernel.chunks[no] = NULL;
		return 0;
	}
	if (!kernel.chunks[no])
		kernel.chunks[no] = malloc(sizeof(*c));
	*kernel.chunks[no] = *c;
	return 0;
}

static int put_pages(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n)
{
	memcpy(kernel.pages + first, p, n * sizeof(*p));
	return 0;
}

static int put_rules(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n)
{
	memcpy(kernel.rules + first, r, n * sizeof(*r));
	return 0;
}

static int put_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	memcpy(kernel.maps + first, m, n * sizeof(*m));
	return 0;
}

static int put_proc(void *ctx, pid_t pid, const struct mt_uw_proc *p)
{
	kernel.has_proc = p != NULL;
	if (p)
		kernel.proc = *p;
	return 0;
}

static const struct unwind_sink to_arrays = { .chunk = put_chunk, .pages = put_pages, .rules = put_rules, .maps = put_maps, .proc = put_proc };

static void arrays__init(void)
{
	kernel.pages = calloc(MT_UW_MAX_PAGES, sizeof(*kernel.pages));
	kernel.rules = calloc(MT_UW_MAX_RULES, sizeof(*kernel.rules));
	kernel.maps = calloc(MT_UW_MAX_MAPS, sizeof(*kernel.maps));
}

static void arrays__fini(void)
{
	size_t i;

	for (i = 0; i < MT_UW_MAX_CHUNKS; i++)
		free(kernel.chunks[i]);
	free(kernel.pages);
	free(kernel.rules);
	free(kernel.maps);
	memset(&kernel, 0, sizeof(kernel));
}

#endif
