/* SPDX-License-Identifier: Apache-2.0 */
/* What methods.bpf.c sends besides what memtap's own programs do. */
#ifndef BENCH_METHODS_H
#define BENCH_METHODS_H

#include <memtap/event.h>

#define FP_STACK 200 /* a type that no record of memtap has */

struct fp_stack {
	struct mt_hdr h;
	__u64 n;
	__u64 pc[256];
};

#endif
