// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: a dump csv that anybody may have written, and the same bytes as
 * the Attr of a db's row. See run.sh.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "input/internal.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int mem = -1;
static char path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log__set_level((enum log_level) - 1);
	mem = memfd_create("dump", 0);
	if (mem < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem);
	return 0;
}

static uint64_t sum;

static void touch(struct slice c)
{
	size_t i;

	for (i = 0; i < c.n; i++)
		sum += (unsigned char)c.s[i];
}

static void read_all(void)
{
	struct strbuf scratch = { 0 };
	struct in_pair pairs[8];
	struct in_file *f;
	size_t n, k;
	struct in_row r;
	int64_t v;
	int i;

	if (in_file__open(path, &f))
		return;
	while (in_file__next(f, &r) > 0) {
		touch(r.name);
		for (i = 0; i < COL_MAX; i++)
			touch(r.cell[i]);
		for (i = 0; i < KEY_MAX; i++) {
			if (r.keys & 1u << i)
				touch(r.attr[i]);
			sum += in_row__num(&r, (enum in_key)i, &v) ? (uint64_t)v : 0;
		}
		in_row__pairs(&r, pairs, 8, &n, &scratch);
		for (k = 0; k < n && k < 8; k++) {
			touch(pairs[k].key);
			touch(pairs[k].value);
		}
	}
	in_file__close(f);
	strbuf__free(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf scratch = { 0 };
	struct in_row r = { 0 };
	int i;

	if (ftruncate(mem, 0) || pwrite(mem, data, size, 0) != (ssize_t)size)
		abort();
	read_all();
	r.cell[COL_ATTR] = (struct slice){ (const char *)data, size };
	if (attr__read_json(&r, &scratch)) {
		for (i = 0; i < KEY_MAX; i++) {
			if (r.keys & 1u << i)
				touch(r.attr[i]);
		}
	}
	strbuf__free(&scratch);
	return 0;
}
