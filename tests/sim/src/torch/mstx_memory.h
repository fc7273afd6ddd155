// SPDX-License-Identifier: Apache-2.0
/* torch_npu's own memory calls to mstx, made only under the vendor's preload (since 7.0.0). */
#ifndef SIM_MSTX_MEMORY_H
#define SIM_MSTX_MEMORY_H

#include <cstdint>

namespace torch_npu
{
namespace mstx_memory
{

/* LD_PRELOAD names an existing libascend_kernel_hook.so; looked at once. */
bool enabled();
/* One record of the caching (0) or workspace (1) allocator; size > 0 allocates, else frees. */
void record(int component, int device, void *ptr, int64_t size, int64_t reserved);

} // namespace mstx_memory
} // namespace torch_npu
#endif
