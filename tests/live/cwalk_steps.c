// SPDX-License-Identifier: Apache-2.0
/*
 * Every instruction of a stretch of a program: its stack by the unwinder against the
 * calls and returns that were seen on the way.
 */
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "cwalk_user.h"

#define MAX_STEPS 400000
#define MAX_DEPTH 200

enum kind { OTHER, CALL, RETURN };

#if defined(__aarch64__)
static enum kind kind_of(uint64_t pc)
{
	uint32_t code = 0;

	cwalk_user__read(&code, sizeof(code), pc);
	if (code >> 26 == 0x25 || (code & 0xfefff000) == 0xd63f0000)
		return CALL;
	return (code & 0xfffffc1f) == 0xd65f0000 || (code & 0xfffffbff) == 0xd65f0bff ? RETURN
										      : OTHER;
}
#else
static enum kind kind_of(uint64_t pc)
{
	uint8_t code[8] = { 0 }, *p = code;

	cwalk_user__read(code, sizeof(code), pc);
	while ((*p & 0xf0) == 0x40 || *p == 0xf2 || *p == 0xf3 || *p == 0x3e || *p == 0x66)
		p++;
	if (*p == 0xe8 || (*p == 0xff && (p[1] >> 3 & 7) == 2))
		return CALL;
	return *p == 0xc3 || *p == 0xc2 ? RETURN : OTHER;
}
#endif

/* Where a call that was just made returns to. */
static uint64_t return_of(const struct cwalk_regs *r)
{
	uint64_t to = r->lr;

#if !defined(__aarch64__)
	cwalk_user__read(&to, sizeof(to), r->sp);
#endif
	return to;
}

struct steps {
	struct cwalk_frames base, now;
	uint64_t back[MAX_DEPTH]; /* where the calls return to */
	uint32_t depth, deepest;
	size_t n, wrong, known;
};

static bool same(const struct steps *s)
{
	uint32_t i;

	if (s->now.n != s->base.n + s->depth || s->now.end != MT_END_ROOT || s->now.guessed)
		return false;
	for (i = 0; i < s->depth; i++)
		if (s->now.pc[1 + i] != s->back[s->depth - 1 - i])
			return false;
	return memcmp(&s->now.pc[1 + s->depth], &s->base.pc[1],
		      (s->base.n - 1) * sizeof(s->base.pc[0])) == 0;
}

/*
 * The first instruction of glibc's lazy binder on aarch64: what it says of itself begins
 * behind it, so the caller's sp is 16 too low there. A named limit.
 */
static bool known_wrong(uint64_t pc)
{
#if defined(__aarch64__)
	uint32_t code[2] = { 0 };

	/* nop or a landing pad; stp x8, x9, [sp, #-208]! */
	cwalk_user__read(code, sizeof(code), pc);
	return (code[0] == 0xd503201f || code[0] == 0xd503245f) && code[1] == 0xa9b327e8;
#else
	return false;
#endif
}

static void look(struct steps *s, const struct cwalk_regs *r)
{
	const char *name;
	uint64_t vaddr;

	cwalk_user__walk(r, &s->now);
	if (!s->n++) {
		s->base = s->now;
		return;
	}
	if (same(s))
		return;
	if (known_wrong(r->pc)) {
		s->known++;
		return;
	}
	if (s->wrong++ >= 8)
		return;
	vaddr = cwalk_user__place(r->pc, &name);
	printf("differs at %#jx (%#jx of %s): %u frames, %u are right, end %d; caller %#jx, right "
	       "is %#jx\n",
	       (uintmax_t)r->pc, (uintmax_t)vaddr, name, s->now.n, s->base.n + s->depth, s->now.end,
	       (uintmax_t)(s->now.n > 1 ? s->now.pc[1] : 0),
	       (uintmax_t)(s->depth ? s->back[s->depth - 1] : s->base.pc[1]));
}

static bool step(pid_t pid)
{
	int status;

	return !ptrace(PTRACE_SINGLESTEP, pid, 0, 0) && waitpid(pid, &status, 0) == pid &&
	       WIFSTOPPED(status);
}

bool cwalk_user__steps(struct cwalk_shared *shared, pid_t pid)
{
	static struct steps s;
	struct cwalk_regs r;
	uint64_t before = 0;
	enum kind kind = OTHER;
	size_t all;

	for (all = 0; !shared->to && all < MAX_STEPS && step(pid); all++) {
		if (!shared->from)
			continue;
		if (cwalk_user__regs(pid, &r))
			break;
		if (s.n && kind == CALL && s.depth < MAX_DEPTH)
			s.back[s.depth++] = return_of(&r);
		else if (s.n && kind == RETURN && s.depth && s.back[s.depth - 1] == r.pc)
			s.depth--;
		else if (kind == RETURN && r.pc != before)
			break; /* a return to where nobody came from: our own count is wrong */
		s.deepest = s.depth > s.deepest ? s.depth : s.deepest;
		look(&s, &r);
		kind = kind_of(r.pc);
		before = r.pc;
	}
	printf("steps %zu wrong %zu known %zu deepest %u of a base of %u, %s\n", s.n, s.wrong,
	       s.known, s.deepest, s.base.n, shared->to ? "to the end" : "broken off");
	return shared->to && !s.wrong && s.known <= s.n / 500 && s.n > 2000 && s.deepest > 5 &&
	       s.base.end == MT_END_ROOT;
}
