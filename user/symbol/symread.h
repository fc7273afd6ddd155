/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of user/symbol: function symbols as the tables of a file have them,
 * before they are sorted and made into a symtab.
 */
#ifndef MEMTAP_SYMBOL_SYMREAD_H
#define MEMTAP_SYMBOL_SYMREAD_H

#include "probe/elf.h"
#include "symbol/elfview.h"

/* Offsets and sizes fit in 31 bits: code of 2 GB, which is what relative calls reach. */
#define SYM_SIZE_MAX 0x7fffffffu

struct raw_sym {
	uint32_t off; /* address less the base */
	uint32_t size; /* 0 = not told */
	uint32_t limit; /* end of its section or segment, same base: a bound without a size */
	uint8_t rank; /* of names at one address the lowest is the best */
	bool untyped; /* a label of assembly: STT_NOTYPE */
	bool plt;
	size_t max; /* bytes from name to the end of its table */
	const char *name; /* in the bytes of its table */
};

struct raw_syms {
	struct raw_sym *v;
	size_t n, cap;
	uint64_t base; /* address of the lowest executable segment */
	struct elf_image *img; /* the file that runs: its segments say what is code */
};

/*
 * Add the defined functions of a table of type SHT_SYMTAB. Number added, or
 * -ENOENT without such a table, or -ENOMEM. The view must stay until the names are copied.
 */
int symread__symtab(struct raw_syms *r, const struct elf_view *v);
/* The same of .dynsym, which needs no section headers. */
int symread__dynsym(struct raw_syms *r, const struct elf_view *v);
/* PLT stubs, named after the symbol that their slot is relocated with. */
int symread__plt(struct raw_syms *r, const struct elf_view *v);
/*
 * Unpack .gnu_debugdata: bytes to be freed by the caller. 0, -ENOENT if there is
 * none, -EBADMSG malformed, -EFBIG larger than any such section, -ENOMEM.
 */
int symread__debugdata(const struct elf_view *v, uint8_t **out, size_t *n);
/* Append; for the parts above. -ENOMEM, or 0, also where it is no code. */
int raw_syms__add(struct raw_syms *r, uint64_t vaddr, const struct raw_sym *s);

#endif
