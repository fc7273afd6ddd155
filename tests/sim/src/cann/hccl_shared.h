// SPDX-License-Identifier: Apache-2.0
/* What the ranks of a simulated communicator share, also across processes: a piece of shared
 * memory. */
#ifndef SIM_HCCL_SHARED_H
#define SIM_HCCL_SHARED_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct hccl_shared;

/* A new name for a communicator into the root information. 0 or -errno. */
int hccl_shared__name(void *info);

/*
 * Joins the communicator of this root information and waits until all n ranks have. NULL in *out if
 * the information has no name (made by hand, not by HcclGetRootInfo): nobody to share with.
 */
int hccl_shared__join(const void *info, uint32_t n, uint32_t rank, struct hccl_shared **out);
void hccl_shared__leave(struct hccl_shared *s);

/* What one rank gets of a chunk: all ranks' chunks lie one after another, hccl_shared__at() apart.
 */
typedef void (*hccl_take_t)(struct hccl_shared *s, void *ctx, size_t offset, size_t bytes);
const void *hccl_shared__at(const struct hccl_shared *s, uint32_t rank);

/*
 * A collective: each rank gives `bytes` from src, in chunks; after each chunk `take` is called
 * where all ranks' chunks are there. 0 or -errno (-ETIMEDOUT: a rank does not come).
 */
int hccl_shared__exchange(struct hccl_shared *s, const void *src, size_t bytes, hccl_take_t take,
			  void *ctx);

/* One message between two ranks. */
int hccl_shared__send(struct hccl_shared *s, uint32_t peer, const void *src, size_t bytes);
int hccl_shared__receive(struct hccl_shared *s, uint32_t peer, void *dst, size_t bytes);

#pragma GCC visibility pop

#endif
