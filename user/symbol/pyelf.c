// SPDX-License-Identifier: Apache-2.0
/* Data in the file of an interpreter: symbols of objects, sections. */
#include "symbol/python.h"

#include <errno.h>
#include <string.h>

#include "probe/elf.h"

/* Section header i, checked. */
static bool section_at(const struct elf_image *img, size_t i, Elf64_Shdr *out)
{
	uint64_t off = rd64(img->data + offsetof(Elf64_Ehdr, e_shoff));
	uint16_t n = rd16(img->data + offsetof(Elf64_Ehdr, e_shnum));

	if (img->size < sizeof(Elf64_Ehdr) || i >= n || off > img->size ||
	    img->size - off < (i + 1) * sizeof(*out))
		return false;
	memcpy(out, img->data + off + i * sizeof(*out), sizeof(*out));
	return true;
}

/* The bytes of a section in the file; NULL: it has none. */
static const uint8_t *section_data(const struct elf_image *img, const Elf64_Shdr *s)
{
	if (s->sh_type == SHT_NOBITS || s->sh_offset > img->size ||
	    img->size - s->sh_offset < s->sh_size)
		return NULL;
	return img->data + s->sh_offset;
}

static bool is_text(const uint8_t *strings, uint64_t size, uint64_t at, const char *name)
{
	size_t n = strlen(name) + 1;

	return at < size && size - at >= n && memcmp(strings + at, name, n) == 0;
}

int py_elf__section(const struct elf_image *img, const char *name, uint64_t *vaddr)
{
	Elf64_Shdr names, s;
	const uint8_t *text;
	size_t i;

	if (!section_at(img, rd16(img->data + offsetof(Elf64_Ehdr, e_shstrndx)), &names))
		return -ENOENT;
	text = section_data(img, &names);
	for (i = 0; text && section_at(img, i, &s); i++) {
		if (!(s.sh_flags & SHF_ALLOC) || !is_text(text, names.sh_size, s.sh_name, name))
			continue;
		*vaddr = s.sh_addr;
		return 0;
	}
	return -ENOENT;
}

static bool is_object(const Elf64_Sym *s)
{
	return s->st_shndx != SHN_UNDEF && s->st_value &&
	       (ELF64_ST_TYPE(s->st_info) == STT_OBJECT || ELF64_ST_TYPE(s->st_info) == STT_NOTYPE);
}

static int in_symtab(const struct elf_image *img, const char *name, uint64_t *vaddr)
{
	const uint8_t *syms, *text;
	Elf64_Shdr s, strings;
	Elf64_Sym sym;
	size_t i, k;

	for (i = 0; section_at(img, i, &s); i++) {
		if (s.sh_type != SHT_SYMTAB || !section_at(img, s.sh_link, &strings))
			continue;
		syms = section_data(img, &s);
		text = section_data(img, &strings);
		for (k = 0; syms && text && k < s.sh_size / sizeof(sym); k++) {
			memcpy(&sym, syms + k * sizeof(sym), sizeof(sym));
			if (!is_object(&sym) || !is_text(text, strings.sh_size, sym.st_name, name))
				continue;
			*vaddr = sym.st_value;
			return 0;
		}
	}
	return -ENOENT;
}

int py_elf__data(const struct elf_image *img, const char *name, uint64_t *vaddr)
{
	Elf64_Sym sym;
	uint32_t i;

	for (i = 0; elf_image__dynsym(img, i, &sym); i++) {
		const char *s = is_object(&sym) ? elf_image__dynstr(img, sym.st_name) : NULL;

		if (!s || strcmp(s, name) != 0)
			continue;
		*vaddr = sym.st_value;
		return 0;
	}
	return in_symtab(img, name, vaddr);
}
