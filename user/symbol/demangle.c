// SPDX-License-Identifier: Apache-2.0
/* Names of C++ functions for people (Itanium ABI, 5.1), bounded against hostile ones. */
#include <errno.h>
#include <setjmp.h>
#include <string.h>

#include "base/base.h"
#include "symbol/symbol.h"

/*
 * libstdc++'s demangler, of which __cxa_demangle is the wrapper that allocates.
 * Substitutions let 200 bytes of name become gigabytes of text, and only this
 * entry hands the text out in pieces, so that it can be stopped. It keeps all
 * its state on the stack: leaving it by longjmp leaks nothing. The shared
 * library does not export it, the static one has it in an object of its own.
 */
int __gcclibcxx_demangle_callback(const char *name, void (*fn)(const char *, size_t, void *),
				  void *ctx);

/* The demangler itself refuses names of more than 1024 bytes, and nesting beyond 2048. */
#define MAX_NAME 1024
#define MAX_TEXT 16384
/* References to what stands before: each at most doubles the work, up to here it is little. */
#define FEW_REFS 14

struct out {
	struct strbuf *sb;
	size_t start;
	jmp_buf stop;
};

static void add(const char *p, size_t n, void *ctx)
{
	struct out *o = ctx;

	if (o->sb->len - o->start + n > MAX_TEXT)
		longjmp(o->stop, 1);
	strbuf__add(o->sb, p, n);
}

/* References to what stands before (S_, S0_ …), seen as text: rather too many. */
static unsigned int count_refs(const char *s)
{
	unsigned int n = 0;

	for (; *s; s++)
		if (*s == 'S')
			n += s[1 + strspn(s + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '_';
	return n;
}

static void count(const char *p, size_t n, void *ctx)
{
	struct out *o = ctx;

	(void)p;
	o->start += n;
	if (o->start > MAX_TEXT)
		longjmp(o->stop, 1);
}

/*
 * Where a pack is expanded, or counted, the demangler first looks for it in all that
 * the pattern refers to, however often, and writes nothing meanwhile: 40 references
 * take it hours. So a trial first, with something in place of each expansion that
 * parses alike (the same number of operands, and of what later references count)
 * and is simply written: pointers for Dp, minus signs for sp and sZ. Its text tells
 * how much there is to look through. Where the two letters meant something else, the
 * trial fails, and the name stays as it is.
 */
static bool packs_are_small(const char *name)
{
	char trial[MAX_NAME + 1], *to = trial;
	struct out o = { .start = 0 };

	if ((!strstr(name, "Dp") && !strstr(name, "sp") && !strstr(name, "sZ")) ||
	    count_refs(name) <= FEW_REFS)
		return true;
	while (*name) {
		if (name[0] == 'D' && name[1] == 'p') {
			*to++ = 'P';
			name += 2;
		} else if (name[0] == 's' && (name[1] == 'p' || name[1] == 'Z')) {
			*to++ = 'n';
			*to++ = 'g';
			name += 2;
		} else {
			*to++ = *name++;
		}
	}
	*to = '\0';
	if (setjmp(o.stop))
		return false;
	return !__gcclibcxx_demangle_callback(trial, count, &o);
}

static int undo(const struct out *o, int err)
{
	o->sb->len = o->start;
	if (o->sb->data)
		o->sb->data[o->start] = '\0';
	return err;
}

int demangle(const char *name, struct strbuf *sb)
{
	struct out o = { .sb = sb, .start = sb->len };

	if (name[0] != '_' || name[1] != 'Z')
		return -EINVAL;
	if (strnlen(name, MAX_NAME + 1) > MAX_NAME)
		return -E2BIG;
	if (!packs_are_small(name))
		return -E2BIG;
	if (setjmp(o.stop))
		return undo(&o, -E2BIG);
	if (__gcclibcxx_demangle_callback(name, add, &o) || sb->len == o.start)
		return undo(&o, -EINVAL);
	return sb->failed ? undo(&o, -ENOMEM) : 0;
}
