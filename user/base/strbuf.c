// SPDX-License-Identifier: Apache-2.0
/* Growing byte buffer and fast decimal formatting. */
#include "base.h"

#include <stdlib.h>
#include <string.h>

char *strbuf__reserve(struct strbuf *sb, size_t n)
{
	if (sb->cap - sb->len <= n) {
		size_t cap = sb->cap ? sb->cap : 256;
		char *p;

		while (cap - sb->len <= n)
			cap *= 2;
		p = realloc(sb->data, cap);
		if (!p) {
			sb->failed = true;
			return NULL;
		}
		sb->data = p;
		sb->cap = cap;
	}
	return sb->data + sb->len;
}

void strbuf__add(struct strbuf *sb, const void *data, size_t n)
{
	char *p = strbuf__reserve(sb, n);

	if (!p)
		return;
	memcpy(p, data, n);
	sb->len += n;
	sb->data[sb->len] = '\0';
}

void strbuf__puts(struct strbuf *sb, const char *s)
{
	strbuf__add(sb, s, strlen(s));
}

void strbuf__printf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	p = strbuf__reserve(sb, (size_t)n + 1);
	if (!p)
		return;
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	sb->len += (size_t)n;
}

void strbuf__reset(struct strbuf *sb)
{
	sb->len = 0;
	sb->failed = false;
	if (sb->data)
		sb->data[0] = '\0';
}

void strbuf__free(struct strbuf *sb)
{
	free(sb->data);
	memset(sb, 0, sizeof(*sb));
}

static const char digits2[201] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

size_t fmt__u64(char *p, uint64_t v)
{
	char tmp[20];
	size_t i = sizeof(tmp);

	while (v >= 100) {
		i -= 2;
		memcpy(tmp + i, digits2 + 2 * (v % 100), 2);
		v /= 100;
	}
	if (v >= 10) {
		i -= 2;
		memcpy(tmp + i, digits2 + 2 * v, 2);
	} else {
		tmp[--i] = (char)('0' + v);
	}
	memcpy(p, tmp + i, sizeof(tmp) - i);
	return sizeof(tmp) - i;
}

size_t fmt__s64(char *p, int64_t v)
{
	if (v >= 0)
		return fmt__u64(p, (uint64_t)v);
	*p = '-';
	return 1 + fmt__u64(p + 1, 0 - (uint64_t)v);
}
