/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes small ELF files of either machine from bytes of code, for tests: one
 * segment, symbols, frame descriptions. Address = file offset + MKELF_BASE.
 */
#ifndef MEMTAP_TEST_MKELF_H
#define MEMTAP_TEST_MKELF_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/probe.h"

#define MKELF_BASE 0x400000u
#define MKELF_CODE 0x1000u /* offset of the code */
#define MKELF_SIZE 0x3000u
#define MKELF_AT(off) (MKELF_BASE + MKELF_CODE + (off))

struct mkelf {
	uint8_t b[MKELF_SIZE];
	uint8_t *fr, *tab; /* next FDE, next entry of the search table */
	uint32_t nfdes, nsyms, code, strs;
	int machine;
	Elf64_Sym syms[32];
	char str[512];
};

#define MKELF_HDR 0x200u /* .eh_frame_hdr */
#define MKELF_FRAME 0x400u /* .eh_frame */

static inline void mkelf_put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, 4);
}

static inline void mkelf_init(struct mkelf *m, int machine)
{
	bool x86 = machine == EM_X86_64;
	/* zR, code alignment 1 or 4, data alignment -8, return register, pcrel sdata4 */
	uint8_t cie[] = { 20,
			  0,
			  0,
			  0,
			  0,
			  0,
			  0,
			  0,
			  1,
			  'z',
			  'R',
			  0,
			  x86 ? 1 : 4,
			  0x78,
			  x86 ? 16 : 30,
			  1,
			  0x1b,
			  0x0c,
			  x86 ? 7 : 31,
			  x86 ? 8 : 0,
			  x86 ? 0x90 : 0,
			  x86 ? 1 : 0,
			  0,
			  0 };

	memset(m, 0, sizeof(*m));
	m->machine = machine;
	memcpy(m->b + MKELF_FRAME, cie, sizeof(cie));
	m->fr = m->b + MKELF_FRAME + sizeof(cie);
	m->tab = m->b + MKELF_HDR + 12;
	m->nsyms = 1;
	m->strs = 1;
}

/* Append code; returns its offset (add MKELF_AT for the address). */
static inline uint32_t mkelf_code(struct mkelf *m, const void *p, size_t n)
{
	uint32_t at = m->code;

	memcpy(m->b + MKELF_CODE + at, p, n);
	m->code += (uint32_t)n;
	return at;
}

static inline void mkelf_symbol(struct mkelf *m, const char *name, uint32_t off, uint32_t size)
{
	m->syms[m->nsyms++] = (Elf64_Sym){ .st_name = m->strs,
					   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					   .st_shndx = 1,
					   .st_value = MKELF_AT(off),
					   .st_size = size };
	strcpy(m->str + m->strs, name);
	m->strs += (uint32_t)strlen(name) + 1;
}

/* Frame description of [off, off + size); `framed` as for a split-off part. In order. */
static inline void mkelf_fde(struct mkelf *m, uint32_t off, uint32_t size, bool framed)
{
	uint32_t at = (uint32_t)(m->fr - m->b);

	mkelf_put32(m->fr, 16);
	mkelf_put32(m->fr + 4, at + 4 - MKELF_FRAME);
	mkelf_put32(m->fr + 8, MKELF_CODE + off - (at + 8));
	mkelf_put32(m->fr + 12, size);
	if (framed) {
		m->fr[17] = 0x0e; /* DW_CFA_def_cfa_offset */
		m->fr[18] = 64;
	}
	m->fr += 20;
	mkelf_put32(m->tab, MKELF_CODE + off - MKELF_HDR);
	mkelf_put32(m->tab + 4, at - MKELF_HDR);
	m->tab += 8;
	m->nfdes++;
}

/* Fill in headers; the file is then m->b, MKELF_SIZE bytes. */
static inline void mkelf_finish(struct mkelf *m)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)m->b;
	Elf64_Phdr *ph = (Elf64_Phdr *)(m->b + sizeof(*eh));
	Elf64_Shdr *sh = (Elf64_Shdr *)(m->b + 0x2c00);
	uint8_t *hdr = m->b + MKELF_HDR;

	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_ident[EI_CLASS] = ELFCLASS64;
	eh->e_ident[EI_DATA] = ELFDATA2LSB;
	eh->e_ident[EI_VERSION] = EV_CURRENT;
	eh->e_type = ET_DYN;
	eh->e_machine = (Elf64_Half)m->machine;
	eh->e_version = EV_CURRENT;
	eh->e_phoff = sizeof(*eh);
	eh->e_phentsize = sizeof(*ph);
	eh->e_ehsize = sizeof(*eh);
	eh->e_phnum = m->nfdes ? 2 : 1;
	eh->e_shoff = 0x2c00;
	eh->e_shentsize = sizeof(*sh);
	eh->e_shnum = 4;
	ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_vaddr = MKELF_BASE,
			      .p_filesz = MKELF_SIZE,
			      .p_memsz = MKELF_SIZE,
			      .p_align = 4096 };
	ph[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
			      .p_flags = PF_R,
			      .p_offset = MKELF_HDR,
			      .p_vaddr = MKELF_BASE + MKELF_HDR,
			      .p_filesz = (uint64_t)(m->tab - hdr),
			      .p_memsz = (uint64_t)(m->tab - hdr) };
	hdr[0] = 1;
	hdr[1] = 0x1b;
	hdr[2] = 0x03;
	hdr[3] = 0x3b;
	mkelf_put32(hdr + 4, MKELF_FRAME - (MKELF_HDR + 4));
	mkelf_put32(hdr + 8, m->nfdes);
	memcpy(m->b + 0x2000, m->syms, sizeof(m->syms));
	memcpy(m->b + 0x2800, m->str, sizeof(m->str));
	sh[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS };
	sh[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
			      .sh_offset = 0x2000,
			      .sh_link = 3,
			      .sh_size = m->nsyms * sizeof(Elf64_Sym),
			      .sh_entsize = sizeof(Elf64_Sym) };
	sh[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
			      .sh_offset = 0x2800,
			      .sh_size = sizeof(m->str) };
}

/* Open bytes as an image: 0 or -errno. */
static inline int mkelf_open_bytes(const void *p, size_t n, struct elf_image **out)
{
	int fd = memfd_create("mkelf", MFD_CLOEXEC), err;

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	err = elf_image__open_fd(fd, "mkelf", out);
	close(fd);
	return err;
}

/* Finish and open; exits when that fails, as nothing can be tested then. */
static inline struct elf_image *mkelf_open(struct mkelf *m)
{
	struct elf_image *img;

	mkelf_finish(m);
	if (mkelf_open_bytes(m, MKELF_SIZE, &img)) /* b is its first member */
		abort();
	return img;
}

#endif
