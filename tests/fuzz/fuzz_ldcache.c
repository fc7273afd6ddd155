// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: the reader of ld.so.cache, a file of the traced process's namespace. See run.sh. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/ldcache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum;

static int each(void *ctx, const char *name, const char *path)
{
	size_t *n = ctx;

	sum += strlen(name) + strlen(path);
	return ++*n == 100000; /* texts may overlap: not for ever */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1); /* nothing readable behind it */
	size_t n = 0;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	ldcache__parse(copy, size, each, &n);
	free(copy);
	return 0;
}
