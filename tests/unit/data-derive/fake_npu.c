// SPDX-License-Identifier: Apache-2.0
/*
 * A library with the bones of libtorch_npu.so, for the test of the derivation.
 * -DLAYOUT=1 (A), 2 (B) or 3 (C); 0 is generation 5.0. -DOUTER: the exported
 * functions report themselves. -DTWINS: two functions look like the report one.
 * -DNOBODY: with LAYOUT 0, nothing is called to report.
 */
#include <stddef.h>
#include <stdint.h>

#define HIDDEN	 __attribute__((visibility("hidden"), noinline))
#define NAMED(n) __asm__(n)

struct block {
	int device;
	long pad[5];
	size_t size; /* 48 */
	long pad2[2];
	void *ptr; /* 72 */
};

extern void *vtable[] NAMED("_ZTVN9torch_npu7toolkit8profiler10MemoryDataE");
extern void sink(const void *, long, long);
extern void *grow(size_t);
extern void c10_report(void *, long, size_t, size_t, int)
	NAMED("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

#if LAYOUT
#define REPORT(name, asmname) \
	HIDDEN void name(const uint8_t *u) NAMED(asmname); \
	HIDDEN void name(const uint8_t *u) \
	{ \
		long kind = 0; \
\
		sink(vtable, 1, 2); \
		kind = READ(u); \
		sink(*(void *const *)(u + 8), kind, *(const int64_t *)(u + 16)); \
		sink(*(void *const *)(u + 48), *(const int64_t *)(u + 24), 3); \
	}
#if LAYOUT == 1
#define READ(u) (*(const uint16_t *)(u) + (u)[2])
#elif LAYOUT == 2
#define READ(u) (*(const uint32_t *)(u))
#else
#define READ(u) (*(const uint32_t *)(u) + (u)[4])
#endif

REPORT(report, "report_memory")
#ifdef TWINS
REPORT(twin, "report_twin")
#else
#define twin(u) sink(u, 0, 0)
#endif

/* Loads the vtable and is called often, but is virtual. */
HIDDEN void virtual_report(const uint8_t *u) NAMED("virtual_report");
HIDDEN void virtual_report(const uint8_t *u)
{
	sink(vtable, u[4], u[2]);
	sink(vtable, 2, 2);
}

void *const table[2] = { (void *)virtual_report, (void *)sink };

/* Loads the vtable, but is called once. */
HIDDEN void seldom(void)
{
	sink(vtable, 7, 7);
	sink(0, 1, 1);
}
#elif defined(NOBODY)
#define report(u) sink(u, 1, 3)
#define twin(u)	  sink(u, 0, 0)
#define virtual_report(u) sink(u, 1, 2)
#define seldom()  sink(0, 0, 0)
#else
#define report(u) c10_report((void *)(u), 1, 2, 3, 4)
#define twin(u)	  sink(u, 0, 0)
#define virtual_report(u) sink(u, 1, 2)
#define seldom()  sink(0, 0, 0)
#endif

static void fill(uint8_t *u, struct block *b)
{
	__builtin_memset(u, 0, 56);
	__builtin_memcpy(u + 8, &b->ptr, 8);
}

HIDDEN struct block *inner_malloc(void *self, int device, size_t size, void *stream)
	NAMED("hidden_malloc");
HIDDEN struct block *inner_malloc(void *self, int device, size_t size, void *stream)
{
	struct block *b = grow(size);
	uint8_t u[56];

	b->device = device;
	fill(u, b);
	report(u);
	sink(self, device, 5);
	return b;
}

HIDDEN void inner_free(void *self, struct block *b) NAMED("hidden_free");
HIDDEN void inner_free(void *self, struct block *b)
{
	uint8_t u[56];

	fill(u, b);
	report(u);
	sink(self, 0, 6);
	b->device = -1; /* no call in tail position, as in the real one */
}

void *MallocBlock(size_t size, void *stream, int device)
	NAMED("_ZN7c10_npu19NPUCachingAllocator11MallocBlockEmPvi");
void *MallocBlock(size_t size, void *stream, int device)
{
	struct block *b;
#ifdef OUTER
	uint8_t u[56] = { 0 };

	report(u);
#endif
	sink(stream, device, 0);
	b = inner_malloc(stream, device, size, stream);
	sink(b, 1, 1);
	return b;
}

void FreeBlock(void *p) NAMED("_ZN7c10_npu19NPUCachingAllocator9FreeBlockEPv");
void FreeBlock(void *p)
{
#ifdef OUTER
	uint8_t u[56] = { 0 };

	report(u);
	sink(p, 2, 2);
#endif
	if (!p)
		return;
	sink(p, 1, 2);
	inner_free(*(void **)p, p);
}

void *GetBlockPtr(const struct block *b) NAMED("_ZN7c10_npu19NPUCachingAllocator11GetBlockPtrEPKv");
void *GetBlockPtr(const struct block *b)
{
	if (b)
		return b->ptr;
	sink(b, 0, 0);
	return 0;
}

size_t GetBlockSize(const struct block *b)
	NAMED("_ZN7c10_npu19NPUCachingAllocator12GetBlockSizeEPKv");
size_t GetBlockSize(const struct block *b)
{
	return b->size;
}

void others(struct block *b)
{
	uint8_t u[56];

	fill(u, b);
	report(u);
	virtual_report(u);
	virtual_report(u);
	sink(u, 1, 1);
	report(u);
	twin(u);
	virtual_report(u);
	twin(u);
	twin(u);
	twin(u);
	seldom();
	sink(u, 2, 2);
}

/* Python methods; the name of one is the tail of another's. */
#define METHOD(fn, asmname) \
	HIDDEN void *fn(void *self, void *args) NAMED(asmname); \
	HIDDEN void *fn(void *self, void *args) \
	{ \
		sink(self, __LINE__, 0); \
		return args; \
	}
METHOD(py_mark, "hidden_py_mark")
METHOD(py_mark_on_host, "hidden_py_mark_on_host")
METHOD(py_end, "hidden_py_end")
METHOD(py_twice, "hidden_py_twice")

struct method {
	const char *name;
	void *(*fn)(void *, void *);
	int flags;
	const char *doc;
} methods[] = {
	{ "_mark", py_mark, 1, 0 },
	{ "_mark_on_host", py_mark_on_host, 1, 0 },
	{ "range_mark", py_end, 1, "_range_end" },
	{ "_twice", py_mark, 1, 0 },
	{ "_twice", py_twice, 1, 0 },
};
const char *lonely[] = { "_lonely", (const char *)0 };
