// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: a file of rules, up to the first zero byte, and what is behind
 * it as a call stack and operator of a block that they judge. See run.sh.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An expression may take any time, by its own nature; that is not what is looked for. */
static bool slow(const uint8_t *data, size_t n)
{
	return memchr(data, '{', n) || memchr(data, '*', n) || memchr(data, '+', n) ||
	       memchr(data, '\\', n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = memchr(data, 0, size);
	size_t n = zero ? (size_t)(zero - data) : size;
	struct decompose_opts opts = { .refine = true };
	struct item it = {
		.event = ROW_MALLOC, .type = ROW_PTA, .pool = ROW_PTA, .ptr = 1, .size = 512
	};
	struct texts *texts;
	struct rules *rules;
	struct decompose *d;
	size_t pools;
	int err = 0;

	if (slow(data, n))
		return 0;
	log__set_level(LOG_ERROR);
	rules = rules__new();
	texts = texts__new(1 << 20);
	if (!rules || !texts)
		abort();
	if (!rules__parse(rules, (const char *)data, n, "fuzz")) {
		d = decompose__new(rules, texts, &opts);
		if (!d)
			abort();
		if (size > n) {
			it.stack_py = it.stack_c = it.owner = it.name = texts__put(
				texts, (const char *)data + n, size - n, &err);
		}
		if (decompose__item(d, &it) || decompose__finish(d))
			abort();
		decompose__pools(d, &pools);
		if (pools != 1)
			abort();
		decompose__free(d);
	}
	texts__free(texts);
	rules__free(rules);
	return 0;
}
