// SPDX-License-Identifier: Apache-2.0
/* libmemtap_marks: functions that do nothing, for memtap to probe. */
#include "memtap/marks.h"

#include <string.h>

/* Kept as it is written, arguments in their registers: a nop is an instruction that kernels emulate
 * under a probe. */
#define HERE __attribute__((noinline, used))
#define NOTHING __asm__ volatile("nop" ::"r"(what), "r"(value), "r"(text) : "memory")

/* Bytes from the entry to behind the instruction that a probe replaces: the nop, on aarch64 before
 * 6.13 the ret behind it. */
#if defined(__x86_64__)
#ifdef __CET__
#define PROBED 5
#else
#define PROBED 1
#endif
#elif defined(__ARM_FEATURE_BTI_DEFAULT)
#define PROBED 12
#else
#define PROBED 8
#endif

__attribute__((visibility("default"))) HERE void memtap_mark(unsigned long what, unsigned long value,
							    const char *text)
{
	NOTHING;
}

/* The same code, which nobody probes. */
static HERE void twin(unsigned long what, unsigned long value, const char *text)
{
	NOTHING;
}

/* As data, by a pointer that the compiler knows nothing of: it would compare names. */
static const void *code(void (*f)(unsigned long, unsigned long, const char *))
{
	const void *p = (const void *)f;

	__asm__("" : "+r"(p));
	return p;
}

__attribute__((visibility("default"))) int memtap_traced(void)
{
	return memcmp(code(memtap_mark), code(twin), PROBED) != 0;
}
