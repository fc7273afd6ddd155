/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of user/symbol: many names in little memory.
 *
 * The function names of libtorch_cpu.so take 70 MB as text. Neighbours have most
 * of their text in common, so blocks of 32 KiB are compressed: a tenth is kept,
 * and one block is unpacked when a name is wanted.
 */
#ifndef MEMTAP_SYMBOL_NAMESTORE_H
#define MEMTAP_SYMBOL_NAMESTORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define NAME_NONE UINT32_MAX
/* Longer names are not kept; compilers make none. */
#define NAME_MAX_LEN 16384u

struct name_block {
	uint32_t start; /* of its text in the text of all */
	uint32_t at; /* of its bytes in z */
};

/* Zero-initialise; add names, then finish, then get. */
struct namestore {
	uint8_t *z;
	size_t z_len, z_cap;
	struct name_block *blocks;
	size_t n_blocks, blocks_cap;
	uint32_t total; /* bytes of text, NULs included */
	struct strbuf open; /* the block being filled */
	void *compressor;
};

/* Add a name of `len` bytes with a suffix. Its number, NAME_NONE: not kept. */
uint32_t namestore__add(struct namestore *ns, const char *name, size_t len, const char *suffix);
/* Pack what is open, give back what is spare. 0 or -ENOMEM, also for an add that failed. */
int namestore__finish(struct namestore *ns);
/* Append a name to sb. 0, -ENOENT for an unknown number, -ENOMEM. */
int namestore__get(const struct namestore *ns, uint32_t name, struct strbuf *sb);
size_t namestore__bytes(const struct namestore *ns);
void namestore__free(struct namestore *ns);

#endif
