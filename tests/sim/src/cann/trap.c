// SPDX-License-Identifier: Apache-2.0
/* Link-time stub with a real library's soname (devlib/): must never be probed, and aborts if called. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline, noreturn)) static void trapped(const char *fn)
{
	fprintf(stderr, "devlib stub called: %s\n", fn);
	abort();
}

#define TRAP(name)                              \
	__attribute__((visibility("default"))) \
	void name(void);                        \
	void name(void)                         \
	{                                       \
		trapped(#name);                 \
	}

#include TRAP_LIST
