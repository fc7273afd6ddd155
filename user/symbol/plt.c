// SPDX-License-Identifier: Apache-2.0
/*
 * Names of PLT stubs: each loads a word of the GOT and jumps there, and the
 * relocation of that word tells the symbol.
 *
 * Forms: psABI x86-64, "Procedure Linkage Table", with and without IBT, .plt.got,
 * mold's; AAELF64, with and without BTI and PAC. Headers of lazy PLTs jump
 * through a word that has no relocation, and so get no name.
 */
#include "symbol/symread.h"

#include <errno.h>
#include <stdlib.h>

struct slot {
	uint64_t where;
	uint32_t sym;
};

struct slots {
	struct slot *v;
	size_t n, cap;
};

static int add_slot(void *ctx, const struct elf_reloc *rel)
{
	struct slots *s = ctx;
	struct slot *v;

	if ((rel->type != REL_JUMP_SLOT && rel->type != REL_GLOB_DAT) || !rel->sym)
		return 0;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 256;
		v = realloc(s->v, s->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		s->v = v;
	}
	s->v[s->n++] = (struct slot){ rel->where, rel->sym };
	return 0;
}

static int slot_cmp(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	if (x->where != y->where)
		return x->where < y->where ? -1 : 1;
	return x->sym < y->sym ? -1 : x->sym > y->sym;
}

static const struct slot *find_slot(const struct slots *s, uint64_t where)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->v[mid].where < where)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->n && s->v[lo].where == where ? &s->v[lo] : NULL;
}

/* Where a stub starts, the word it jumps through, where the scan goes on. */
struct stub {
	size_t start, next;
	uint64_t got;
};

static bool next_x86(const uint8_t *p, size_t n, size_t at, uint64_t vaddr, struct stub *s)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	for (; at + 6 <= n; at++) {
		if (p[at] != 0xff || p[at + 1] != 0x25) /* jmp *disp32(%rip) */
			continue;
		s->next = at + 6;
		s->got = vaddr + s->next + (uint64_t)(int64_t)(int32_t)rd32(p + at + 2);
		s->start = at;
		if (at >= 1 && p[at - 1] == 0xf2) /* bnd */
			s->start--;
		if (s->start >= 10 && p[s->start - 6] == 0x41 && p[s->start - 5] == 0xbb &&
		    !memcmp(p + s->start - 10, endbr64, 4)) /* mold: mov $n, %r11d */
			s->start -= 6;
		if (s->start >= 4 && !memcmp(p + s->start - 4, endbr64, 4))
			s->start -= 4;
		return true;
	}
	return false;
}

static bool next_a64(const uint8_t *p, size_t n, size_t at, uint64_t vaddr, struct stub *s)
{
	for (; at + 8 <= n; at += 4) {
		uint32_t adrp = rd32(p + at), ldr = rd32(p + at + 4);
		uint64_t imm;

		/* adrp x16, page; ldr x17, [x16, #off] */
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		imm = (uint64_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3));
		if (imm & 0x100000)
			imm |= ~0x1fffffULL;
		s->got = ((vaddr + at) & ~0xfffULL) + (imm << 12) +
			 (uint64_t)(ldr >> 10 & 0xfff) * 8;
		s->start = at >= 4 && rd32(p + at - 4) == 0xd503245f ? at - 4 : at; /* bti c */
		s->next = at + 8;
		return true;
	}
	return false;
}

static int add_stub(struct raw_syms *r, const struct slots *slots, uint64_t vaddr, size_t size,
		    const struct stub *s)
{
	const struct slot *slot = find_slot(slots, s->got);
	struct raw_sym raw = { .plt = true, .size = (uint32_t)size };
	Elf64_Sym sym;

	if (!slot || !elf_image__dynsym(r->img, slot->sym, &sym) ||
	    sym.st_name >= r->img->dynstr_len)
		return 0;
	raw.name = r->img->dynstr + sym.st_name;
	raw.max = r->img->dynstr_len - sym.st_name;
	return raw_syms__add(r, vaddr + s->start, &raw);
}

static int read_section(struct raw_syms *r, const struct slots *slots, const struct elf_view *v,
			const Elf64_Shdr *sh)
{
	bool x86 = r->img->machine == EM_X86_64;
	bool (*next)(const uint8_t *, size_t, size_t, uint64_t, struct stub *) = x86 ? next_x86
										     : next_a64;
	const uint8_t *p = v->data + sh->sh_offset;
	size_t longest = x86 ? 16 : 24;
	struct stub s, after;
	int err, n = 0;
	bool more;

	for (more = next(p, sh->sh_size, 0, sh->sh_addr, &s); more; s = after) {
		size_t end = sh->sh_size;

		more = next(p, sh->sh_size, s.next, sh->sh_addr, &after);
		if (more)
			end = after.start;
		if (end > s.start + longest)
			end = s.start + longest;
		if (end <= s.start) /* the bytes changed */
			continue;
		err = add_stub(r, slots, sh->sh_addr, end - s.start, &s);
		if (err < 0)
			return err;
		n += err;
	}
	return n;
}

int symread__plt(struct raw_syms *r, const struct elf_view *v)
{
	struct slots slots = { 0 };
	int n = 0, err = 0;
	size_t i;

	if (r->img->machine != EM_X86_64 && r->img->machine != EM_AARCH64)
		return 0;
	for (i = 0; i < v->nsh; i++) {
		const Elf64_Shdr *sh = &v->sh[i];
		size_t max;
		const char *name = elf_view__section_name(v, sh, &max);

		/* .plt, .plt.sec, .plt.got */
		if (sh->sh_type != SHT_PROGBITS || !(sh->sh_flags & SHF_EXECINSTR) || !name ||
		    max < 5 || memcmp(name, ".plt", 4) != 0)
			continue;
		if (!slots.n) {
			err = elf_image__each_reloc(r->img, add_slot, &slots);
			if (err || !slots.n)
				break;
			qsort(slots.v, slots.n, sizeof(*slots.v), slot_cmp);
		}
		err = read_section(r, &slots, v, sh);
		if (err < 0)
			break;
		n += err;
		err = 0;
	}
	free(slots.v);
	return err < 0 ? err : n;
}
