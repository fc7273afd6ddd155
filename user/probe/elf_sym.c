// SPDX-License-Identifier: Apache-2.0
/* Function symbols of an ELF file, by name and by address; its relocations. */
#include "probe/elf.h"

#include <errno.h>
#include <stdlib.h>

/* Bit 15 of a .gnu.version entry: not the default version (LSB, symbol versioning). */
#define VERSYM_HIDDEN 0x8000

bool elf_image__dynsym(const struct elf_image *img, uint32_t i, Elf64_Sym *out)
{
	if (i >= img->dynsym.n)
		return false;
	memcpy(out, img->dynsym.p + (size_t)i * sizeof(*out), sizeof(*out));
	return true;
}

#define MAX_SYMBOLS (8u << 20) /* the most known: 0.6 million */

static struct hkey name_key(const struct elf_image *img, const char *name)
{
	size_t n = strlen(name);

	return (struct hkey){ hash__bytes(name, n, img->hash_seed),
			      hash__bytes(name, n, ~img->hash_seed) };
}

/*
 * STT_GNU_IFUNC is kept, so that no old version of the name is taken instead, but
 * never given out: its address is a resolver that runs once, so a probe there
 * would see nothing and say nothing.
 */
static bool wanted(const struct elf_image *img, const Elf64_Sym *s)
{
	const struct elf_seg *seg;

	if ((ELF64_ST_TYPE(s->st_info) != STT_FUNC && ELF64_ST_TYPE(s->st_info) != STT_GNU_IFUNC) ||
	    s->st_shndx == SHN_UNDEF || !s->st_value)
		return false;
	seg = elf_image__seg(img, s->st_value);
	return seg && (seg->flags & PF_X);
}

static int add_symbol(struct elf_image *img, const Elf64_Sym *s, const char *name, bool dynamic,
		      bool hidden, size_t *cap)
{
	bool local = ELF64_ST_BIND(s->st_info) == STB_LOCAL, fresh;
	struct elf_sym *e;
	uint64_t *v;

	if (img->nsyms == MAX_SYMBOLS || !elf_image__spend(img, 1, WORK_SYMBOL) ||
	    !elf_image__spend(img, strlen(name), WORK_BYTE))
		return -E2BIG;
	v = hmap__put(&img->by_name, name_key(img, name), &fresh);
	if (!v)
		return -ENOMEM;
	if (!fresh) {
		e = &img->syms[*v];
		/* .symtab repeats what .dynsym had. */
		if (e->vaddr == s->st_value && !strcmp(e->name, name))
			return 0;
	}
	if (img->nsyms == *cap) {
		*cap = *cap ? *cap * 2 : 1024;
		e = realloc(img->syms, *cap * sizeof(*e));
		if (!e)
			return -ENOMEM;
		img->syms = e;
	}
	/*
	 * The first of a name wins, so .dynsym before .symtab. A hidden
	 * (non-default) version gives way, and a local symbol to a global one.
	 */
	if (fresh || (dynamic && !hidden) || (!dynamic && !local && img->syms[*v].local))
		*v = img->nsyms;
	img->syms[img->nsyms++] = (struct elf_sym){ .name = name,
						    .vaddr = s->st_value,
						    .size = s->st_size,
						    .dynamic = dynamic,
						    .local = local,
						    .ifunc = ELF64_ST_TYPE(s->st_info) ==
							     STT_GNU_IFUNC };
	return 0;
}

static int read_dynsym(struct elf_image *img, size_t *cap)
{
	Elf64_Sym s;
	uint32_t i;
	int err;

	if (!elf_image__spend(img, img->dynsym.n, WORK_STEP))
		return -E2BIG;
	for (i = 0; elf_image__dynsym(img, i, &s); i++) {
		const char *name;
		bool hidden;

		if (!wanted(img, &s))
			continue;
		name = elf_image__dynstr(img, s.st_name);
		if (!name)
			continue;
		hidden = i < img->versym.n && (rd16(img->versym.p + (size_t)i * 2) & VERSYM_HIDDEN);
		err = add_symbol(img, &s, name, true, hidden, cap);
		if (err)
			return err;
	}
	img->ndyn = img->nsyms;
	return 0;
}

static bool section(const struct elf_image *img, uint64_t i, Elf64_Shdr *sh)
{
	uint64_t off = rd64(img->data + offsetof(Elf64_Ehdr, e_shoff));
	uint64_t n = rd16(img->data + offsetof(Elf64_Ehdr, e_shnum));

	if (i >= n || off > img->size || (i + 1) * sizeof(*sh) > img->size - off)
		return false;
	memcpy(sh, img->data + off + i * sizeof(*sh), sizeof(*sh));
	return sh->sh_type == SHT_NOBITS ||
	       (sh->sh_offset <= img->size && sh->sh_size <= img->size - sh->sh_offset);
}

bool elf_image__section(const struct elf_image *img, const char *name, uint64_t *vaddr)
{
	uint64_t n = rd16(img->data + offsetof(Elf64_Ehdr, e_shnum)), i;
	size_t len = strlen(name) + 1;
	Elf64_Shdr sh, str;

	if (!section(img, rd16(img->data + offsetof(Elf64_Ehdr, e_shstrndx)), &str) ||
	    str.sh_type != SHT_STRTAB)
		return false;
	for (i = 0; i < n; i++) {
		if (!section(img, i, &sh) || !(sh.sh_flags & SHF_ALLOC) ||
		    sh.sh_name > str.sh_size || len > str.sh_size - sh.sh_name ||
		    memcmp(img->data + str.sh_offset + sh.sh_name, name, len) != 0)
			continue;
		*vaddr = sh.sh_addr;
		return true;
	}
	return false;
}

static int read_symtab(struct elf_image *img, size_t *cap)
{
	Elf64_Shdr sh = { 0 }, str = { 0 };
	const char *strs;
	uint64_t i, k;
	Elf64_Sym s;
	int err;

	for (i = 0; i < rd16(img->data + offsetof(Elf64_Ehdr, e_shnum)); i++)
		if (section(img, i, &sh) && sh.sh_type == SHT_SYMTAB)
			break;
	if (i == rd16(img->data + offsetof(Elf64_Ehdr, e_shnum)))
		return 0;
	if (!section(img, sh.sh_link, &str) || str.sh_type != SHT_STRTAB || !str.sh_size)
		return 0;
	strs = (const char *)img->data + str.sh_offset;
	if (!elf_image__spend(img, sh.sh_size / sizeof(s), WORK_STEP))
		return -E2BIG;
	for (k = 0; k < sh.sh_size / sizeof(s); k++) {
		memcpy(&s, img->data + sh.sh_offset + k * sizeof(s), sizeof(s));
		if (!wanted(img, &s) || s.st_name >= str.sh_size ||
		    !elf__is_name(strs + s.st_name, str.sh_size - s.st_name))
			continue;
		err = add_symbol(img, &s, strs + s.st_name, false, false, cap);
		if (err)
			return err;
	}
	return 0;
}

static int addr_cmp(const void *a, const void *b, void *ctx)
{
	const struct elf_image *img = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = img->syms[i].vaddr, y = img->syms[k].vaddr;

	if (x != y)
		return x < y ? -1 : 1;
	return i < k ? -1 : i > k; /* .dynsym first, file order */
}

/* The tables are a cache: filling them does not change what an image says. */
static int load_symbols(const struct elf_image *cimg)
{
	struct elf_image *img = (struct elf_image *)cimg;
	size_t cap = 0, i;
	int err;

	if (img->syms_done)
		return 0;
	img->syms_done = true;
	err = read_dynsym(img, &cap);
	if (!err)
		err = read_symtab(img, &cap);
	if (!err && img->nsyms) {
		img->by_addr = malloc(img->nsyms * sizeof(*img->by_addr));
		if (!img->by_addr)
			err = -ENOMEM;
	}
	if (err) {
		free(img->syms);
		img->syms = NULL;
		img->nsyms = img->ndyn = 0;
		hmap__free(&img->by_name);
		img->syms_done = false;
		return err;
	}
	for (i = 0; i < img->nsyms; i++)
		img->by_addr[i] = (uint32_t)i;
	if (img->nsyms)
		qsort_r(img->by_addr, img->nsyms, sizeof(*img->by_addr), addr_cmp, img);
	return 0;
}

int elf_image__symbol(const struct elf_image *img, const char *name, uint64_t *vaddr,
		      uint64_t *size)
{
	int err = load_symbols(img);
	uint64_t *v;

	if (err)
		return err;
	v = hmap__get(&img->by_name, name_key(img, name));
	if (!v || strcmp(img->syms[*v].name, name) || img->syms[*v].ifunc)
		return -ENOENT;
	*vaddr = img->syms[*v].vaddr;
	if (size)
		*size = img->syms[*v].size;
	return 0;
}

int elf_image__each_symbol(const struct elf_image *img,
			   int (*fn)(void *ctx, const char *name, uint64_t vaddr, uint64_t size),
			   void *ctx)
{
	int err = load_symbols(img);
	size_t i;

	if (!err && !elf_image__spend(img, img->nsyms, WORK_SYMBOL))
		err = -E2BIG;
	for (i = 0; !err && i < img->nsyms; i++)
		if (!img->syms[i].ifunc)
			err = fn(ctx, img->syms[i].name, img->syms[i].vaddr, img->syms[i].size);
	return err;
}

/* First position of by_addr whose address is >= vaddr. */
static size_t lower(const struct elf_image *img, uint64_t vaddr)
{
	size_t lo = 0, hi = img->nsyms;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (img->syms[img->by_addr[mid]].vaddr < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int elf_image__symbols_in(const struct elf_image *img, uint64_t from, uint64_t to, size_t *lo,
			  size_t *hi)
{
	int err = load_symbols(img);

	*lo = err ? 0 : lower(img, from);
	*hi = err ? 0 : lower(img, to);
	return err;
}

uint64_t elf_image__symbol_size(const struct elf_image *img, uint64_t vaddr)
{
	uint64_t size = 0;
	size_t lo, hi;

	if (elf_image__symbols_in(img, vaddr, vaddr + 1, &lo, &hi))
		return 0;
	for (; lo < hi; lo++)
		size = MT_MAX(size, img->syms[img->by_addr[lo]].size);
	return size;
}

const char *elf_image__name_at(const struct elf_image *img, uint64_t off, uint64_t *delta)
{
	const struct elf_sym *best = NULL;
	uint64_t vaddr;
	size_t i;

	if (elf_image__vaddr(img, off, &vaddr) || load_symbols(img) || vaddr == UINT64_MAX)
		return NULL;
	for (i = lower(img, vaddr + 1); i-- > 0;) {
		const struct elf_sym *s = &img->syms[img->by_addr[i]];

		if (best && s->vaddr != best->vaddr)
			break;
		if (s->dynamic && !s->ifunc)
			best = s; /* of aliases the first in the file */
	}
	if (!best)
		return NULL;
	*delta = vaddr - best->vaddr;
	return best->name;
}

static enum elf_rel rel_type(int machine, uint32_t type)
{
	/* x86-64 psABI table 4.10; ELF for the Arm 64-bit architecture, 5.7 */
	if (machine == EM_X86_64) {
		switch (type) {
		case R_X86_64_RELATIVE:
			return REL_RELATIVE;
		case R_X86_64_GLOB_DAT:
			return REL_GLOB_DAT;
		case R_X86_64_JUMP_SLOT:
			return REL_JUMP_SLOT;
		case R_X86_64_64:
			return REL_ABS64;
		case R_X86_64_DTPMOD64:
			return REL_TLS_INDEX;
		case R_X86_64_TLSDESC:
			return REL_TLS_DESC;
		case R_X86_64_TPOFF64:
			return REL_TLS_OFFSET;
		}
	} else if (machine == EM_AARCH64) {
		switch (type) {
		case R_AARCH64_RELATIVE:
			return REL_RELATIVE;
		case R_AARCH64_GLOB_DAT:
			return REL_GLOB_DAT;
		case R_AARCH64_JUMP_SLOT:
			return REL_JUMP_SLOT;
		case R_AARCH64_ABS64:
			return REL_ABS64;
		case R_AARCH64_TLS_DTPMOD:
			return REL_TLS_INDEX;
		case R_AARCH64_TLSDESC:
			return REL_TLS_DESC;
		case R_AARCH64_TLS_TPREL:
			return REL_TLS_OFFSET;
		}
	}
	return REL_OTHER;
}

static int each_rela(const struct elf_image *img, const struct elf_table *t,
		     int (*fn)(void *ctx, const struct elf_reloc *r), void *ctx)
{
	struct elf_reloc r;
	size_t i;
	int err;

	if (!elf_image__spend(img, t->n, WORK_RELOC))
		return -E2BIG;
	for (i = 0; i < t->n; i++) {
		const uint8_t *p = t->p + i * sizeof(Elf64_Rela);
		uint64_t info = rd64(p + 8);

		r.type = rel_type(img->machine, (uint32_t)ELF64_R_TYPE(info));
		r.where = rd64(p);
		r.addend = (int64_t)rd64(p + 16);
		r.sym = (uint32_t)ELF64_R_SYM(info);
		err = fn(ctx, &r);
		if (err)
			return err;
	}
	return 0;
}

static int relr_word(const struct elf_image *img, uint64_t where,
		     int (*fn)(void *ctx, const struct elf_reloc *r), void *ctx)
{
	const uint8_t *p = elf_image__at(img, where, 8);
	struct elf_reloc r = { .type = REL_RELATIVE, .where = where };

	if (!elf_image__spend(img, 1, WORK_RELOC))
		return -E2BIG;
	if (!p)
		return 0;
	r.addend = (int64_t)rd64(p);
	return fn(ctx, &r);
}

/* RELR: an even word is an address, an odd one a bitmap of the 63 words after it. */
static int each_relr(const struct elf_image *img, int (*fn)(void *ctx, const struct elf_reloc *r),
		     void *ctx)
{
	uint64_t where = 0, w;
	size_t i;
	int err, bit;

	for (i = 0; i < img->relr.n; i++) {
		w = rd64(img->relr.p + i * 8);
		if (!(w & 1)) {
			err = relr_word(img, w, fn, ctx);
			if (err)
				return err;
			where = w + 8;
			continue;
		}
		for (bit = 0; bit < 63; bit++) {
			if (!(w >> (bit + 1) & 1))
				continue;
			err = relr_word(img, where + (uint64_t)bit * 8, fn, ctx);
			if (err)
				return err;
		}
		where += 63 * 8;
	}
	return 0;
}

int elf_image__each_reloc(const struct elf_image *img,
			  int (*fn)(void *ctx, const struct elf_reloc *r), void *ctx)
{
	int err = each_rela(img, &img->rela, fn, ctx);

	if (!err)
		err = each_rela(img, &img->jmprel, fn, ctx);
	if (!err)
		err = each_relr(img, fn, ctx);
	return err;
}
