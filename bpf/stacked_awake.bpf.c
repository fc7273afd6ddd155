// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * All programs, with call stacks, for kernels with bpf_loop (5.17) where programs do not sleep:
 * from 6.15 on a program that may not is refused with a function that could, be it never reached.
 */
#define MT_WITH_STACKS
#define MT_NO_SLEEP
#include "merged.bpf.c"
