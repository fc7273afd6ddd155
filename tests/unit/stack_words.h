/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a stored stack (data-stacks/README.md) for the enums of memtap/unwind.h. */
#ifndef MEMTAP_UNIT_STACK_WORDS_H
#define MEMTAP_UNIT_STACK_WORDS_H

#include <memtap/unwind.h>

static const char *const cfa_words[] = {
	[MT_CFA_NONE] = "none",	  [MT_CFA_SP] = "sp",	      [MT_CFA_FP] = "fp",
	[MT_CFA_REG] = "reg",	  [MT_CFA_SP_DEREF] = "*sp",  [MT_CFA_FP_DEREF] = "*fp",
	[MT_CFA_PLT] = "plt",	  [MT_CFA_SIGNAL] = "signal", [MT_CFA_END] = "end",
	[MT_CFA_OTHER] = "other",
};

static const char *const fp_words[] = {
	[MT_FP_SAME] = "same", [MT_FP_CFA] = "cfa", [MT_FP_DEREF] = "fp", [MT_FP_OTHER] = "other"
};

static const char *const ra_words[] = {
	[MT_RA_CFA] = "cfa", [MT_RA_LR] = "lr", [MT_RA_OTHER] = "other"
};

static const char *const end_words[] = {
	[MT_END_NOT] = "not",	  [MT_END_ROOT] = "root",	[MT_END_ZERO] = "zero",
	[MT_END_ENTRY] = "entry", [MT_END_DEEP] = "deep",	[MT_END_NOMAP] = "nomap",
	[MT_END_ANON] = "anon",	  [MT_END_NOTABLE] = "notable", [MT_END_NOROW] = "norow",
	[MT_END_RULE] = "rule",	  [MT_END_REG] = "register",	[MT_END_FAULT] = "fault",
	[MT_END_LOOP] = "loop",	  [MT_END_NOPROC] = "noproc",	[MT_END_ROOM] = "room",
};

#endif
