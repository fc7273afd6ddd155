/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: call frame information by libdw. */
#ifndef MEMTAP_SYMBOL_CFI_H
#define MEMTAP_SYMBOL_CFI_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "symbol/symbol.h"

/*
 * The rule of a frame (dwarf_cfi_addrframe) of a file for `machine` (EM_*).
 * What is not understood is MT_CFA_OTHER.
 */
void cfi__rule(Dwarf_Frame *f, int machine, bool signal, struct mt_uw_rule *r);

#endif
