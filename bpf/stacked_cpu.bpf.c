// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * All programs, with call stacks: for --call-stack on kernels without bpf_loop (before 5.17), where
 * no uprobe program may sleep (6.0).
 */
#define MT_WITH_STACKS
#define MT_STACKS_CPU
#define MT_NO_SLEEP
#include "merged.bpf.c"
