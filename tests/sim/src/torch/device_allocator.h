// SPDX-License-Identifier: Apache-2.0
/* The per-device caching allocator: layouts of Block and DeviceStats as in every released branch.
 */
#ifndef SIM_DEVICE_ALLOCATOR_H
#define SIM_DEVICE_ALLOCATOR_H

#include "npu.h"

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace c10_npu
{
namespace NPUCachingAllocator
{

struct Stat {
	int64_t current = 0, peak = 0, allocated = 0, freed = 0;
	void add(int64_t n)
	{
		current += n;
		peak = current > peak ? current : peak;
		if (n > 0)
			allocated += n;
		else
			freed -= n;
	}
};
/* aggregate, small pool, large pool */
using StatArray = std::array<Stat, 3>;

struct DeviceStats {
	StatArray allocation, segment, active, inactive_split;
	StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
		requested_bytes;
	int64_t num_alloc_retries = 0;
	int64_t num_ooms = 0;
};

struct Block;
struct BlockOrder {
	bool operator()(const Block *a, const Block *b) const;
};

struct BlockPool {
	explicit BlockPool(bool small) : is_small(small)
	{
	}
	std::set<Block *, BlockOrder> blocks;
	const bool is_small;
};

struct Block {
	int device;
	aclrtStream stream;
	std::vector<aclrtStream> stream_uses;
	uint64_t room_; /* the real set of streams has 32 bytes */
	size_t size;
	size_t requested_size;
	BlockPool *pool;
	void *ptr;
	bool allocated;
	bool segment_head; /* mapped piecewise when expandable */
	Block *prev, *next;
	int event_count;
	std::vector<void *> handles; /* physical handles of an expandable segment */
};

class DeviceCachingAllocator
{
      public:
	DeviceCachingAllocator();
	Block *malloc(int device, size_t size, aclrtStream stream, uint8_t allocator_type);
	void free(Block *block, uint8_t allocator_type);
	/* SIM_RC2: with the reports, see report_outer.h */
	Block *malloc_outer(int device, size_t size, aclrtStream stream, uint8_t allocator_type);
	void free_outer(Block *block, uint8_t allocator_type);
	void recordStream(Block *block, aclrtStream stream);
	void emptyCache();
	void totals(int64_t out[3]);

      private:
	/* First: a tracer finds the counters at fixed distances behind the mutex. */
	mutable std::recursive_mutex mutex;
	DeviceStats stats;
	BlockPool large_blocks, small_blocks;
	std::set<Block *> active_blocks;
	std::map<aclrtStream, std::deque<std::pair<void *, Block *>>> events;
	const bool expandable;

	friend void check_offsets();

	Block *alloc_found_block(Block *block, size_t orig_size, size_t size, int device,
				 uint8_t allocator_type);
	Block *get_free_block(BlockPool &pool, size_t size, aclrtStream stream);
	Block *alloc_block(BlockPool &pool, size_t alloc_size, int device, aclrtStream stream);
	bool map_segment(Block *block, size_t alloc_size, int device, bool is_small);
	void free_block(Block *block, uint8_t allocator_type);
	size_t merge(Block *dst, Block *src, BlockPool &pool);
	void insert_events(Block *block);
	void process_events(bool wait);
	bool release_cached_blocks();
	void release_blocks(BlockPool &pool);
	void release_block(Block *block);
	BlockPool &pool_of(size_t size);
};

} // namespace NPUCachingAllocator
} // namespace c10_npu
#endif
