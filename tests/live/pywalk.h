/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What pywalk.bpf.c and pywalk.c share. */
#ifndef PYWALK_H
#define PYWALK_H

#include <memtap/python.h>

struct pywalk_event {
	__u32 tid;
	__u32 pad;
	struct mt_py_stack stack;
};

struct pywalk_cost {
	__u64 ns, frames, stacks;
};

#endif
