// SPDX-License-Identifier: Apache-2.0
/* What only the compatibility library libascendcl.so has: logging. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) void aclAppLog(int level, const char *func, const char *file,
						      uint32_t line, const char *fmt, ...);

void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
	const char *e = getenv("SIM_LOG");
	va_list ap;

	if (!e || level < atoi(e))
		return;
	va_start(ap, fmt);
	fprintf(stderr, "[acl %d] %s:%u ", level, func, line);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}
