/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of user/symbol: ranges of the entries of an array, taken and given back. */
#ifndef MEMTAP_SYMBOL_SPANS_H
#define MEMTAP_SYMBOL_SPANS_H

#include <stdint.h>

struct span {
	uint32_t first, n;
};

/* The free ranges, sorted; no two touch. */
struct spans {
	struct span *free;
	uint32_t n, cap;
};

/* All of [0, n) is free. 0 or -ENOMEM. */
int spans__init(struct spans *s, uint32_t n);
void spans__fini(struct spans *s);
/* The first range with room for n (> 0) entries. 0 or -ENOSPC. */
int spans__take(struct spans *s, uint32_t n, uint32_t *first);
/* Give it back. -ENOMEM: it is lost. */
int spans__give(struct spans *s, uint32_t first, uint32_t n);

#endif
