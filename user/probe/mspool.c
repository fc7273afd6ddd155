// SPDX-License-Identifier: Apache-2.0
/*
 * Where MindSpore's pools count their bytes: read off the code of the two exported
 * getters, whose places in the object differ by release and architecture.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "probe/func.h"

#define NEWER(x) "_ZNK9mindspore6device22AbstractDynamicMemPool" x
#define OLDER(x) "_ZNK9mindspore6device21DynamicMemPoolBestFit" x
#define USED "22TotalUsedMemStatisticsEv"
#define TOTAL "18TotalMemStatisticsEv"

#define MAX_AT 0x1000 /* of the pool object */
#define MAX_WORD 127 /* an int8_t of the site */
#define EM_X86_64_ 62
#define X86_RDI 7

/* What a register holds, as far as it matters. */
enum held { HELD_OTHER, HELD_THIS, HELD_STATS };

struct word {
	unsigned int at; /* which statistics object: its place in the pool */
	int64_t off;
	unsigned int n; /* times read */
};

struct regs {
	enum held held[32];
	unsigned int at[32];
};

struct walk {
	struct regs now;
	struct {
		uint64_t target;
		struct regs regs;
	} ahead[16]; /* branches forward: how the registers are there */
	size_t n_ahead;
	struct word words[8];
	size_t n;
	bool dead; /* nothing above leads here */
	bool over;
};

static void note(struct walk *w, unsigned int at, int64_t off)
{
	size_t i;

	for (i = 0; i < w->n; i++)
		if (w->words[i].at == at && w->words[i].off == off)
			break;
	if (i == MT_ARRAY_SIZE(w->words)) {
		w->over = true;
		return;
	}
	if (i == w->n)
		w->words[w->n++] = (struct word){ at, off, 0 };
	w->words[i].n++;
}

/* A load that only moves: on x86-64 others may read memory too. */
static bool is_move(int machine, const struct insn *in)
{
	return machine != EM_X86_64_ || strcmp(in->text, "mov") == 0;
}

/* Code behind a return or a jump is reached from a branch above, if at all. */
static void resume(struct walk *w, uint64_t addr)
{
	size_t i;

	for (i = 0; i < w->n_ahead && w->dead; i++)
		if (w->ahead[i].target == addr) {
			w->now = w->ahead[i].regs;
			w->dead = false;
		}
}

static void branch(struct walk *w, const struct insn *in)
{
	if ((in->kind != INSN_JCC && in->kind != INSN_JMP) || in->target <= in->addr)
		return;
	if (w->n_ahead == MT_ARRAY_SIZE(w->ahead)) {
		w->over = true;
		return;
	}
	w->ahead[w->n_ahead].target = in->target;
	w->ahead[w->n_ahead++].regs = w->now;
}

static void step(struct walk *w, int machine, const struct insn *in)
{
	enum held base = HELD_OTHER, next = HELD_OTHER;
	unsigned int at = 0, r;

	if (in->load && in->mem_base != INSN_NOREG && in->mem_index == INSN_NOREG &&
	    in->mem_base < 32 && in->mem_size >= 8 && in->mem_disp >= 0 && in->mem_disp < MAX_AT &&
	    in->mem_disp % 8 == 0) {
		base = w->now.held[in->mem_base];
		at = w->now.at[in->mem_base];
	}
	if (base == HELD_STATS) {
		note(w, at, in->mem_disp);
		if (in->mem_size == 16) /* ldp */
			note(w, at, in->mem_disp + 8);
	} else if (base == HELD_THIS && in->mem_disp && in->mem_size == 8 && is_move(machine, in)) {
		next = HELD_STATS; /* or any other member: then nothing is read through it */
		at = (unsigned int)in->mem_disp;
	} else if (!in->load && !in->store && in->copy_of >= 0 && in->copy_of < 32) {
		next = w->now.held[in->copy_of];
		at = w->now.at[in->copy_of];
	}
	for (r = 0; r < 32; r++)
		if (in->writes >> r & 1)
			w->now.held[r] = HELD_OTHER;
	if (in->kind == INSN_CALL || in->kind == INSN_CALL_IND)
		for (r = 0; r < 32; r++)
			if (machine == EM_X86_64_ ? r <= 2 || (r >= 6 && r <= 11) : r <= 18)
				w->now.held[r] = HELD_OTHER;
	if (next != HELD_OTHER && in->dst >= 0 && in->dst < 32) {
		w->now.held[in->dst] = next;
		w->now.at[in->dst] = at;
	}
}

static bool ends(const struct insn *in)
{
	return in->kind == INSN_RET || in->kind == INSN_JMP || in->kind == INSN_JMP_IND ||
	       in->kind == INSN_STOP;
}

/* Words that the getter reads through pointers in the pool object, in the order of its code. */
static int read_words(struct elf_image *img, const char *getter, struct walk *w)
{
	int machine = elf_image__machine(img), err;
	uint64_t addr, size;
	struct func f;
	struct fde b;
	size_t i;

	memset(w, 0, sizeof(*w));
	if (elf_image__symbol(img, getter, &addr, &size))
		return -ENOENT;
	if (func__bounds(img, addr, &b))
		return -ENOTSUP;
	err = func__decode(img, addr, b.end, INSN_FULL, &f);
	if (err)
		return err;
	w->now.held[machine == EM_X86_64_ ? X86_RDI : 0] = HELD_THIS;
	for (i = 0; i < f.n; i++) {
		resume(w, f.v[i].addr);
		if (w->dead)
			continue;
		step(w, machine, &f.v[i]);
		branch(w, &f.v[i]);
		w->dead = ends(&f.v[i]);
	}
	func__free(&f);
	return w->over ? -ENOTSUP : 0;
}

static int word_of(int64_t off)
{
	return off / 8 <= MAX_WORD ? (int)(off / 8) : -1;
}

/*
 * Reserved is one word, or two: what comes from an address range is asked elsewhere,
 * and both ways through the getter read the word of what is besides.
 */
static void reserved(const struct walk *w, struct mspool_stats *out)
{
	const struct word *own[2] = { NULL, NULL };
	size_t i, n = 0;

	for (i = 0; i < w->n; i++) {
		if (w->words[i].at != out->at[0])
			continue;
		if (n == MT_ARRAY_SIZE(own))
			return;
		own[n++] = &w->words[i];
	}
	if (!n || (n == 2 && own[0]->n == own[1]->n))
		return;
	if (n == 2 && own[0]->n > own[1]->n) {
		out->besides = word_of(own[0]->off);
		out->reserved = word_of(own[1]->off);
	} else {
		out->reserved = word_of(own[0]->off);
		out->besides = n == 2 ? word_of(own[1]->off) : -1;
	}
	if (out->reserved < 0 || (n == 2 && out->besides < 0))
		out->reserved = out->besides = -1;
}

int mspool__derive(struct elf_image *img, bool older, struct mspool_stats *out)
{
	struct walk w;
	int err;

	*out = (struct mspool_stats){ .used = -1, .reserved = -1, .besides = -1 };
	err = read_words(img, older ? OLDER(USED) : NEWER(USED), &w);
	if (err)
		return elf_image__over(img) ? -E2BIG : err;
	/* One word of one object, or the same word of each of two. */
	if (w.n < 1 || w.n > 2 || w.words[0].n != 1 || word_of(w.words[0].off) < 0 ||
	    (w.n == 2 && (w.words[1].n != 1 || w.words[1].off != w.words[0].off)))
		return -ENOTSUP;
	out->at[0] = w.words[0].at;
	out->at[1] = w.n == 2 ? w.words[1].at : 0;
	out->used = word_of(w.words[0].off);
	if (!read_words(img, older ? OLDER(TOTAL) : NEWER(TOTAL), &w))
		reserved(&w, out);
	return 0;
}
