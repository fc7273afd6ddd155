// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: the Python side of stacks over a memory that is the input: how an
 * interpreter describes itself, its threads, frames, code objects, texts, line
 * tables. See run.sh.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/python.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

/* Addresses are offsets in the input; the upper bytes do not count, so that pointers hit. */
static int read_input(void *ctx, uint64_t addr, void *buf, size_t n)
{
	const struct input *in = ctx;

	addr &= 0xffff;
	if (addr > in->size || in->size - addr < n)
		return -EFAULT;
	memcpy(buf, in->data + addr, n);
	return 0;
}

static void try_layout(const struct input *in, const struct py_layout *layout)
{
	struct py_mem mem = { read_input, (void *)(uintptr_t)in };
	struct py_thread_state t[16];
	struct python py = { .mem = &mem, .layout = *layout };
	struct mt_py_stack *s = malloc(sizeof(*s));
	struct strbuf sb = { 0 };
	ssize_t n, i;

	if (!s || !py_layout__offsets(layout, 0, &py.offsets))
		goto out;
	n = py_threads__read(&mem, &py.offsets, t, 16);
	py.offsets.why = MT_PY_OK;
	for (i = 0; i < n; i++) {
		py_walk__state(&mem, &py.offsets, t[i].addr, MT_PY_DEPTH, s);
		if (s->n > MT_PY_DEPTH)
			abort();
		python__cell(&py, s, MT_PY_DEPTH, &sb);
		py_walk__memory(&mem, &py.offsets, t[i].id, (uint32_t)t[i].native, 3, s);
		if (s->n > 3)
			abort();
	}
out:
	free(s);
	strbuf__free(&sb);
	pycodes__free(py.codes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct py_layout layout;
	unsigned int minor = size ? data[size - 1] % 16 : 0;
	int line, self;

	if (!py_layout__described(data, size, &layout))
		try_layout(&in, &layout);
	else if (!py_layout__table(minor, EM_X86_64, &layout))
		try_layout(&in, &layout);
	(void)py_line__find((enum py_lines)(minor % 3), data, size, 1, (int32_t)minor * 100, &line);
	(void)py_slot__self_a64(data, size, &self);
	(void)py_slot__tls(EM_X86_64, data, size, &self);
	(void)py_slot__tls(EM_AARCH64, data, size, &self);
	return 0;
}
