// SPDX-License-Identifier: Apache-2.0
/* Who reports malloc and free: the allocator itself, or (SIM_RC2) whoever calls it. */
#ifndef SIM_REPORT_OUTER_H
#define SIM_REPORT_OUTER_H

#include "device_allocator.h"
#include "emit.h"

namespace c10_npu
{
namespace NPUCachingAllocator
{

#ifdef SIM_RC2
/*
 * Inlined: the call sites are the wrappers. The real one reports when the lock is open again, of a
 * block that another thread may have taken or deleted meanwhile, and crashes of it now and then
 * (2.1.0.post6, 6 threads); here the lock is held.
 */
__attribute__((always_inline)) inline Block *
DeviceCachingAllocator::malloc_outer(int device, size_t size, aclrtStream stream,
				     uint8_t allocator_type)
{
	using namespace torch_npu::profiler;
	std::lock_guard<std::recursive_mutex> guard(mutex);
	Block *b = malloc(device, size, stream, allocator_type);

	emit::memory({ "pta_malloc", MemoryComponentType::CACHING_ALLOCATOR,
		       MemoryDataType::MEMORY_MALLOC, allocator_type, device, b->ptr,
		       static_cast<int64_t>(b->size), size,
		       stats.allocated_bytes[0].current,
		       stats.reserved_bytes[0].current,
		       stats.active_bytes[0].current, b->stream });
	return b;
}

__attribute__((always_inline)) inline void
DeviceCachingAllocator::free_outer(Block *block, uint8_t allocator_type)
{
	using namespace torch_npu::profiler;
	std::lock_guard<std::recursive_mutex> guard(mutex);
	const auto caching = MemoryComponentType::CACHING_ALLOCATOR;
	void *ptr = block->ptr;
	int64_t n = static_cast<int64_t>(block->size);
	size_t requested = block->requested_size;

	free(block, allocator_type);
	/* Both at once, also for a block that a stream still uses. */
	emit::report({ nullptr, caching, MemoryDataType::MEMORY_BLOCK_FREE, allocator_type,
		       block->device, block->ptr, static_cast<int64_t>(block->size), requested,
		       stats.allocated_bytes[0].current,
		       stats.reserved_bytes[0].current,
		       stats.active_bytes[0].current, block->stream });
	emit::memory({ "pta_free", caching, MemoryDataType::MEMORY_FREE, allocator_type,
		       block->device, ptr, n, requested, stats.allocated_bytes[0].current,
		       stats.reserved_bytes[0].current,
		       stats.active_bytes[0].current, block->stream, block->ptr,
		       static_cast<int64_t>(block->size) });
}
#else
inline Block *DeviceCachingAllocator::malloc_outer(int device, size_t size, aclrtStream stream,
						   uint8_t allocator_type)
{
	return malloc(device, size, stream, allocator_type);
}

inline void DeviceCachingAllocator::free_outer(Block *block, uint8_t allocator_type)
{
	return free(block, allocator_type);
}
#endif

} // namespace NPUCachingAllocator
} // namespace c10_npu
#endif
