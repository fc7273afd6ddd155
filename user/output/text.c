// SPDX-License-Identifier: Apache-2.0
/* Text of the traced program made safe for csv, JSON and db. */
#include "output/internal.h"

/* Length of the UTF-8 character at s, 0 if it is not one (RFC 3629). */
static size_t utf8_len(const unsigned char *s, size_t n)
{
	unsigned char c = s[0];
	unsigned char lo = 0x80, hi = 0xbf;
	size_t len, i;

	if (c >= 0xc2 && c <= 0xdf)
		len = 2;
	else if (c >= 0xe0 && c <= 0xef)
		len = 3;
	else if (c >= 0xf0 && c <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	if (c == 0xe0)
		lo = 0xa0; /* overlong */
	else if (c == 0xed)
		hi = 0x9f; /* surrogates */
	else if (c == 0xf0)
		lo = 0x90;
	else if (c == 0xf4)
		hi = 0x8f;
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (i = 2; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if (c == 0xc2 && s[1] < 0xa0)
		return 0; /* C1 control characters: terminals act on them */
	return len;
}

static char *put_space(char *p, unsigned char c, enum text_mode mode)
{
	switch (mode) {
	case TEXT_JSON:
		*p++ = '\\';
		*p++ = c == '\n' ? 'n' : c == '\t' ? 't' : 'r';
		return p;
	case TEXT_ATTR:
		*p++ = ' ';
		return p;
	default:
		*p++ = (char)c;
		return p;
	}
}

char *text__put(char *p, const char *str, size_t n, enum text_mode mode)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t len;

	while (n) {
		unsigned char c = *s;

		if (c >= 0x20 && c < 0x7f) {
			if (c == '"' && mode == TEXT_QUOTED)
				*p++ = '"';
			else if ((c == '"' || c == '\\') && mode == TEXT_JSON)
				*p++ = '\\';
			else if (c == '"' && mode == TEXT_ATTR)
				c = '\'';
			else if ((c == ',' || c == '{' || c == '}') && mode == TEXT_ATTR)
				c = '?'; /* a path of the target's must not add attributes */
			*p++ = (char)c;
			s++;
			n--;
			continue;
		}
		if (c == '\n' || c == '\t' || c == '\r') {
			p = put_space(p, c, mode);
			s++;
			n--;
			continue;
		}
		len = c >= 0x80 ? utf8_len(s, n) : 0;
		if (len) {
			p = put_mem(p, (const char *)s, len);
		} else {
			p = PUT_LIT(p, "\xef\xbf\xbd");
			len = 1;
		}
		s += len;
		n -= len;
	}
	return p;
}

bool text__is_formula(const char *s, size_t n)
{
	return n && (*s == '=' || *s == '+' || *s == '-' || *s == '@' || *s == '\t' || *s == '\r');
}
