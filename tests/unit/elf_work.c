// SPDX-License-Identifier: Apache-2.0
/*
 * Files that are made to take long: small ones whose parts name each other over and
 * over. Anybody can map one where libraries are looked for; each ends in moments.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/derive.h"
#include "probe/elf.h"
#include "probe/probe.h"

/* One segment at address 0: what is put somewhere has its file offset for an address. */
struct made {
	uint8_t *b;
	size_t size, n_phdrs;
};

#define PHDRS 64

static struct made make(size_t size)
{
	struct made m = { calloc(1, size), size, 0 };
	Elf64_Ehdr *eh = (Elf64_Ehdr *)m.b;

	cr_assert(m.b);
	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	eh->e_ident[EI_CLASS] = ELFCLASS64;
	eh->e_ident[EI_DATA] = ELFDATA2LSB;
	eh->e_type = ET_DYN;
	eh->e_machine = EM_X86_64;
	eh->e_phoff = PHDRS;
	eh->e_phentsize = sizeof(Elf64_Phdr);
	return m;
}

static void segment(struct made *m, uint32_t type, uint64_t vaddr, uint64_t off, uint64_t size)
{
	Elf64_Phdr *p = (Elf64_Phdr *)(m->b + PHDRS) + m->n_phdrs++;

	*p = (Elf64_Phdr){ .p_type = type,
			   .p_flags = PF_R | PF_X,
			   .p_offset = off,
			   .p_vaddr = vaddr,
			   .p_filesz = size,
			   .p_memsz = size,
			   .p_align = 4 };
	((Elf64_Ehdr *)m->b)->e_phnum = (uint16_t)m->n_phdrs;
}

static int open_made(struct made *m, struct elf_image **img)
{
	int fd = memfd_create("made", MFD_CLOEXEC), err;

	cr_assert(fd >= 0 && write(fd, m->b, m->size) == (ssize_t)m->size);
	err = elf_image__open_fd(fd, "made", img);
	close(fd);
	free(m->b);
	return err;
}

static void put32(uint8_t *p, uint64_t v)
{
	uint32_t w = (uint32_t)v;

	memcpy(p, &w, 4);
}

/* ---- names ---- */

/* n function symbols whose names are one text of `len` bytes. */
static int symbols_of(uint32_t n, uint32_t len, uint64_t *size)
{
	size_t dyn = 0x1000, hash = 0x1100, sym = 0x1200, str = sym + n * sizeof(Elf64_Sym),
	       code = str + len + 2, all = code + n + 16;
	const uint64_t tags[][2] = { { DT_HASH, hash }, { DT_SYMTAB, sym },  { DT_STRTAB, str },
				     { DT_STRSZ, len + 2 }, { DT_NULL, 0 } };
	struct made m = make(all);
	struct elf_image *img;
	uint64_t vaddr;
	uint32_t i;
	int err;

	segment(&m, PT_LOAD, 0, 0, all);
	segment(&m, PT_DYNAMIC, dyn, dyn, sizeof(tags));
	memcpy(m.b + dyn, tags, sizeof(tags));
	put32(m.b + hash + 4, n);
	for (i = 1; i < n; i++) {
		Elf64_Sym s = { .st_name = 1,
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				.st_shndx = 1,
				.st_value = code + i };

		memcpy(m.b + sym + i * sizeof(s), &s, sizeof(s));
	}
	memset(m.b + str + 1, 'a', len);
	cr_assert_eq(open_made(&m, &img), 0);
	err = elf_image__symbol(img, "no such name", &vaddr, size);
	cr_expect_eq(elf_image__over(img), err == -E2BIG);
	elf_image__close(img);
	return err;
}

Test(work, one_long_name_for_all, .timeout = 10)
{
	uint64_t size;

	/* No name at all; as many bytes of names as are too much. */
	cr_expect_eq(symbols_of(20000, 1 << 20, &size), -ENOENT);
	cr_expect_eq(symbols_of(60000, 4000, &size), -E2BIG);
	cr_expect_eq(symbols_of(1000, 4000, &size), -ENOENT);
}

/* ---- frames ---- */

#define HDR 0x1000 /* .eh_frame_hdr; behind it .eh_frame, then the code */

/*
 * Frame descriptions of `n` ranges of `len` bytes of code, `step` apart; with two CIEs in
 * turn, whose augmentation is 'S' `aug` times. Leaves the code at *code.
 */
static struct made framed(uint32_t n, uint32_t len, uint32_t step, uint32_t aug, size_t *code,
			  size_t more)
{
	size_t cie[2], fde = HDR + 12 + n * 8ULL + 16, frame, i;
	uint32_t cie_len = 4 + 1 + 1 + aug + 1 + 3 + 1 + 2;
	struct made m;

	cie_len = (cie_len + 3) & ~3u;
	frame = fde = (fde + 3) & ~3ULL;
	cie[0] = frame;
	cie[1] = frame + 4 + cie_len;
	fde = cie[1] + 4 + cie_len;
	*code = (fde + n * 20ULL + 4 + 15) & ~15ULL;
	m = make(*code + step * (n - 1ULL) + len + more);
	segment(&m, PT_LOAD, 0, 0, m.size);
	segment(&m, PT_GNU_EH_FRAME, HDR, HDR, 12 + n * 8ULL);
	memcpy(m.b + HDR, "\1\x1b\3\x3b", 4);
	put32(m.b + HDR + 4, frame - (HDR + 4));
	put32(m.b + HDR + 8, n);
	for (i = 0; i < 2; i++) {
		uint8_t *p = m.b + cie[i];

		put32(p, cie_len);
		p[8] = 1;
		p[9] = 'z';
		p[10] = 'R';
		memset(p + 11, 'S', aug);
		p += 11 + aug + 1;
		memcpy(p, "\1\x78\x10\1\x1b", 5);
	}
	for (i = 0; i < n; i++) {
		size_t at = fde + i * 20;
		uint8_t *p = m.b + at, *t = m.b + HDR + 12 + i * 8;

		put32(p, 16);
		put32(p + 4, at + 4 - cie[i & 1]);
		put32(p + 8, *code + i * step - (at + 8));
		put32(p + 12, len);
		put32(t, *code + i * step - HDR);
		put32(t + 4, at - HDR);
	}
	return m;
}

Test(work, long_augmentations, .timeout = 10)
{
	const struct fde *fdes;
	struct elf_image *img;
	size_t code, n;
	struct made m = framed(50000, 16, 16, 1 << 20, &code, 0);

	cr_assert_eq(open_made(&m, &img), 0);
	cr_expect_eq(elf_image__fdes(img, &fdes, &n), -ENOENT);
	elf_image__close(img);
	/* What the two CIEs of any linker have is fine. */
	m = framed(50000, 16, 16, 1, &code, 0);
	cr_assert_eq(open_made(&m, &img), 0);
	cr_expect_eq(elf_image__fdes(img, &fdes, &n), 0);
	cr_expect_eq(n, 50000);
	elf_image__close(img);
}

/* A function full of loads of one slot: each is confirmed by decoding from its start. */
Test(work, many_hits_in_a_function, .timeout = 10)
{
	uint32_t len = 7 * 150000;
	struct addr_set found;
	struct elf_image *img;
	size_t code, i;
	struct made m = framed(1, len, len, 0, &code, 16);

	for (i = 0; i < len; i += 7) {
		memcpy(m.b + code + i, "\x48\x8b\x05", 3); /* mov rax, [rip + …] */
		put32(m.b + code + i + 3, len - (i + 7));
	}
	cr_assert_eq(open_made(&m, &img), 0);
	scan__loads_of(img, code + len, &found);
	cr_expect(elf_image__over(img));
	elf_image__close(img);
}

/* Jumps backwards, each of which another round is needed to follow. */
static int no_load(void *ctx, const struct insn *in)
{
	return 1;
}

Test(work, many_jumps_backwards, .timeout = 10)
{
	uint32_t n = 100000, len = 5 * n, i;
	struct elf_image *img;
	struct func f;
	size_t code;
	struct made m = framed(1, len, len, 0, &code, 0);

	/* 0: to the last; each to the one before it; 1: returns */
	for (i = 0; i < n; i++) {
		uint8_t *p = m.b + code + i * 5ULL;

		*p = i == 1 ? 0xc3 : 0xe9;
		put32(p + 1, i ? (uint64_t)-10 : len - 10);
		if (i == 1)
			memset(p + 1, 0x90, 4);
	}
	cr_assert_eq(open_made(&m, &img), 0);
	cr_assert_eq(func__decode(img, code, code + len, INSN_FULL, &f), 0);
	cr_expect_eq(arg__each_load(img, &f, no_load, NULL), -E2BIG);
	func__free(&f);
	elf_image__close(img);
}

/* Branches into two large parts in turn, each of which is decoded to see whose it is. */
Test(work, parts_in_turn, .timeout = 10)
{
	uint32_t len = 200000, i;
	struct elf_image *img;
	struct site s;
	size_t code;
	struct made m = framed(3, len, len, 0, &code, 0);

	memset(m.b + code, 0x90, 3ULL * len);
	m.b[code] = 0xf8; /* clc, and behind it a nop that would be the site */
	for (i = 16; i + 12 < len; i += 12) {
		memcpy(m.b + code + i, "\x0f\x84", 2);
		put32(m.b + code + i + 2, len - (i + 6) + 8);
		memcpy(m.b + code + i + 6, "\x0f\x84", 2);
		put32(m.b + code + i + 8, 2 * len - (i + 12) + 8);
	}
	for (i = 1; i < 3; i++) { /* each leads back at its end */
		uint8_t *p = m.b + code + (i + 1ULL) * len - 5;

		*p = 0xe9;
		put32(p + 1, -(uint64_t)(i * len) - len + 8);
	}
	cr_assert_eq(open_made(&m, &img), 0);
	cr_assert_eq(site__entry(img, code, 0, 0, &s), 0);
	cr_expect(elf_image__over(img));
	elf_image__close(img);
}

/* ---- segments ---- */

Test(work, segments, .timeout = 10)
{
	struct made m = make(1 << 20);
	struct elf_image *img;
	size_t i;
	int fd;

	/* The same addresses twice */
	segment(&m, PT_LOAD, 0, 0, 1 << 20);
	segment(&m, PT_LOAD, 0x1000, 0, 1 << 20);
	cr_expect_eq(open_made(&m, &img), -ENOEXEC);
	/* The same part of the file at 200 addresses: searched as often, and not without end. */
	m = make(32 << 20);
	for (i = 0; i < 200; i++)
		segment(&m, PT_LOAD, i << 25, 0, 32 << 20);
	cr_assert_eq(open_made(&m, &img), 0);
	{
		struct addr_set found;

		scan__loads_of(img, 0x1000, &found);
	}
	cr_expect(elf_image__over(img));
	elf_image__close(img);
	/* Notes of the whole file, over and over */
	m = make(4 << 20);
	segment(&m, PT_LOAD, 0, 0, 4 << 20);
	for (i = 0; i < 20000; i++)
		segment(&m, PT_NOTE, 0, 2 << 20, 2 << 20);
	cr_expect_eq(open_made(&m, &img), -E2BIG);
	/* Nearly all hole */
	m = make(0x1000);
	segment(&m, PT_LOAD, 0, 0, 0xf0000000);
	fd = memfd_create("hole", MFD_CLOEXEC);
	cr_assert(fd >= 0 && write(fd, m.b, m.size) == (ssize_t)m.size);
	free(m.b);
	cr_assert_eq(ftruncate(fd, 0xf0000000), 0);
	cr_assert_eq(elf_image__open_fd(fd, "hole", &img), 0);
	{
		struct addr_set found;

		scan__loads_of(img, 0x1000, &found);
	}
	cr_expect(elf_image__over(img));
	elf_image__close(img);
	close(fd);
	/* All hole, and longer */
	fd = memfd_create("hole", MFD_CLOEXEC);
	cr_assert(fd >= 0);
	cr_assert_eq(ftruncate(fd, 1LL << 40), 0);
	cr_expect_eq(elf_image__open_fd(fd, "hole", &img), -EFBIG);
	close(fd);
}

Test(work, errors_have_a_text)
{
	cr_expect(strstr(elf__why(-E2BIG), "more work"));
	cr_expect(strstr(elf__why(-EFBIG), "4 GiB"));
	cr_expect(strstr(elf__why(-ENOEXEC), "not an ELF file"));
	cr_expect_str_eq(elf__why(-EACCES), strerror(EACCES));
}
