/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the derivation: searches through all code, and following an argument. */
#ifndef MEMTAP_PROBE_DERIVE_H
#define MEMTAP_PROBE_DERIVE_H

#include "probe/func.h"

/* A few addresses, each once. More than fit is `over`: then nothing is unique. */
struct addr_set {
	uint64_t v[64];
	size_t n;
	bool over;
};

void addr_set__add(struct addr_set *s, uint64_t v);
bool addr_set__has(const struct addr_set *s, uint64_t v);
void addr_set__del(struct addr_set *s, uint64_t v);

/* Starts of the functions (FDEs) that load the word at address `slot`. */
void scan__loads_of(struct elf_image *img, uint64_t slot, struct addr_set *out);
/*
 * Direct calls of `target`: how many, and the functions (FDE starts) they are in.
 */
unsigned int scan__calls_of(struct elf_image *img, uint64_t target, struct addr_set *callers);
/* Starts of instructions that make the address `value` (x86-64 lea), confirmed by decoding. */
void scan__leas_of(struct elf_image *img, uint64_t value, struct addr_set *out);

/* Call fn for each load through the first argument of f, until it returns non-zero. */
int arg__each_load(const struct elf_image *img, const struct func *f,
		   int (*fn)(void *ctx, const struct insn *load), void *ctx);

#endif
