/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of user/probe: the mapped ELF file and what its parts share.
 *
 * Not for other folders: those use probe.h. An image is for one thread: the
 * tables below are made when first asked for.
 */
#ifndef MEMTAP_PROBE_ELF_H
#define MEMTAP_PROBE_ELF_H

#include <elf.h>
#include <string.h>

#include "base/base.h"
#include "probe/probe.h"

/* Values that older <elf.h> lack; generic ABI, https://gabi.xinuos.com. */
#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

struct elf_seg {
	uint64_t off, vaddr, filesz, memsz;
	uint32_t flags; /* PF_* */
};

struct elf_sym {
	const char *name;
	uint64_t vaddr, size;
	bool dynamic; /* from .dynsym */
	bool local; /* STB_LOCAL: any number of these may share a name */
	bool ifunc; /* the address is a resolver's: no function to probe */
};

/* A table in the file: pointer checked for `n` entries when it was found. */
struct elf_table {
	const uint8_t *p;
	size_t n;
};

struct elf_image {
	const uint8_t *data;
	size_t size;
	char *name;
	int machine;
	bool interp; /* PT_INTERP */

	struct elf_seg *segs; /* PT_LOAD, sorted by address */
	size_t nsegs;
	uint64_t eh_hdr, eh_hdr_size; /* PT_GNU_EH_FRAME, address and size */
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_len;

	/* from PT_DYNAMIC */
	const char *dynstr;
	size_t dynstr_len;
	struct elf_table dyn, dynsym, versym, rela, jmprel, relr;
	const char *soname, *runpath;

	/* made when first needed */
	bool syms_done;
	struct elf_sym *syms; /* defined functions: .dynsym, then .symtab */
	size_t nsyms, ndyn;
	struct hmap by_name; /* hash of the name -> index in syms */
	uint32_t *by_addr; /* indices of syms, sorted by address */

	uint64_t work, work_given; /* what may be spent on the file, ns: what is left, and all */
	uint64_t hash_seed; /* nobody can make names that meet in by_name */
	bool over; /* it was not enough: nothing that is found now is to be believed */

	bool fdes_done;
	int fdes_err;
	struct fde *fdes;
	uint64_t *fde_recs; /* address of each FDE's record, same order */
	size_t nfdes;
};

/* Unaligned little-endian reads; the callers have checked the bounds. */
static inline uint16_t rd16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t rd32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t rd64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/*
 * Work on a file is bounded, for anybody can map a file that libraries are looked for
 * in: what takes long is paid for before it is done. Costs are about what they take
 * on a slow processor, ns.
 */
#define WORK_16BYTES 4 /* searched by the C library */
#define WORK_HIT 4 /* a byte found so, and looked at */
#define WORK_BYTE 2 /* looked at by itself */
#define WORK_SYMBOL 200 /* beside the bytes of its name */
#define WORK_RELOC 16
#define WORK_FDE 100
#define WORK_INSN 200 /* decoded */
#define WORK_STEP 40 /* an instruction looked at again */

/* False: the work is up, now and from now on (elf_image__over). */
static inline bool elf_image__spend(const struct elf_image *cimg, uint64_t n, uint64_t cost)
{
	struct elf_image *img = (struct elf_image *)cimg; /* not what the file says */

	if (img->over || n > img->work / cost) {
		img->over = true;
		return false;
	}
	img->work -= n * cost;
	return true;
}

/* Survive reads behind the end of a mapped file that was truncated: zeros instead. */
void elf_guard__add(const void *p, size_t size);
void elf_guard__del(const void *p);
/* Address of a loaded section by its name, where the file still has its section headers. */
bool elf_image__section(const struct elf_image *img, const char *name, uint64_t *vaddr);
/* The PT_LOAD whose file-backed part holds vaddr; NULL if none. */
const struct elf_seg *elf_image__seg(const struct elf_image *img, uint64_t vaddr);
/* Bytes from an address to the end of its file-backed segment; *n = how many. */
const uint8_t *elf_image__rest(const struct elf_image *img, uint64_t vaddr, size_t *n);
/* No name is longer: of real ones the longest has 1.5 KiB. */
#define ELF_NAME_MAX 4096
/* Does a name at p end within `room` bytes, and is not too long? */
static inline bool elf__is_name(const char *p, size_t room)
{
	size_t n = MT_MIN(room, (size_t)ELF_NAME_MAX);

	return strnlen(p, n) < n;
}

/* String at an offset of .dynstr; NULL if it does not end in there or is no name. */
const char *elf_image__dynstr(const struct elf_image *img, uint64_t off);
/* [*lo, *hi) are the positions in by_addr of the symbols in [from, to). */
int elf_image__symbols_in(const struct elf_image *img, uint64_t from, uint64_t to, size_t *lo,
			  size_t *hi);
/* Size of the largest symbol that starts at vaddr; 0 if none or unknown. */
uint64_t elf_image__symbol_size(const struct elf_image *img, uint64_t vaddr);

/*
 * Relocations. For each: where, the symbol's name (NULL: none) and the addend
 * (for a RELATIVE one the value of the word). Stops when fn returns non-zero.
 */
enum elf_rel {
	REL_RELATIVE,
	REL_GLOB_DAT,
	REL_JUMP_SLOT,
	REL_ABS64,
	REL_TLS_INDEX, /* the first of two words: module, offset */
	REL_TLS_DESC, /* of two words: resolver, what it is given */
	REL_TLS_OFFSET, /* from the thread pointer */
	REL_OTHER
};

struct elf_reloc {
	enum elf_rel type;
	uint64_t where;
	int64_t addend;
	uint32_t sym; /* index in .dynsym */
};

int elf_image__each_reloc(const struct elf_image *img,
			  int (*fn)(void *ctx, const struct elf_reloc *r), void *ctx);
/* Entry of .dynsym; false if there is no such index. */
bool elf_image__dynsym(const struct elf_image *img, uint32_t i, Elf64_Sym *out);

/* What an FDE says beyond its range. */
struct fde_detail {
	uint64_t lsda; /* address of the exception table; 0 = none */
	bool starts_framed; /* its first byte has a frame already: no function's entry */
	bool signal; /* 'S': a signal frame */
};

int elf_image__fde_detail(struct elf_image *img, const struct fde *fde, struct fde_detail *out);

#endif
