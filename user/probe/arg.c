// SPDX-License-Identifier: Apache-2.0
/*
 * Follows the first argument of a function through registers and stack slots,
 * to see which of its fields are read.
 */
#include "probe/derive.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_SLOTS 4
#define NO_SLOT INT32_MIN

/* Where the argument is, before an instruction. Offsets are from sp at entry. */
struct where {
	bool reached, sp_known;
	uint32_t regs;
	int32_t sp;
	int32_t slots[MAX_SLOTS];
};

/* Registers that a call leaves alone: psABI 3.2.1; AAPCS64 6.1.1 */
static uint32_t callee_saved(int machine)
{
	if (machine == EM_X86_64)
		return 1u << 3 | 1u << 5 | 0xfu << 12; /* rbx, rbp, r12-r15 */
	return 0x7ffu << 19; /* x19-x29 */
}

static bool slot_has(const struct where *w, int32_t at)
{
	int i;

	for (i = 0; i < MAX_SLOTS; i++)
		if (w->slots[i] == at)
			return true;
	return false;
}

static void slot_set(struct where *w, int32_t at, bool is_arg)
{
	int i;

	for (i = 0; i < MAX_SLOTS; i++)
		if (w->slots[i] == at)
			w->slots[i] = NO_SLOT;
	for (i = 0; i < MAX_SLOTS && is_arg; i++) {
		if (w->slots[i] == NO_SLOT) {
			w->slots[i] = at;
			return;
		}
	}
}

static void step(int machine, const struct insn *in, struct where *w)
{
	int sp = machine == EM_X86_64 ? X86_RSP : A64_SP;
	bool on_stack = w->sp_known && in->mem_base == sp && in->mem_index < 0;
	int32_t at = on_stack ? w->sp + (int32_t)in->mem_disp : 0;
	bool to_arg = false;

	if (in->store && on_stack)
		slot_set(w, at, in->copy_of >= 0 && (w->regs >> in->copy_of & 1));
	if (in->load && on_stack && in->mem_size == 8 && in->dst >= 0)
		to_arg = slot_has(w, at);
	else if (!in->load && !in->store && in->copy_of >= 0 && in->dst >= 0)
		to_arg = w->regs >> in->copy_of & 1;
	w->regs &= ~in->writes;
	if (in->kind == INSN_CALL || in->kind == INSN_CALL_IND)
		w->regs &= callee_saved(machine);
	if (to_arg)
		w->regs |= 1u << in->dst;
	if (in->sp_lost)
		w->sp_known = false;
	w->sp += in->sp_delta;
}

/* What both ways to a place agree on; true if that changed *to. */
static bool join(struct where *to, const struct where *from)
{
	struct where old = *to;
	int i;

	if (!to->reached) {
		*to = *from;
		to->reached = true;
		return true;
	}
	to->regs &= from->regs;
	if (to->sp_known && (!from->sp_known || from->sp != to->sp))
		to->sp_known = false;
	for (i = 0; i < MAX_SLOTS; i++)
		if (!slot_has(from, to->slots[i]))
			to->slots[i] = NO_SLOT;
	return to->regs != old.regs || to->sp_known != old.sp_known ||
	       memcmp(to->slots, old.slots, sizeof(old.slots));
}

/*
 * Bits and slots only ever go, so this ends after a few rounds; in code that is made
 * for it after as many as it has jumps backwards, which is too much work: false.
 */
static bool settle(const struct elf_image *img, const struct func *f, struct where *w)
{
	bool again = true;
	size_t i;

	while (again) {
		if (!elf_image__spend(img, f->n, WORK_STEP))
			return false;
		again = false;
		for (i = 0; i < f->n; i++) {
			const struct insn *in = &f->v[i];
			struct where next;
			ssize_t t;

			if (!w[i].reached)
				continue;
			next = w[i];
			step(f->machine, in, &next);
			if (in->kind == INSN_JMP || in->kind == INSN_JCC) {
				t = func__index(f, in->target);
				/* forwards is done later in this round */
				if (t >= 0 && join(&w[t], &next))
					again |= (size_t)t <= i;
			}
			if (in->kind == INSN_JMP || in->kind == INSN_JMP_IND ||
			    in->kind == INSN_RET || in->kind == INSN_STOP || i + 1 == f->n)
				continue;
			join(&w[i + 1], &next);
		}
	}
	return true;
}

int arg__each_load(const struct elf_image *img, const struct func *f,
		   int (*fn)(void *ctx, const struct insn *load), void *ctx)
{
	struct where *w;
	size_t i;
	int ret = 0;

	if (!f->n)
		return 0;
	w = calloc(f->n, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w[0] = (struct where){ .reached = true,
			       .sp_known = true,
			       .regs = insn__arg_mask(f->machine, 1),
			       .slots = { NO_SLOT, NO_SLOT, NO_SLOT, NO_SLOT } };
	if (!settle(img, f, w))
		ret = -E2BIG;
	for (i = 0; i < f->n && !ret; i++) {
		const struct insn *in = &f->v[i];

		if (w[i].reached && in->load && in->mem_base >= 0 && in->mem_index < 0 &&
		    (w[i].regs >> in->mem_base & 1))
			ret = fn(ctx, in);
	}
	free(w);
	return ret;
}
