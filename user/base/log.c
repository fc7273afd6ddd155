// SPDX-License-Identifier: Apache-2.0
/* Messages to stderr, one write a line so that lines of threads do not mix. */
#include "base.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum log_level max_level = LOG_INFO;
static void (*before_hook)(void);
static unsigned int errors;

void log__set_level(enum log_level level)
{
	max_level = level;
}

enum log_level log__level(void)
{
	return max_level;
}

void log__set_hook(void (*before)(void))
{
	before_hook = before;
}

unsigned int log__errors(void)
{
	return errors;
}

/* Paths of targets come into messages: what they hold must not reach a terminal as control codes.
 */
static void plain(char *s, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i], d = (unsigned char)s[i + 1];

		if (c < 0x20 || c == 0x7f)
			s[i] = '?';
		/* U+0080 to U+009F: with eight bits the same as ESC and a letter. */
		if (c == 0xc2 && i + 1 < n && d >= 0x80 && d < 0xa0)
			s[i] = s[i + 1] = '?';
	}
}

void log__vprint(enum log_level level, const char *fmt, va_list ap)
{
	static const char *const tag[] = { "error: ", "warning: ", "", "debug: " };
	int saved = errno;
	char line[4096];
	int n, m;

	if (level == LOG_ERROR)
		errors++;
	if (level > max_level)
		return;
	n = snprintf(line, sizeof(line), "memtap: %s", tag[level]);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (m < 0)
		m = 0;
	n += MT_MIN(m, (int)sizeof(line) - n - 2);
	plain(line, n);
	line[n++] = '\n';
	if (before_hook)
		before_hook();
	(void)fd__write_all(STDERR_FILENO, line, (size_t)n);
	errno = saved;
}

void log__print(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log__vprint(level, fmt, ap);
	va_end(ap);
}
