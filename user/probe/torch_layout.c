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

static void look_at(struct votes *v, uint64_t vaddr, unsigned int callees)
{
	const struct fde *fde = elf_image__fde_at(v->img, vaddr);
	uint64_t at = vaddr, end;
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
					in.mem_disp == layouts[i].key_set;
		/* x86-64: REX.W b8+r imm64 (SDM vol. 2, MOV) */
		if (v->img->machine == EM_X86_64 && in.len == 10 && (b[0] & 0xfe) == 0x48 &&
		    (b[1] & 0xf8) == 0xb8)
			vote_word(v, rd64(b + 2));
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

/* The thread-local keys of libc10, where this library's own words for __tls_get_addr are. */
struct tls {
	const struct elf_image *img;
	uint64_t slot;
	unsigned int n;
};

static int on_reloc(void *ctx, const struct elf_reloc *r)
{
	struct tls *t = ctx;
	const char *name;
	Elf64_Sym sym;

	if (r->type != REL_OTHER || !elf_image__dynsym(t->img, r->sym, &sym))
		return 0;
	name = elf_image__dynstr(t->img, sym.st_name);
	if (!name || strcmp(name, "_ZN3c104impl26raw_local_dispatch_key_setE") != 0)
		return 0;
	t->slot = t->n ? MT_MIN(t->slot, r->where) : r->where;
	t->n++;
	return 0;
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
	/* One word is the module's number, the next the place in its block. */
	if (img->machine == EM_X86_64 && tls.n == 2)
		t->tls_slot = tls.slot;
}
