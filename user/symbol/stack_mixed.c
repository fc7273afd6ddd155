// SPDX-License-Identifier: Apache-2.0
/*
 * C and Python frames in one cell: a C frame of the evaluation loop gives way to the
 * Python frames that this call of it runs. Both stacks are counted from the innermost
 * frame on. Where the numbers of calls differ nothing is guessed: the cell has the C
 * frames alone, and says so (R37).
 */
#include "symbol/stacks_internal.h"

struct merge {
	struct stacks *s;
	const struct sproc *p;
	uint64_t time;
	const struct kept *c, *py;
	bool loop[MT_UW_MAX_FRAMES]; /* of each C frame */
	uint32_t calls; /* C frames of the loop */
	uint32_t begun; /* activations by Python's frames: at least so many, or just so many */
	struct strbuf *sb;
	uint32_t left; /* frames that the cell has room for */
};

const char *stack_merge__text(unsigned int merge)
{
	static const char *const words[STACK_MERGES] = {
		[STACK_MERGED] = "merged",
		[STACK_NO_PYTHON] = "no Python",
		[STACK_NO_LOOP] = "the evaluation loop is not found in the interpreter's file",
		[STACK_NO_FRAMES] = "the evaluation loop, but no Python stack",
		[STACK_DIFFER] = "C and Python differ in the calls of the evaluation loop",
		[STACK_CLASH] = "two stacks have one hash",
	};

	return merge < STACK_MERGES ? words[merge] : "unknown";
}

/* A child has its parent's interpreter until its own is known. */
static const struct python *interpreter(const struct sproc *p)
{
	if (p && p->py && python__has_loop(p->py))
		return p->py;
	return p && p->parent && p->parent->py && python__has_loop(p->parent->py) ? p->parent->py
										  : NULL;
}

static uint64_t address_of(const struct merge *m, uint32_t i)
{
	uint64_t frame = m->c->frames[i];

	if (!m->c->placed)
		return stack_cell__address(m->p, frame);
	return m->c->frames[m->c->n + i] - (frame & MT_FRAME_EXACT ? 0 : 1);
}

static void count(struct merge *m, const struct python *py)
{
	uint32_t i;

	for (i = 0; i < m->c->n && i < MT_UW_MAX_FRAMES; i++) {
		uint64_t addr = py ? address_of(m, i) : 0;

		m->loop[i] = addr && python__in_loop(py, addr);
		m->calls += m->loop[i];
	}
	if (!m->py)
		return;
	for (i = 0; i < m->py->n; i++)
		m->begun += kept__begins(m->py)[i];
	/* The last frame is of a call too, also where its beginning was not walked to. */
	m->begun += m->py->begins ? m->py->begins : 1;
}

static enum stack_merge judge(const struct merge *m, const struct python *py)
{
	bool c_whole = stack_end__complete(m->c->end);
	bool py_whole = m->py && m->py->end == MT_PY_OK;

	if (!m->py)
		return m->calls ? STACK_NO_FRAMES : STACK_NO_PYTHON;
	if (!py)
		return STACK_NO_LOOP;
	/* What is cut has less, never more, than what is whole. */
	if ((py_whole && m->calls > m->begun) || (c_whole && m->calls < m->begun))
		return STACK_DIFFER;
	return STACK_MERGED;
}

/* The frames of one activation, from `at` on; where the next one begins. */
static uint32_t put_python(struct merge *m, uint32_t at)
{
	do {
		if (m->left) {
			stack_cell__line(m->s, m->py->lines[at], m->sb);
			m->left--;
		}
		at++;
	} while (at < m->py->n && !kept__begins(m->py)[at]);
	if (at == m->py->n && m->py->end != MT_PY_OK && m->left && !m->s->opts.plain)
		strbuf__printf(m->sb, "(Python cut: %s)\n", python__reason(m->py->end));
	return at;
}

static void put_c(struct merge *m, uint32_t i)
{
	if (!m->left)
		return;
	stack_cell__frame(m->s, m->p, m->time, m->c->frames[i],
			  m->c->placed ? m->c->frames[m->c->n + i] : 0, m->sb);
	m->left--;
}

/* Frames from one on that is of code which was not there are none: how many are left. */
static uint32_t really(const struct merge *m)
{
	uint32_t i;

	for (i = 0; i < m->c->n && !m->c->placed; i++)
		if (stack_cell__replaced(m->s, m->p, m->time, m->c->frames[i]))
			return i;
	return m->c->n;
}

static void put(struct merge *m, bool merged)
{
	/* Activations before the frame that is next. */
	uint32_t at = 0, empty = merged && m->py && m->py->n ? kept__begins(m->py)[0] : 0, i;

	for (i = 0; i < m->c->n; i++) {
		if (!merged || !m->loop[i] || !m->py || at == m->py->n) {
			put_c(m, i);
			continue;
		}
		if (empty) { /* it runs nothing any more */
			empty--;
			put_c(m, i);
			continue;
		}
		at = put_python(m, at);
		/* Of those that begin here one is that of the frame itself. */
		if (at < m->py->n)
			empty = kept__begins(m->py)[at] - 1u;
	}
	if (m->left && !m->s->opts.plain && !stack_end__complete(m->c->end))
		strbuf__printf(m->sb, "(cut: %s)\n", stack_end__text(stack_cell__end(m->s, m->c)));
}

enum stack_merge stack_mixed__cell(struct stacks *s, const struct sproc *p, uint64_t time,
				   const struct kept *c, const struct kept *py, bool *replaced,
				   struct strbuf *sb)
{
	const struct python *interp = interpreter(p);
	struct merge m = { .s = s, .p = p, .time = time, .c = c, .py = py, .sb = sb };
	enum stack_merge how;

	*replaced = really(&m) < c->n;
	if (*replaced) {
		/* Nothing to be merged: what is behind it is of another stack. */
		stack_cell__c(s, p, time, c, sb);
		strbuf__printf(sb, "(not merged: %s)\n", stack_merge__text(STACK_DIFFER));
		return STACK_DIFFER;
	}
	m.left = s->opts.c_depth ? s->opts.c_depth : UINT32_MAX;
	count(&m, interp);
	how = judge(&m, interp);
	put(&m, how == STACK_MERGED);
	if (how == STACK_DIFFER)
		strbuf__printf(sb, "(not merged: %s, %u and %u)\n", stack_merge__text(how), m.calls,
			       m.begun);
	else if (how != STACK_MERGED && how != STACK_NO_PYTHON)
		strbuf__printf(sb, "(not merged: %s)\n", stack_merge__text(how));
	return how;
}
