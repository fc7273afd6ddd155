// SPDX-License-Identifier: Apache-2.0
/*
 * Allocators that are preloaded: one of its own, with operators new and delete, which (TAIL) may be
 * left by a jump; or (WRAP) one that only hands on to the C library.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default"), noinline))

API void *malloc(size_t n);
API void free(void *p);
API void *calloc(size_t n, size_t m);
API void *realloc(void *p, size_t n);

#ifdef WRAP
static void *(*real_malloc)(size_t);
static void (*real_free)(void *);

__attribute__((constructor)) static void find(void)
{
	real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t n)
{
	void *p;

	if (!real_malloc)
		find();
	p = real_malloc(n);
	__asm__ volatile("" : "+r"(p)); /* no tail call */
	return p;
}

void free(void *p)
{
	if (!real_free)
		find();
	real_free(p);
	__asm__ volatile("");
}
#else
#define HEAP (64u << 20)

static char heap[HEAP] __attribute__((aligned(4096)));
static size_t used;

static void *take(size_t n, size_t align)
{
	size_t *head, at, end;

	do {
		at = __atomic_load_n(&used, __ATOMIC_RELAXED);
		end = (at + 16 + align - 1) / align * align;
		if (n > HEAP || end + n > HEAP)
			return NULL;
	} while (!__atomic_compare_exchange_n(&used, &at, (end + n + 15) & ~(size_t)15, 0,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	head = (size_t *)(heap + end) - 1;
	*head = n;
	return heap + end;
}

__attribute__((visibility("default"))) void (*host_hook)(void);

void *malloc(size_t n)
{
	if (n == 424242 && host_hook)
		host_hook();
	return take(n, 16);
}

void free(void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

void *calloc(size_t n, size_t m)
{
	return m && n > HEAP / m ? NULL : take(n * m, 16);
}

void *realloc(void *p, size_t n)
{
	size_t old = p ? ((size_t *)p)[-1] : 0;
	void *q;

	if (p && !n)
		return NULL;
	q = take(n, 16);
	if (q && p)
		memcpy(q, p, old < n ? old : n);
	return q;
}

API int posix_memalign(void **out, size_t align, size_t n)
{
	void *p = take(n, align);

	if (!p)
		return 12;
	*out = p;
	return 0;
}

API void *aligned_alloc(size_t align, size_t n)
{
	return take(n, align);
}

API void *memalign(size_t align, size_t n)
{
	return take(n, align < 16 ? 16 : align);
}

API void *valloc(size_t n)
{
	return take(n, 4096);
}

/* operator new(size_t), operator delete(void *) */
API void *_Znwm(size_t n);
API void _ZdlPv(void *p);

#ifdef TAIL
void *_Znwm(size_t n)
{
	return n > 100000 ? malloc(n) : take(n, 16); /* a jump, to another function */
}
#else
void *_Znwm(size_t n)
{
	void *p = take(n, 16);

	__asm__ volatile("" : "+r"(p)); /* no tail call */
	return p;
}
#endif

void _ZdlPv(void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}
#endif
