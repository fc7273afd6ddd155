// SPDX-License-Identifier: Apache-2.0
/* Sections of an ELF file or of bytes in memory: headers, notes, debug links. */
#include "symbol/elfview.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "probe/elf.h"

/* -ffunction-sections makes many; a linked file has some 40. */
#define MAX_SECTIONS (1u << 20)

static bool in_view(const struct elf_view *v, uint64_t off, uint64_t n)
{
	return off <= v->size && n <= v->size - off;
}

static bool is_elf(const struct elf_view *v, Elf64_Ehdr *eh)
{
	if (v->size < sizeof(*eh))
		return false;
	memcpy(eh, v->data, sizeof(*eh));
	return !memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ELFDATA2LSB;
}

/* A file without section headers is fine: nothing is found in it then. */
static int read_sections(struct elf_view *v, const Elf64_Ehdr *eh)
{
	uint64_t n = eh->e_shnum, i;
	Elf64_Shdr first;

	if (!eh->e_shoff || eh->e_shentsize != sizeof(first) ||
	    !in_view(v, eh->e_shoff, sizeof(first)))
		return 0;
	memcpy(&first, v->data + eh->e_shoff, sizeof(first));
	if (!n) /* gABI: 65280 sections or more */
		n = first.sh_size;
	if (!n || n > MAX_SECTIONS || !in_view(v, eh->e_shoff, n * sizeof(first)))
		return 0;
	v->sh = malloc(n * sizeof(*v->sh));
	if (!v->sh)
		return -ENOMEM;
	memcpy(v->sh, v->data + eh->e_shoff, n * sizeof(*v->sh));
	v->nsh = n;
	v->shstr = eh->e_shstrndx == SHN_XINDEX ? first.sh_link : eh->e_shstrndx;
	for (i = 0; i < n; i++) {
		Elf64_Shdr *sh = &v->sh[i];

		/* Addresses stay: they bound symbols without a size. */
		if (sh->sh_type != SHT_NOBITS && !in_view(v, sh->sh_offset, sh->sh_size))
			sh->sh_type = SHT_NULL;
	}
	return 0;
}

int elf_view__memory(const void *data, size_t size, struct elf_view *v)
{
	Elf64_Ehdr eh;

	*v = (struct elf_view){ .data = data, .size = size };
	if (!is_elf(v, &eh))
		return -ENOEXEC;
	v->machine = eh.e_machine;
	return read_sections(v, &eh);
}

static int map_file(int fd, bool writable, struct elf_view *v)
{
	struct stat st;
	void *p;
	int err;

	*v = (struct elf_view){ 0 };
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	p = writable ? mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)
		     : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	elf_guard__add(p, (size_t)st.st_size);
	err = elf_view__memory(p, (size_t)st.st_size, v);
	v->mapped = true;
	if (err)
		elf_view__close(v);
	return err;
}

int elf_view__map(int fd, struct elf_view *v)
{
	return map_file(fd, false, v);
}

int elf_view__map_copy(int fd, struct elf_view *v)
{
	return map_file(fd, true, v);
}

void elf_view__close(struct elf_view *v)
{
	if (v->mapped) {
		elf_guard__del(v->data);
		munmap((void *)v->data, v->size);
	}
	free(v->sh);
	*v = (struct elf_view){ 0 };
}

const char *elf_view__section_name(const struct elf_view *v, const Elf64_Shdr *sh, size_t *max)
{
	const Elf64_Shdr *str;

	if (v->shstr >= v->nsh)
		return NULL;
	str = &v->sh[v->shstr];
	if (str->sh_type != SHT_STRTAB || sh->sh_name >= str->sh_size)
		return NULL;
	*max = str->sh_size - sh->sh_name;
	return (const char *)v->data + str->sh_offset + sh->sh_name;
}

static bool named(const struct elf_view *v, const Elf64_Shdr *sh, const char *name)
{
	size_t max, n = strlen(name) + 1;
	const char *p = elf_view__section_name(v, sh, &max);

	return p && n <= max && !memcmp(p, name, n);
}

const Elf64_Shdr *elf_view__section(const struct elf_view *v, const char *name, uint32_t type)
{
	size_t i;

	for (i = 0; i < v->nsh; i++) {
		const Elf64_Shdr *sh = &v->sh[i];

		if (sh->sh_type == SHT_NULL || sh->sh_type == SHT_NOBITS)
			continue;
		if (name ? named(v, sh, name) : sh->sh_type == type)
			return sh;
	}
	return NULL;
}

bool elf_view__has(const struct elf_view *v, const char *name)
{
	return elf_view__section(v, name, 0) != NULL;
}

/* One section of notes (gABI: name and contents padded to the alignment). */
static size_t note_build_id(const uint8_t *p, uint64_t n, uint64_t align, uint8_t id[BUILD_ID_MAX])
{
	align = align == 8 ? 8 : 4;
	while (n >= sizeof(Elf64_Nhdr)) {
		uint64_t namesz = rd32(p), descsz = rd32(p + 4);
		uint64_t desc = (sizeof(Elf64_Nhdr) + namesz + align - 1) & ~(align - 1);
		uint64_t next = (desc + descsz + align - 1) & ~(align - 1);

		if (desc > n || descsz > n - desc)
			return 0;
		if (rd32(p + 8) == NT_GNU_BUILD_ID && namesz == 4 && descsz &&
		    !memcmp(p + sizeof(Elf64_Nhdr), "GNU", 4)) {
			descsz = MT_MIN(descsz, (uint64_t)BUILD_ID_MAX);
			memcpy(id, p + desc, descsz);
			return descsz;
		}
		if (next >= n)
			return 0;
		p += next;
		n -= next;
	}
	return 0;
}

size_t elf_view__build_id(const struct elf_view *v, uint8_t id[BUILD_ID_MAX])
{
	size_t i, n;

	for (i = 0; i < v->nsh; i++) {
		const Elf64_Shdr *sh = &v->sh[i];

		if (sh->sh_type != SHT_NOTE)
			continue;
		n = note_build_id(v->data + sh->sh_offset, sh->sh_size, sh->sh_addralign, id);
		if (n)
			return n;
	}
	return 0;
}

/* Contents of a section that begin with a string; bytes behind its NUL, NULL if malformed. */
static const uint8_t *link_name(const struct elf_view *v, const char *section, char *name,
				size_t size, size_t *rest)
{
	const Elf64_Shdr *sh = elf_view__section(v, section, 0);
	const uint8_t *p;
	size_t n;

	if (!sh)
		return NULL;
	p = v->data + sh->sh_offset;
	n = strnlen((const char *)p, sh->sh_size);
	if (!n || n == sh->sh_size || n >= size)
		return NULL;
	memcpy(name, p, n);
	name[n] = '\0';
	*rest = sh->sh_size - n - 1;
	return p + n + 1;
}

bool elf_view__debuglink(const struct elf_view *v, char *name, size_t size, uint32_t *crc)
{
	size_t rest, pad;
	const uint8_t *p = link_name(v, ".gnu_debuglink", name, size, &rest);
	const Elf64_Shdr *sh = elf_view__section(v, ".gnu_debuglink", 0);

	if (!p || !sh)
		return false;
	/* The CRC is at the next multiple of four of the section. */
	pad = (4 - (sh->sh_size - rest) % 4) % 4;
	if (rest < pad || rest - pad < 4)
		return false;
	*crc = rd32(p + pad);
	return true;
}

bool elf_view__altlink(const struct elf_view *v, char *name, size_t size, uint8_t id[BUILD_ID_MAX],
		       size_t *id_len)
{
	size_t rest;
	const uint8_t *p = link_name(v, ".gnu_debugaltlink", name, size, &rest);

	if (!p || !rest)
		return false;
	*id_len = MT_MIN(rest, (size_t)BUILD_ID_MAX);
	memcpy(id, p, *id_len);
	return true;
}

uint32_t elf_view__crc(const struct elf_view *v)
{
	return lzma_crc32(v->data, v->size, 0);
}
