// SPDX-License-Identifier: Apache-2.0
/*
 * Frames as text, one a line: what glibc's backtrace_symbols writes, which is the
 * vendor's form (msleaks.md 3.6), and behind it the source where it is known.
 */
#include <string.h>

#include "base/base.h"
#include "symbol/symbol.h"

/* Names come from files of targets: what would break a line or a terminal is shown as '?'. */
static void put_text(struct strbuf *sb, const char *s)
{
	size_t start = sb->len, i;

	strbuf__puts(sb, s);
	if (sb->failed)
		return;
	for (i = start; i < sb->len; i++)
		if ((unsigned char)sb->data[i] < 0x20 || sb->data[i] == 0x7f)
			sb->data[i] = '?';
}

static void put_source(struct strbuf *sb, const char *file, unsigned int line)
{
	if (!file)
		return;
	strbuf__puts(sb, " at ");
	put_text(sb, file);
	if (line)
		strbuf__printf(sb, ":%u", line);
}

void cell__frame(struct strbuf *sb, const struct cell_frame *f)
{
	uint64_t from = f->bias;

	if (f->module && *f->module) {
		put_text(sb, f->module);
		strbuf__puts(sb, "(");
		if (f->name) {
			put_text(sb, f->name);
			from += f->start;
		}
		/* Without a name and loaded where it was linked, glibc shows no offset. */
		if (f->name || from) {
			uint64_t off = f->pc >= from ? f->pc - from : from - f->pc;

			strbuf__puts(sb, f->pc >= from ? "+" : "-");
			strbuf__printf(sb, "%#jx", (uintmax_t)off);
		}
		strbuf__puts(sb, ") ");
	}
	strbuf__printf(sb, "[0x%jx]", (uintmax_t)f->pc);
	put_source(sb, f->file, f->line);
	strbuf__puts(sb, "\n");
}

void cell__inlined(struct strbuf *sb, const struct cell_frame *f)
{
	if (f->module && *f->module) {
		put_text(sb, f->module);
		strbuf__puts(sb, "(");
		put_text(sb, f->name ? f->name : "");
		strbuf__puts(sb, ") ");
	}
	strbuf__printf(sb, "[0x%jx]", (uintmax_t)f->pc);
	put_source(sb, f->file, f->line);
	strbuf__puts(sb, " (inlined)\n");
}
