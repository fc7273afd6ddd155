/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to probe: ELF files, derivation of hidden functions, choice of the
 * cheap instruction, the catalogue of symbols, kernel features, attaching.
 *
 * Everything read from a file is hostile: sizes and offsets are checked, a
 * malformed file is an error, never a crash.
 */
#ifndef MEMTAP_PROBE_H
#define MEMTAP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- an ELF file, mapped read-only ---- */

struct elf_image;

#define BUILD_ID_MAX 32

/*
 * Open by descriptor (kept open by the caller; duplicated inside) or by path.
 * 0 or -errno: -ENOEXEC not an ELF file of this byte order and 64 bits or
 * malformed, else what open/mmap say. Free with elf_image__close (NULL is fine).
 */
int elf_image__open(const char *path, struct elf_image **out);
int elf_image__open_fd(int fd, const char *name, struct elf_image **out);
void elf_image__close(struct elf_image *img);

const char *elf_image__name(const struct elf_image *img);
int elf_image__machine(const struct elf_image *img); /* EM_X86_64, EM_AARCH64 */
/* Build-id bytes into id; number of bytes, 0 = none. */
size_t elf_image__build_id(const struct elf_image *img, uint8_t id[BUILD_ID_MAX]);
/* DT_SONAME or NULL; DT_NEEDED i or NULL; DT_RUNPATH, else DT_RPATH, or NULL. */
const char *elf_image__soname(const struct elf_image *img);
const char *elf_image__needed(const struct elf_image *img, size_t i);
const char *elf_image__runpath(const struct elf_image *img);

/*
 * Address of a defined function symbol: .dynsym first, then .symtab; the
 * default version where there are several (R44). 0, or -ENOENT.
 */
int elf_image__symbol(const struct elf_image *img, const char *name, uint64_t *vaddr,
		      uint64_t *size);
/* Call fn for every defined function symbol until it returns non-zero; returns that. */
int elf_image__each_symbol(const struct elf_image *img,
			   int (*fn)(void *ctx, const char *name, uint64_t vaddr, uint64_t size),
			   void *ctx);
/* Exported symbol at or before a file offset: name or NULL, *delta = distance. */
const char *elf_image__name_at(const struct elf_image *img, uint64_t off, uint64_t *delta);
/* Translations through PT_LOAD: 0, or -ERANGE where nothing is mapped. */
int elf_image__offset(const struct elf_image *img, uint64_t vaddr, uint64_t *off);
int elf_image__vaddr(const struct elf_image *img, uint64_t off, uint64_t *vaddr);
/* Bytes at an address, `n` of them within one file-backed segment; NULL if not. */
const void *elf_image__at(const struct elf_image *img, uint64_t vaddr, size_t n);
/* NUL-terminated string at an address within the file; NULL if there is none. */
const char *elf_image__string(const struct elf_image *img, uint64_t vaddr);

/* ---- frame descriptions: bounds of functions in stripped files ---- */

struct fde {
	uint64_t start, end; /* vaddr, [start, end) */
};

/* Sorted FDEs from PT_GNU_EH_FRAME/.eh_frame, read once. Owned by img. */
int elf_image__fdes(struct elf_image *img, const struct fde **fdes, size_t *n);
/* The FDE that holds vaddr; NULL if none. */
const struct fde *elf_image__fde_at(struct elf_image *img, uint64_t vaddr);

/* ---- derivation of hidden functions of libtorch_npu.so ---- */

enum pta_generation { PTA_NONE, PTA_C10, PTA_REPORT };
enum pta_layout { PTA_LAYOUT_UNKNOWN, PTA_LAYOUT_A, PTA_LAYOUT_B, PTA_LAYOUT_C };

struct pta_derived {
	enum pta_generation generation;
	enum pta_layout layout;
	uint64_t report, report_size; /* vaddr, 0 = not found */
	uint64_t report_off;          /* file offset */
	unsigned int call_sites;
	uint64_t malloc, free; /* DeviceCachingAllocator::malloc, ::free, vaddr or 0 */
	int block_ptr, block_size; /* offsets in Block, -1 = not found */
	size_t fdes;
	bool from_symtab;
	const char *why; /* reason when something was not found; static text */
};

/*
 * spec ascend-abi.md 2.7.3. 0 when the file was understood (look at
 * generation and why), -errno when it is not an ELF file of a known machine.
 */
int pta__derive(struct elf_image *img, struct pta_derived *out);

/*
 * Functions of a Python extension module, found by the names in its method
 * table: a RELATIVE slot that points at the string `method`, the next word is
 * the function (msleaks.md 12.3, ascend-abi.md 2.7.3 step 7). Accepts only
 * slots whose function is an FDE start. 0, -ENOENT not found, -EEXIST ambiguous.
 */
int pymethod__find(struct elf_image *img, const char *method, uint64_t *vaddr);

/* ---- the cheap instruction ---- */

enum site_cost { SITE_EMULATED, SITE_STEPPED };

struct site {
	uint64_t vaddr;
	uint64_t off;    /* file offset: what a uprobe wants */
	int sp_off;      /* sp at the site + sp_off = sp at function entry */
	enum site_cost cost;
	char insn[24];   /* mnemonic, for reports */
};

/*
 * Instructions this kernel emulates beyond the set that all supported kernels
 * do (push, short/near jumps, 1-byte nop | b, cbz, tbz, adr, adrp, ret).
 */
#define SITE_EMU_MULTINOP 0x1 /* x86: multi-byte nops (found by calibration) */
#define SITE_EMU_NOP      0x2 /* arm64: nop (6.13) */

/*
 * Site for an entry probe of the function at vaddr whose argument registers
 * 0..nargs-1 must be unchanged there. Never fails for a decodable function:
 * falls back to vaddr itself (SITE_STEPPED). design.md, Probe sites.
 */
int site__entry(struct elf_image *img, uint64_t vaddr, int nargs, unsigned int emu,
		struct site *out);
/*
 * All return instructions of the function at vaddr, by decoding control flow
 * from the FDE start (never a byte scan). Returns their number, -ENOSPC if
 * there are more than max, -EOPNOTSUPP if the function can leave by an
 * indirect or outward tail jump (returns would be missed), -EINVAL undecodable.
 */
int site__returns(struct elf_image *img, uint64_t vaddr, struct site *out, int max);

#endif
