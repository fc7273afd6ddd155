// SPDX-License-Identifier: Apache-2.0
/* Function symbols from .symtab and .dynsym, and what .gnu_debugdata unpacks to. */
#include "symbol/symread.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

/* Names of whole distributions' largest programs stay below 20 MB. */
#define DEBUGDATA_MAX (256u << 20)
/* xz -9 needs 65 MB to unpack. */
#define LZMA_MEMORY (128u << 20)

int raw_syms__add(struct raw_syms *r, uint64_t vaddr, const struct raw_sym *s)
{
	const struct elf_seg *seg = elf_image__seg(r->img, vaddr);
	struct raw_sym *v;
	uint64_t left;

	if (!seg || !(seg->flags & PF_X) || vaddr - r->base > SYM_SIZE_MAX)
		return 0;
	if (r->n == r->cap) {
		r->cap = r->cap ? r->cap + r->cap / 2 : 1024;
		v = realloc(r->v, r->cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->v = v;
	}
	v = &r->v[r->n];
	*v = *s;
	v->off = (uint32_t)(vaddr - r->base);
	/* What leaves the segment is wrong about its end. */
	left = MT_MIN(seg->filesz - (vaddr - seg->vaddr), (uint64_t)(SYM_SIZE_MAX - v->off));
	v->size = (uint32_t)MT_MIN((uint64_t)v->size, left);
	if (v->limit <= v->off || v->limit - v->off > left)
		v->limit = v->off + (uint32_t)left;
	r->n++;
	return 1;
}

/* End of a section as offset from the base; 0 if that says nothing. */
static uint32_t section_end(const struct raw_syms *r, const struct elf_view *v, uint32_t shndx)
{
	uint64_t end;

	if (shndx >= v->nsh)
		return 0;
	end = v->sh[shndx].sh_addr + v->sh[shndx].sh_size;
	return end > r->base && end - r->base <= SYM_SIZE_MAX ? (uint32_t)(end - r->base) : 0;
}

/*
 * Functions by their type, labels of assembly without one, and resolvers of
 * ifuncs, which are code as well. No mapping symbols ($x, $d) and no labels
 * that an assembler made up.
 */
static int add_symbol(struct raw_syms *r, const struct elf_view *v, const Elf64_Sym *s,
		      const char *name, size_t max)
{
	unsigned int type = ELF64_ST_TYPE(s->st_info), bind = ELF64_ST_BIND(s->st_info);
	struct raw_sym raw = { .name = name, .max = max };

	if (s->st_shndx == SHN_UNDEF || s->st_shndx == SHN_ABS || s->st_shndx == SHN_COMMON)
		return 0;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	if (!max || !*name || *name == '$' || (max > 1 && name[0] == '.' && name[1] == 'L'))
		return 0;
	raw.untyped = type == STT_NOTYPE;
	raw.size = (uint32_t)MT_MIN(s->st_size, (uint64_t)SYM_SIZE_MAX);
	raw.limit = section_end(r, v, s->st_shndx);
	/* Without a size it may have no code at all (unreachable), and the next one begins there.
	 */
	raw.rank = (uint8_t)((raw.size ? 0 : 6) + (raw.untyped ? 3 : 0) +
			     (bind == STB_LOCAL	 ? 2
			      : bind == STB_WEAK ? 1
						 : 0));
	return raw_syms__add(r, s->st_value, &raw);
}

int symread__symtab(struct raw_syms *r, const struct elf_view *v)
{
	const Elf64_Shdr *sh = elf_view__section(v, NULL, SHT_SYMTAB), *str;
	int n = 0, err;
	Elf64_Sym s;
	uint64_t i;

	if (!sh || sh->sh_link >= v->nsh || (sh->sh_flags & SHF_COMPRESSED))
		return -ENOENT;
	str = &v->sh[sh->sh_link];
	if (str->sh_type != SHT_STRTAB || (str->sh_flags & SHF_COMPRESSED))
		return -ENOENT;
	for (i = 0; i < sh->sh_size / sizeof(s) && n < INT32_MAX; i++) {
		memcpy(&s, v->data + sh->sh_offset + i * sizeof(s), sizeof(s));
		if (s.st_name >= str->sh_size)
			continue;
		err = add_symbol(r, v, &s, (const char *)v->data + str->sh_offset + s.st_name,
				 str->sh_size - s.st_name);
		if (err < 0)
			return err;
		n += err;
	}
	return n;
}

int symread__dynsym(struct raw_syms *r, const struct elf_view *v)
{
	const struct elf_image *img = r->img;
	Elf64_Sym s;
	uint32_t i;
	int n = 0, err;

	if (!img->dynsym.n)
		return -ENOENT;
	for (i = 0; elf_image__dynsym(img, i, &s) && n < INT32_MAX; i++) {
		if (s.st_name >= img->dynstr_len)
			continue;
		err = add_symbol(r, v, &s, img->dynstr + s.st_name, img->dynstr_len - s.st_name);
		if (err < 0)
			return err;
		n += err;
	}
	return n;
}

int symread__debugdata(const struct elf_view *v, uint8_t **out, size_t *n)
{
	const Elf64_Shdr *sh = elf_view__section(v, ".gnu_debugdata", 0);
	lzma_stream z = LZMA_STREAM_INIT;
	uint8_t *buf = NULL, *p;
	size_t cap = 0;
	lzma_ret ret;

	*out = NULL;
	*n = 0;
	if (!sh)
		return -ENOENT;
	if (lzma_stream_decoder(&z, LZMA_MEMORY, 0) != LZMA_OK)
		return -ENOMEM;
	z.next_in = v->data + sh->sh_offset;
	z.avail_in = sh->sh_size;
	do {
		if (!z.avail_out) {
			cap = cap ? cap * 2 : 65536;
			p = cap <= DEBUGDATA_MAX ? realloc(buf, cap) : NULL;
			if (!p) {
				ret = cap <= DEBUGDATA_MAX ? LZMA_MEM_ERROR : LZMA_MEMLIMIT_ERROR;
				break;
			}
			buf = p;
			z.next_out = buf + z.total_out;
			z.avail_out = cap - z.total_out;
		}
		ret = lzma_code(&z, LZMA_FINISH);
	} while (ret == LZMA_OK);
	*n = z.total_out;
	lzma_end(&z);
	if (ret == LZMA_STREAM_END) {
		*out = buf;
		return 0;
	}
	free(buf);
	*n = 0;
	return ret == LZMA_MEM_ERROR ? -ENOMEM : ret == LZMA_MEMLIMIT_ERROR ? -EFBIG : -EBADMSG;
}
