// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: all analyses on events made of the bytes, in any order and with
 * any numbers, as damaged files have them. See run.sh.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Events of a block are in the order of time, and within its life. */
static int on_watched(void *ctx, const struct watch_block *b)
{
	size_t i;

	if (b->n_events > WATCH_EVENTS + 1 || (b->more && b->n_events < WATCH_EVENTS))
		abort();
	for (i = 0; i < b->n_events; i++)
		if (b->events[i].ops.n_names > WATCH_NAMES ||
		    b->events[i].ops.n_names > b->events[i].ops.n)
			abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAMES 8
static const char *const names[NAMES] = { "",
					  "step start",
					  "Range end from id 1",
					  "Range end from id 2",
					  "test",
					  "torch._ops.aten.mm.default",
					  "PTA@ops@aten@x",
					  "/torch/optim/adam.py(1): _init_group\n" };
static struct texts *texts;
static uint32_t numbers[NAMES];
static struct rules *rules;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int i, err = 0;

	(void)argc;
	(void)argv;
	texts = texts__new(1 << 16);
	rules = rules__new();
	if (!texts || !rules ||
	    rules__parse(rules, rules__default, strlen(rules__default), "default"))
		abort();
	for (i = 1; i < NAMES; i++)
		numbers[i] = texts__put(texts, names[i], strlen(names[i]), &err);
	return err;
}

/* Few different values, so that things meet; now and then any. */
static struct item make(const uint8_t *b, uint64_t time)
{
	static const uint64_t odd[] = { 0,	   1,	       512,	   UINT64_MAX,
					INT64_MAX, 1ULL << 63, 1ULL << 32, 4096 };
	struct item it = { .time = b[0] & 0x80 ? odd[b[0] & 7] : time,
			   .seq = (uint32_t)time,
			   .id = b[1] };

	it.event = b[2] % ROW_EVENT_MAX;
	it.type = b[3] % (ROW_TYPE_MAX + 1);
	it.pool = b[4] % (ROW_TYPE_MAX + 1);
	it.ptr = odd[b[5] & 7];
	it.alloc = odd[b[5] >> 4 & 7];
	it.size = (int64_t)odd[b[6] & 7];
	it.used = odd[b[6] >> 4 & 7];
	it.pid = b[7] & 3;
	it.tid = b[7] >> 2 & 3;
	it.device = (int32_t)(b[7] >> 4 & 3) - 1;
	it.name = numbers[b[8] & 7];
	it.owner = numbers[b[8] >> 4 & 7];
	it.stack_py = numbers[b[9] & 7];
	it.stack_c = numbers[b[9] >> 4 & 7];
	it.flags = b[1] & 0x1f;
	return it;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct decompose_opts opts = { .refine = size & 1 };
	struct leaks *l = leaks__new(texts);
	struct range *r = range__new(texts, "test", size & 3);
	struct inefficient *x = inefficient__new(3, 0);
	struct compare *c = compare__new(1 + (unsigned int)size % 3);
	struct decompose *d = decompose__new(rules, texts, &opts);
	struct watch_opts wo = { .has_size = true,
				 .most = INT64_MAX,
				 .max_blocks = 1 + size % 50,
				 .block = on_watched };
	struct watch *w;
	size_t i, n, comparable = 1;
	struct item it;

	if (size & 2) {
		wo.start = texts__get(texts, 1, NULL);
		wo.end = texts__get(texts, 2, NULL);
	}
	w = watch__new(&wo, texts);
	if (!l || !r || !x || !c || !d || !w)
		abort();
	for (i = 0; (i + 1) * 10 <= size; i++) {
		it = make(data + i * 10, i + 1);
		if (leaks__item(l, &it) || range__item(r, &it) || inefficient__item(x, &it) ||
		    decompose__item(d, &it) || watch__item(w, &it))
			abort();
		if (comparable && compare__item(c, it.tid & 1, &it))
			comparable = 0;
	}
	if (leaks__finish(l) || range__finish(r) || inefficient__finish(x) || decompose__finish(d) ||
	    watch__finish(w))
		abort();
	if (comparable)
		compare__finish(c);
	leaks__list(l, &n);
	compare__rows(c, &n);
	leaks__free(l);
	range__free(r);
	inefficient__free(x);
	compare__free(c);
	decompose__free(d);
	watch__free(w);
	return 0;
}
