// SPDX-License-Identifier: Apache-2.0
/*
 * Where a thread keeps the pointer to its Python state. Nothing is taken from a
 * table: the threads that the interpreter lists are looked at, and the place is
 * the one that holds, in each of them, its own state.
 *
 * To 3.14 it is a key of the C library (pthread_getspecific): the slot stays set
 * while the thread has released the interpreter's lock, unlike _Py_tss_tstate.
 * 3.15 has a thread-local variable instead, which PyGILState_GetThisThreadState
 * returns.
 */
#include "symbol/python.h"

#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/elf.h"
#include "target/target.h"

#define SELF_MAX 2560 /* struct pthread: glibc 2.36 has 2368 bytes, musl some 200 */
#define GLIBC_FIRST                                                                  \
	32 /* keys in the thread itself, 16 bytes each, the value in the second word \
	    */
#define GLIBC_BLOCKS 32
#define MUSL_KEYS 128
#define CHECKED 16 /* threads that a place is checked with */

struct slot {
	int64_t off; /* from the thread's own address, what thread_id is */
	uint32_t block;
	bool deref;
};

struct search {
	const struct py_mem *mem;
	const struct py_thread_state *t;
	size_t n;
	struct slot found;
};

static int slot_value(const struct py_mem *m, const struct slot *s, uint64_t self, uint64_t *v)
{
	int err = py_mem__u64(m, self + (uint64_t)s->off, v);

	if (!err && s->deref && *v)
		err = py_mem__u64(m, *v + s->block, v);
	return err;
}

static bool is_state_of(const struct search *s, uint64_t addr, uint64_t self)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->t[i].addr == addr && s->t[i].id == self)
			return true;
	return false;
}

/* Does this place hold a state of the thread itself in all of them, where it holds one at all? */
static bool is_slot(const struct search *s, const struct slot *p)
{
	size_t i, held = 0;
	uint64_t v;

	for (i = 0; i < s->n && i < CHECKED; i++) {
		if (slot_value(s->mem, p, s->t[i].id, &v))
			continue; /* it is ending */
		if (!v)
			continue;
		if (!is_state_of(s, v, s->t[i].id))
			return false;
		held++;
	}
	return held > 0;
}

static bool try_slot(struct search *s, int64_t off, bool deref, uint32_t block)
{
	struct slot p = { .off = off, .deref = deref, .block = block };

	if (!is_slot(s, &p))
		return false;
	s->found = p;
	return true;
}

/* The words of a thread's own structure, as far as they can be read; their number. */
static size_t read_self(const struct py_mem *m, uint64_t self, uint64_t *w)
{
	size_t at;

	for (at = 0; at < SELF_MAX; at += 64)
		if (py_mem__read(m, self + at, w + at / 8, 64))
			break;
	return at / 8;
}

/* glibc: specific_1stblock[32], then specific[32], whose first entry points at it. */
static bool find_glibc(struct search *s, uint64_t self, const uint64_t *w, size_t n, uint64_t state)
{
	const size_t first = GLIBC_FIRST * 2;
	uint64_t block[GLIBC_FIRST * 2];
	size_t x, i, k;

	for (x = first; x < n; x++) {
		if (w[x] != self + 8 * (x - first))
			continue;
		for (i = 0; i < GLIBC_FIRST; i++)
			if (w[x - first + 2 * i + 1] == state &&
			    try_slot(s, (int64_t)(8 * (x - first + 2 * i + 1)), false, 0))
				return true;
		for (k = 1; k < GLIBC_BLOCKS && x + k < n; k++) {
			if (!w[x + k] || py_mem__read(s->mem, w[x + k], block, sizeof(block)))
				continue;
			for (i = 0; i < GLIBC_FIRST; i++)
				if (block[2 * i + 1] == state &&
				    try_slot(s, (int64_t)(8 * (x + k)), true,
					     (uint32_t)(16 * i + 8)))
					return true;
		}
	}
	return false;
}

/* musl: a pointer to an array of the values. */
static bool find_musl(struct search *s, const uint64_t *w, size_t n, uint64_t state)
{
	uint64_t block[MUSL_KEYS];
	size_t x, i;

	for (x = 0; x < n && x < 64; x++) {
		if (!w[x] || (w[x] & 7) || py_mem__read(s->mem, w[x], block, sizeof(block)))
			continue;
		for (i = 0; i < MUSL_KEYS; i++)
			if (block[i] == state &&
			    try_slot(s, (int64_t)(8 * x), true, (uint32_t)(8 * i)))
				return true;
	}
	return false;
}

static bool find_key(struct search *s)
{
	uint64_t w[SELF_MAX / 8];
	size_t i, n;

	for (i = 0; i < s->n && i < CHECKED; i++) {
		n = read_self(s->mem, s->t[i].id, w);
		if (find_glibc(s, s->t[i].id, w, n, s->t[i].addr) ||
		    find_musl(s, w, n, s->t[i].addr))
			return true;
	}
	return false;
}

struct libc {
	pid_t pid;
	int32_t *self;
	bool found;
};

static int self_of(struct elf_image *img, int32_t *self)
{
	uint64_t vaddr, size;
	const uint8_t *code;
	size_t rest;

	if (elf_image__symbol(img, "pthread_self", &vaddr, &size))
		return -ENOENT;
	code = elf_image__rest(img, vaddr, &rest);
	return code ? py_slot__self_a64(code, rest, self) : -EINVAL;
}

static int look_libc(void *ctx, const struct mapping *m)
{
	static const char *const names[] = { "libc.so*", "libc-2.*.so", "libpthread*.so*",
					     "ld-musl-*", "libc.musl-*" };
	const char *base = strrchr(m->path, '/') + 1;
	struct libc *l = ctx;
	struct elf_image *img;
	size_t i;
	int fd;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++)
		if (!fnmatch(names[i], base, 0))
			break;
	if (i == MT_ARRAY_SIZE(names))
		return 0;
	fd = mapping__open(l->pid, m);
	if (fd < 0)
		return 0;
	if (!elf_image__open_fd(fd, m->path, &img)) {
		l->found = !self_of(img, l->self);
		elf_image__close(img);
	}
	close(fd);
	return l->found;
}

/* thread_id is pthread_self(), which on x86-64 is the thread pointer itself. */
static int find_self(struct python *py, struct elf_image *img, int32_t *self)
{
	struct libc l = { .pid = py->proc.pid, .self = self };

	*self = 0;
	if (elf_image__machine(img) == EM_X86_64)
		return 0;
	if (proc__each_mapping(py->proc.pid, look_libc, &l) >= 0 && l.found)
		return 0;
	return self_of(img, self); /* linked statically */
}

/* The variable that PyGILState_GetThisThreadState returns, off from the thread pointer. */
static bool find_tls(struct search *s, struct elf_image *img, int32_t self, int32_t *off)
{
	uint64_t vaddr, size;
	const uint8_t *code;
	size_t rest;

	if (elf_image__symbol(img, "PyGILState_GetThisThreadState", &vaddr, &size))
		return false;
	code = elf_image__rest(img, vaddr, &rest);
	if (!code || py_slot__tls(elf_image__machine(img), code, rest, off))
		return false;
	return try_slot(s, (int64_t)*off - self, false, 0);
}

int py_slot__find(struct python *py, struct elf_image *img, uint64_t bias,
		  const struct py_thread_state *t, size_t n)
{
	struct search s = { .mem = py->mem, .t = t, .n = n };
	struct mt_py_offsets *o = &py->offsets;
	int32_t self, off;
	int64_t slot;

	o->find = MT_PY_FIND_LIST;
	if (find_self(py, img, &self)) {
		/* Without it only the number that the kernel gave a thread tells who it is. */
		return -ENOENT;
	}
	o->self = self;
	if (!find_key(&s) && !find_tls(&s, img, self, &off))
		return -ENOENT;
	slot = s.found.off + self;
	if (slot != (int32_t)slot)
		return -ENOENT;
	o->slot = (int32_t)slot;
	o->block = s.found.block;
	o->find = s.found.deref ? MT_PY_FIND_BLOCK : MT_PY_FIND_SLOT;
	return 0;
}
