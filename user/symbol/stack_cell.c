// SPDX-License-Identifier: Apache-2.0
/* The cells of a stack, in the vendor's form (msleaks.md 3.6); why it is cut stands behind it. */
#include <string.h>
#include <unistd.h>

#include "symbol/elfview.h"
#include "symbol/stacks_internal.h"

const char *stack_end__text(unsigned int end)
{
	static const char *const words[MT_END_MAX] = {
		[MT_END_NOT] = "not walked",
		[MT_END_ROOT] = "complete",
		[MT_END_ZERO] = "complete",
		[MT_END_ENTRY] = "complete",
		[MT_END_DEEP] = "more frames than asked for",
		[MT_END_NOMAP] = "an address in no known mapping",
		[MT_END_ANON] = "code without a file",
		[MT_END_NOTABLE] = "no unwind rows for its file yet",
		[MT_END_NOROW] = "an address that its file does not describe",
		[MT_END_RULE] = "a rule that is not understood",
		[MT_END_REG] = "a register that is not known any more",
		[MT_END_FAULT] = "stack that cannot be read",
		[MT_END_LOOP] = "a frame that is not above the one before",
		[MT_END_NOPROC] = "the process is not known yet",
		[MT_END_ROOM] = "no memory for the thread",
		[MT_END_GO] = "the stack of a goroutine, which its file does not describe",
	};

	return end < MT_END_MAX && words[end] ? words[end] : "unknown";
}

void stack_cell__meet(struct stacks *s, struct sfile *f)
{
	struct debug_search where = { .pid = f->pid };

	if (f->fd < 0)
		return;
	f->known = symbols__add(s->symbols, f->fd, f->path, &where, &f->id) >= 0;
	close(f->fd);
	f->fd = -1;
}

/*
 * Where the process has it: address in the process less the one in the file. False: nowhere, or
 * at several places that have one number (unwind_twins.c).
 */
static bool bias_of(const struct sproc *p, uint32_t file, uint64_t vaddr, uint64_t *bias)
{
	bool found = false, holds = false;
	uint32_t i;

	for (i = 0; p && i < p->n_maps; i++) {
		const struct mt_uw_map *m = &p->maps[i];
		bool here = vaddr + m->bias >= m->start && vaddr + m->bias <= m->end;

		if (m->file != file || (found && !here))
			continue;
		if (holds && m->bias != *bias) {
			*bias = 0;
			return false;
		}
		*bias = m->bias;
		found = true;
		holds = holds || here;
	}
	return found;
}

uint64_t stack_cell__address(const struct sproc *p, uint64_t frame)
{
	uint32_t no = (frame & ~(MT_FRAME_RAW | MT_FRAME_EXACT)) >> MT_FRAME_FILE_SHIFT;
	uint64_t at = frame & MT_FRAME_ADDR, bias;

	if (frame & MT_FRAME_RAW || !no || !bias_of(p, no, at, &bias))
		return 0;
	return at + bias - (frame & MT_FRAME_EXACT ? 0 : 1);
}

/* ---- source lines ---- */

struct source_cell {
	struct stacks *s;
	struct cell_frame *c;
	struct strbuf *sb;
};

/* Calls inlined in the frame are lines of their own; of the frame itself the line is what is new.
 */
static int put_source(void *ctx, const struct line_frame *f)
{
	struct source_cell *x = ctx;
	struct cell_frame in = *x->c;

	if (!f->inlined) {
		x->c->file = f->file;
		x->c->line = f->line;
		return 0;
	}
	strbuf__reset(&x->s->sb2);
	if (f->function && (x->s->opts.mangled || demangle(f->function, &x->s->sb2)))
		strbuf__puts(&x->s->sb2, f->function);
	in.name = x->s->sb2.len ? x->s->sb2.data : NULL;
	in.file = f->file;
	in.line = f->line;
	cell__inlined(x->sb, &in);
	return 0;
}

int stack_cell__file(struct stacks *s, uint32_t no)
{
	struct sfile *f = no && no <= s->n_files ? &s->files[no - 1] : NULL;
	int fd, debug_fd;

	if (!f)
		return -1;
	stack_cell__meet(s, f);
	if (!f->known || symbols__files(s->symbols, &f->id, &fd, &debug_fd))
		return -1;
	return fd;
}

/* Its compiler says so, whatever it has been stripped of. */
static bool is_go(struct stacks *s, uint32_t no)
{
	struct sfile *f = &s->files[no - 1];
	struct elf_view v;
	int fd;

	if (f->asked_go)
		return f->go;
	f->asked_go = true;
	fd = stack_cell__file(s, no);
	if (fd < 0 || elf_view__map(fd, &v))
		return false;
	f->go = elf_view__has(&v, ".note.go.buildid") || elf_view__has(&v, ".gopclntab");
	elf_view__close(&v);
	return f->go;
}

uint8_t stack_cell__end(struct stacks *s, const struct kept *k)
{
	uint64_t frame = k->end == MT_END_NOROW && k->n ? k->frames[k->n - 1] : MT_FRAME_RAW;
	uint32_t no = (frame & ~(MT_FRAME_RAW | MT_FRAME_EXACT)) >> MT_FRAME_FILE_SHIFT;

	if (frame & MT_FRAME_RAW || !no || no > s->n_files || !is_go(s, no))
		return k->end;
	return MT_END_GO;
}

void stack_cell__frame(struct stacks *s, const struct sproc *p, uint64_t time, uint64_t frame,
		       uint64_t pc, struct strbuf *sb)
{
	const struct mt_uw_map *then;
	struct cell_frame c = { 0 };
	struct source_cell x = { .s = s, .c = &c, .sb = sb };
	struct symbol_name name;
	uint32_t no = (frame & ~(MT_FRAME_RAW | MT_FRAME_EXACT)) >> MT_FRAME_FILE_SHIFT;
	uint64_t at = frame & MT_FRAME_ADDR, exact = frame & MT_FRAME_EXACT ? 0 : 1;
	struct sfile *f;

	if (frame & MT_FRAME_RAW || !no || no > s->n_files) {
		c.pc = frame & ((1ULL << 56) - 1);
		cell__frame(sb, &c);
		return;
	}
	f = &s->files[no - 1];
	c.module = f->path;
	/* Of a process that nobody could look at: at least where in the file. */
	if (pc)
		c.bias = pc - at;
	else if (p && (then = past_maps__file(&s->past, p->pid, time, no, at)))
		c.bias = then->bias;
	else
		bias_of(p, no, at, &c.bias);
	c.pc = at + c.bias;
	stack_cell__meet(s, f);
	/* A call may be the last instruction of its function (R30). */
	if (f->known && !symbols__name(s->symbols, &f->id, at - exact, &name) && name.name) {
		c.name = s->opts.mangled ? name.name : name.pretty;
		c.start = name.start;
	}
	if (s->sources && f->known)
		(void)sources__find(s->sources, s->symbols, &f->id, at - exact, put_source, &x);
	cell__frame(sb, &c);
}

bool stack_cell__replaced(struct stacks *s, const struct sproc *p, uint64_t time, uint64_t frame)
{
	uint32_t no = (frame & ~(MT_FRAME_RAW | MT_FRAME_EXACT)) >> MT_FRAME_FILE_SHIFT;
	uint64_t at = frame & MT_FRAME_ADDR, bias = 0;
	const struct mt_uw_map *m;

	if (frame & MT_FRAME_RAW || !p)
		return false;
	m = past_maps__file(&s->past, p->pid, time, no, at);
	if (m)
		bias = m->bias;
	else if (!bias_of(p, no, at, &bias))
		return false;
	m = past_maps__address(&s->past, p->pid, time,
			       at + bias - (frame & MT_FRAME_EXACT ? 0 : 1));
	return m && !unwind_store__is_one(s->unwind, m->file, no);
}

bool stack_cell__c(struct stacks *s, const struct sproc *p, uint64_t time, const struct kept *k,
		   struct strbuf *sb)
{
	uint32_t i, n = k->n;

	if (s->opts.c_depth && n > s->opts.c_depth)
		n = s->opts.c_depth;
	for (i = 0; i < n; i++) {
		if (!k->placed && stack_cell__replaced(s, p, time, k->frames[i])) {
			if (!s->opts.plain)
				strbuf__printf(sb, "(cut: %s)\n", stack_end__text(MT_END_NOMAP));
			return true;
		}
		stack_cell__frame(s, p, time, k->frames[i], k->placed ? k->frames[k->n + i] : 0,
				  sb);
	}
	if (n == k->n && !s->opts.plain && !stack_end__complete(k->end) &&
	    !(k->end == MT_END_DEEP && s->opts.c_depth))
		strbuf__printf(sb, "(cut: %s)\n", stack_end__text(stack_cell__end(s, k)));
	return false;
}

void stack_cell__line(struct stacks *s, uint32_t line, struct strbuf *sb)
{
	strbuf__puts(sb, line ? s->store.lines[line - 1] : "NA");
	strbuf__puts(sb, "\n");
}

void stack_cell__python(struct stacks *s, const struct kept *k, struct strbuf *sb)
{
	uint32_t i, n = k->n;

	if (s->opts.python_depth && n > s->opts.python_depth)
		n = s->opts.python_depth;
	for (i = 0; i < n; i++)
		stack_cell__line(s, k->lines[i], sb);
	if (n == k->n && !s->opts.plain && k->end &&
	    !(k->end == MT_PY_TOO_DEEP && s->opts.python_depth))
		strbuf__printf(sb, "(cut: %s)\n", python__reason(k->end));
}
