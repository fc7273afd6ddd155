// SPDX-License-Identifier: Apache-2.0
/*
 * Where a TensorImpl has what (ascend-abi.md 2.7.7), from the code of operators: each
 * looks at the dispatch keys of its tensors, which stand in a known place of three layouts.
 */
#include "probe/aten.h"
#include "probe/insn.h"

#include <errno.h>

#define SAMPLES 48 /* operators looked at */
#define CALLEES 8 /* functions that they call, each */
#define CODE_MAX 1600 /* bytes of each */

/* c10::TensorImpl, by the offset of key_set_. */
static const struct layout {
	int64_t key_set;
	uint16_t storage, data; /* storage_ in it; the data pointer in StorageImpl */
} layouts[] = {
	{ 184, 24, 24 }, /* 2.0 to 2.2 */
	{ 176, 16, 16 }, /* 2.3 to 2.12 */
	{ 168, 16, 16 }, /* 2.13 on */
};

#define WORDS 16

struct votes {
	struct elf_image *img;
	unsigned int layout[MT_ARRAY_SIZE(layouts)];
	/* What a new thread includes beside what its tensors say: two keys, as one constant. */
	uint64_t word[WORDS];
	unsigned int words[WORDS];
};

static void vote_word(struct votes *v, uint64_t w)
{
	unsigned int i;

	if (__builtin_popcountll(w) != 2 || w >> 48 || __builtin_ctzll(w) < 20)
		return;
	for (i = 0; i < WORDS; i++) {
		if (v->words[i] && v->word[i] != w)
			continue;
		v->word[i] = w;
		v->words[i]++;
		return;
	}
}

/* reg: on aarch64, what registers hold of constants that are made of several parts. */
static void vote_constant(struct votes *v, const uint8_t *b, unsigned int len, uint64_t reg[32])
{
	uint32_t w, shift;
	uint64_t part;

	if (v->img->machine == EM_X86_64) {
		/* REX.W b8+r imm64 (SDM vol. 2, MOV) */
		if (len == 10 && (b[0] & 0xfe) == 0x48 && (b[1] & 0xf8) == 0xb8)
			vote_word(v, rd64(b + 2));
		return;
	}
	/* MOVZ, MOVK of 64 bits (Arm ARM, C6.2) */
	w = rd32(b);
	shift = (w >> 21 & 3) * 16;
	part = (uint64_t)(w >> 5 & 0xffff) << shift;
	if ((w & 0xff800000) == 0xd2800000) {
		reg[w & 31] = part;
	} else if ((w & 0xff800000) == 0xf2800000) {
		reg[w & 31] = (reg[w & 31] & ~(0xffffULL << shift)) | part;
		vote_word(v, reg[w & 31]);
	}
}

static void look_at(struct votes *v, uint64_t vaddr, unsigned int callees)
{
	uint64_t reg[32] = { 0 };
	const struct fde *fde = elf_image__fde_at(v->img, vaddr);
	uint64_t at = vaddr, end;
	uint32_t pages = 0; /* registers that hold an address in this library: no tensor's */
	const uint8_t *p;
	struct insn in;
	size_t i;

	if (!fde || fde->start != vaddr)
		return;
	end = MT_MIN(fde->end, vaddr + CODE_MAX);
	p = elf_image__at(v->img, vaddr, end - vaddr);
	for (; p && at < end; at += in.len) {
		const uint8_t *b = p + (at - vaddr);

		if (!elf_image__spend(v->img, 1, WORK_INSN) ||
		    insn__decode(v->img->machine, INSN_FULL, b, end - at, at, &in))
			return;
		for (i = 0; i < MT_ARRAY_SIZE(layouts); i++)
			v->layout[i] += in.load && in.mem_size == 8 && in.mem_index < 0 &&
					in.mem_base >= 0 && !(pages >> in.mem_base & 1) &&
					in.mem_disp == layouts[i].key_set;
		pages &= ~in.writes;
		if (in.value && in.dst >= 0)
			pages |= 1U << in.dst;
		vote_constant(v, b, in.len, reg);
		if (in.kind == INSN_CALL && callees) {
			look_at(v, in.target, 0);
			callees--;
		}
	}
}

/* Index of the largest, if it is well above the others; -1. */
static int winner(const unsigned int *v, size_t n)
{
	unsigned int sum = 0;
	size_t best = 0, i;

	for (i = 0; i < n; i++) {
		sum += v[i];
		if (v[i] > v[best])
			best = i;
	}
	return v[best] >= 4 && v[best] * 2 > sum + sum / 4 ? (int)best : -1;
}

/* The thread-local keys of libc10: where this library's own words for them are. */
struct tls {
	const struct elf_image *img;
	uint64_t slot;
	__u8 form;
};

static int on_reloc(void *ctx, const struct elf_reloc *r)
{
	static const __u8 form[] = { [REL_TLS_INDEX] = MT_TLS_INDEX,
				     [REL_TLS_DESC] = MT_TLS_DESC,
				     [REL_TLS_OFFSET] = MT_TLS_OFFSET };
	struct tls *t = ctx;
	const char *name;
	Elf64_Sym sym;

	if ((r->type != REL_TLS_INDEX && r->type != REL_TLS_DESC && r->type != REL_TLS_OFFSET) ||
	    !elf_image__dynsym(t->img, r->sym, &sym))
		return 0;
	name = elf_image__dynstr(t->img, sym.st_name);
	if (!name || strcmp(name, "_ZN3c104impl26raw_local_dispatch_key_setE") != 0)
		return 0;
	t->slot = r->where;
	t->form = form[r->type];
	return 0;
}

#define PROLOGUE 24 /* instructions */
#define A64_LR 30

static int64_t signed_bits(uint32_t w, unsigned int from, unsigned int n)
{
	return (int64_t)((uint64_t)w << (64 - from - n)) >> (64 - n);
}

/* Where x30 is stored, from sp; MT_OP_NO_BACK: w is no such store (Arm ARM, C6.2: STP, STR). */
static int64_t lr_place(uint32_t w)
{
	bool first = (w & 31) == A64_LR, second = (w >> 10 & 31) == A64_LR;

	if ((w >> 5 & 31) != A64_SP)
		return MT_OP_NO_BACK;
	switch (w & 0xffc00000) {
	case 0xa9800000: /* stp, sp moves before: to where the pair is */
		return first ? 0 : second ? 8 : MT_OP_NO_BACK;
	case 0xa9000000: /* stp */
		if (first || second)
			return signed_bits(w, 15, 7) * 8 + (first ? 0 : 8);
		return MT_OP_NO_BACK;
	case 0xf9000000: /* str */
		return first ? (int64_t)(w >> 10 & 0xfff) * 8 : MT_OP_NO_BACK;
	}
	if ((w & 0xffe00c00) == 0xf8000c00 && first) /* str, sp moves before */
		return 0;
	return MT_OP_NO_BACK;
}

int32_t torch_layout__back(const struct elf_image *img, uint64_t vaddr)
{
	const uint8_t *p = elf_image__at(img, vaddr, 4ULL * PROLOGUE);
	int64_t sp = 0, place;
	struct insn in;
	unsigned int i;

	if (img->machine == EM_X86_64)
		return 0;
	for (i = 0; p && i < PROLOGUE; i++) {
		if (insn__decode(img->machine, INSN_FULL, p + 4 * i, 4, vaddr + 4ULL * i, &in) ||
		    in.kind == INSN_CALL || in.kind == INSN_JMP || in.kind == INSN_RET ||
		    in.sp_lost)
			break;
		sp += in.sp_delta;
		place = lr_place(rd32(p + 4 * i));
		if (place != MT_OP_NO_BACK && sp + place < 0 && sp + place > -(1 << 20))
			return (int32_t)(sp + place);
	}
	return MT_OP_NO_BACK;
}

void torch_layout__derive(struct elf_image *img, struct aten *a)
{
	struct votes v = { .img = img };
	struct tls tls = { .img = img };
	struct mt_torch *t = &a->torch;
	size_t i, step;
	int best;

	memset(t, 0, sizeof(*t));
	step = a->n / SAMPLES + 1;
	for (i = 0; i < a->n; i += step)
		if (!(a->v[i].op.flags & MT_OP_REDISPATCH) && a->v[i].op.n_args)
			look_at(&v, a->v[i].vaddr, CALLEES);
	best = winner(v.layout, MT_ARRAY_SIZE(layouts));
	if (best < 0) {
		a->no_access = "the layout of its tensors is not known";
		return;
	}
	t->key_set = (__u16)layouts[best].key_set;
	t->place = (__u16)(t->key_set - 24);
	t->ndim = (__u16)(t->key_set - 112);
	t->storage = layouts[best].storage;
	t->data = layouts[best].data;
	best = winner(v.words, WORDS);
	if (best < 0)
		return;
	/*
	 * BackendSelect and ADInplaceOrView. Two behind this is AutogradFunctionality, one or
	 * two behind that Python (c10/core/DispatchKey.h).
	 */
	t->python = 3ULL << (__builtin_ctzll(v.word[best]) + 1);
	t->autograd = (__u8)(63 - __builtin_clzll(v.word[best]) + 2);
	elf_image__each_reloc(img, on_reloc, &tls);
	t->tls_slot = tls.slot;
	t->tls_form = tls.form;
}
