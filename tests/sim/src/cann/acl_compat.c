// SPDX-License-Identifier: Apache-2.0
/* What only the compatibility library libascendcl.so has: logging. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) void aclAppLog(int level, const char *func, const char *file,
						      uint32_t line, const char *fmt, ...);

/* A line is one write, so that threads do not mix theirs; it names the thread as the real log does.
 */
void aclAppLog(int level, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
	const char *e = getenv("SIM_LOG");
	char text[1024];
	va_list ap;
	size_t n;
	int k;

	if (!e || level < atoi(e))
		return;
	k = snprintf(text, sizeof(text), "[acl %d] %d %s:%u ", level, gettid(), func, line);
	n = k < 0 ? 0 : (size_t)k < sizeof(text) ? (size_t)k : sizeof(text) - 1;
	va_start(ap, fmt);
	k = vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	n += k < 0 ? 0 : (size_t)k;
	if (n > sizeof(text) - 1)
		n = sizeof(text) - 1;
	text[n++] = '\n';
	k = (int)write(STDERR_FILENO, text, n);
	(void)k;
}
