/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: is a debug file of the same build as the file that runs? */
#ifndef MEMTAP_SYMBOL_DEBUGFILE_H
#define MEMTAP_SYMBOL_DEBUGFILE_H

#include "symbol/elfview.h"

/*
 * By build-id where the file that runs has one, else by the CRC in its
 * .gnu_debuglink. 0, or -ESTALE: another build, or nothing says that it is the same.
 */
int debugfile__check(const struct elf_view *main, const struct elf_view *debug);
/*
 * The supplementary file (dwz) that .gnu_debugaltlink of a file names: by
 * build-id, else where dwz puts them, and of that build-id only. fd, or -ENOENT.
 */
int debugfile__find_alt(const struct elf_view *v, const struct debug_search *s);

#endif
