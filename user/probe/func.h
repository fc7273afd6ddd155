/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of one function, and what kind of thing its branches reach. */
#ifndef MEMTAP_PROBE_FUNC_H
#define MEMTAP_PROBE_FUNC_H

#include "probe/elf.h"
#include "probe/insn.h"

struct func {
	int machine;
	uint64_t start, end;
	struct insn *v; /* in address order, each directly behind the one before */
	size_t n;
	bool exact; /* the last one ends at `end`: no undecodable byte */
};

/* Decode [start, end) one instruction after the other. 0 or -errno; free with func__free. */
int func__decode(const struct elf_image *img, uint64_t start, uint64_t end, enum insn_detail detail,
		 struct func *out);
void func__free(struct func *f);
/* Index of the instruction that starts at addr; -1 if none does. */
ssize_t func__index(const struct func *f, uint64_t addr);
/*
 * Is the indirect jump at index i a jump table of this function (and not a
 * call of something else in tail position)? Needs INSN_FULL.
 */
bool func__is_switch(const struct func *f, size_t i);
/* Is there an import stub (.plt, .plt.sec, .plt.got, or a mold or lld one)? */
bool code__is_stub(const struct elf_image *img, uint64_t vaddr);
/*
 * Is `fde` a piece that the compiler split off from [start, end) (`.cold`)?
 * Such a piece starts with a frame already there, or jumps back.
 */
bool fde__is_part_of(struct elf_image *img, const struct fde *fde, uint64_t start, uint64_t end);
/* Does a branch of `fde` lead back into [start, end), behind its first byte? */
bool fde__leads_back(struct elf_image *img, const struct fde *fde, uint64_t start, uint64_t end);
/* Bounds of the function at vaddr: its FDE, else its symbol. 0 or -ENOENT. */
int func__bounds(struct elf_image *img, uint64_t vaddr, struct fde *out);

#endif
