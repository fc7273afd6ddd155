// SPDX-License-Identifier: Apache-2.0
/* Hermetic caching allocator of one device: pools, splitting, stream events, and their records. */
#include "device_allocator.h"
#include "emit.h"
#include "../cann/acl.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace c10_npu
{
namespace NPUCachingAllocator
{

using torch_npu::profiler::MemoryComponentType;
using torch_npu::profiler::MemoryDataType;

namespace
{

const size_t kMinBlockSize = 512;
const size_t kPadding = 32; /* the hardware prefetches beyond the end */
const size_t kSmallSize = 1 << 20;
const size_t kSmallBuffer = 2 << 20;
const size_t kLargeBuffer = 20 << 20;
const size_t kMinLargeAlloc = 10 << 20;
const size_t kRoundLarge = 2 << 20;

const int AGGREGATE = 0;
const auto CACHING = MemoryComponentType::CACHING_ALLOCATOR;

size_t round_size(size_t size)
{
	size += kPadding;
	return size < kMinBlockSize ? kMinBlockSize
				    : kMinBlockSize * ((size + kMinBlockSize - 1) / kMinBlockSize);
}

size_t segment_size(size_t size)
{
	if (size <= kSmallSize)
		return kSmallBuffer;
	if (size < kMinLargeAlloc)
		return kLargeBuffer;
	return kRoundLarge * ((size + kRoundLarge - 1) / kRoundLarge);
}

bool should_split(const Block *b, size_t size)
{
	size_t rest = b->size - size;

	return b->pool->is_small ? rest >= kMinBlockSize : rest > kSmallSize;
}

/* Both counters of a statistic: the sum and the pool's. */
void bump(StatArray &s, const BlockPool *pool, int64_t n)
{
	s[AGGREGATE].add(n);
	s[pool->is_small ? 1 : 2].add(n);
}

bool expandable_from_env()
{
	const char *e = getenv("PYTORCH_NPU_ALLOC_CONF");

	return e && strstr(e, "expandable_segments:True");
}

} // namespace

bool BlockOrder::operator()(const Block *a, const Block *b) const
{
	if (a->stream != b->stream)
		return a->stream < b->stream;
	if (a->size != b->size)
		return a->size < b->size;
	return a->ptr < b->ptr;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
void check_offsets()
{
	const size_t at = sizeof(std::recursive_mutex);

	static_assert(offsetof(DeviceCachingAllocator, stats) == at &&
			      offsetof(DeviceStats, allocated_bytes) == 384 &&
			      offsetof(DeviceStats, reserved_bytes) == 480 &&
			      offsetof(DeviceStats, active_bytes) == 576,
		      "counters where released libraries have them");
	static_assert(offsetof(Block, stream) == 8 && offsetof(Block, stream_uses) == 16 &&
			      offsetof(Block, size) == 48 &&
			      offsetof(Block, requested_size) == 56 &&
			      offsetof(Block, pool) == 64 && offsetof(Block, ptr) == 72,
		      "Block as in every release");
}
#pragma GCC diagnostic pop

DeviceCachingAllocator::DeviceCachingAllocator()
    : large_blocks(false), small_blocks(true), expandable(expandable_from_env())
{
}

BlockPool &DeviceCachingAllocator::pool_of(size_t size)
{
	return size <= kSmallSize ? small_blocks : large_blocks;
}

Block *DeviceCachingAllocator::get_free_block(BlockPool &pool, size_t size, aclrtStream stream)
{
	Block key = {};

	key.stream = stream;
	key.size = size;
	auto it = pool.blocks.lower_bound(&key);

	if (it == pool.blocks.end() || (*it)->stream != stream)
		return nullptr;
	Block *b = *it;

	pool.blocks.erase(it);
	return b;
}

/* Reserve, then one physical handle for each granule; a failure gives all of it back. */
bool DeviceCachingAllocator::map_segment(Block *b, size_t alloc_size, int device, bool is_small)
{
	size_t granule = is_small ? kSmallBuffer : kLargeBuffer;
	size_t total = (alloc_size + granule - 1) / granule * granule, at = 0;
	aclrtPhysicalMemProp prop = {};
	void *va = nullptr;

	prop.memAttr = 4; /* HBM, huge pages */
	prop.location.id = static_cast<uint32_t>(device);
	prop.location.type = 1;
	if (aclrtReserveMemAddress(&va, total, 0, nullptr, 1))
		return false;
	/* All handles first: those of a failed growth are released without ever being mapped. */
	for (at = 0; at < total; at += granule) {
		void *h = nullptr;

		if (aclrtMallocPhysical(&h, granule, &prop, 0))
			break;
		b->handles.push_back(h);
	}
	if (at < total) {
		for (void *h : b->handles)
			aclrtFreePhysical(h);
		b->handles.clear();
		aclrtReleaseMemAddress(va);
		return false;
	}
	for (size_t i = 0; i < b->handles.size(); i++)
		aclrtMapMem(static_cast<char *>(va) + i * granule, granule, 0, b->handles[i], 0);
	b->ptr = va;
	b->size = total;
	return true;
}

Block *DeviceCachingAllocator::alloc_block(BlockPool &pool, size_t alloc_size, int device,
					   aclrtStream stream)
{
	auto *b = new Block{};

	b->device = device;
	b->stream = stream;
	b->pool = &pool;
	b->segment_head = true;
	b->size = alloc_size;
	if (expandable) {
		if (!map_segment(b, alloc_size, device, pool.is_small)) {
			delete b;
			return nullptr;
		}
	} else if (acl::MallocAlign32(&b->ptr, alloc_size, 0)) {
		delete b;
		return nullptr;
	}
	bump(stats.segment, &pool, 1);
	bump(stats.reserved_bytes, &pool, static_cast<int64_t>(b->size));
	return b;
}

__attribute__((noinline, noclone)) Block *
DeviceCachingAllocator::alloc_found_block(Block *block, size_t orig_size, size_t size, int device,
					  uint8_t allocator_type)
{
	BlockPool &pool = *block->pool;

	if (should_split(block, size)) {
		/* The front is handed out, the rest stays in the pool. */
		auto *rest = new Block{};

		rest->device = block->device;
		rest->stream = block->stream;
		rest->pool = &pool;
		rest->ptr = static_cast<char *>(block->ptr) + size;
		rest->size = block->size - size;
		rest->prev = block;
		rest->next = block->next;
		if (rest->next)
			rest->next->prev = rest;
		block->next = rest;
		block->size = size;
		pool.blocks.insert(rest);
	}
	block->allocated = true;
	block->requested_size = orig_size;
	active_blocks.insert(block);

	int64_t n = static_cast<int64_t>(block->size);

	bump(stats.allocation, &pool, 1);
	bump(stats.allocated_bytes, &pool, n);
	bump(stats.active, &pool, 1);
	bump(stats.active_bytes, &pool, n);
	bump(stats.requested_bytes, &pool, static_cast<int64_t>(orig_size));

#ifdef SIM_RC2 /* malloc_outer does */
	(void)device;
	(void)allocator_type;
#else
	emit::memory({ "pta_malloc", CACHING, MemoryDataType::MEMORY_MALLOC, allocator_type, device,
		       block->ptr, n, orig_size, stats.allocated_bytes[AGGREGATE].current,
		       stats.reserved_bytes[AGGREGATE].current,
		       stats.active_bytes[AGGREGATE].current, block->stream });
#endif
	return block;
}

__attribute__((noinline, noclone)) Block *DeviceCachingAllocator::malloc(int device,
									 size_t orig_size,
									 aclrtStream stream,
									 uint8_t allocator_type)
{
	std::lock_guard<std::recursive_mutex> guard(mutex);

	process_events(false);

	size_t size = round_size(orig_size);
	BlockPool &pool = pool_of(size);
	size_t alloc_size = segment_size(size);
	Block *b = get_free_block(pool, size, stream);

	if (!b)
		b = alloc_block(pool, alloc_size, device, stream);
	if (!b) {
		stats.num_alloc_retries++;
		release_cached_blocks();
		b = alloc_block(pool, alloc_size, device, stream);
	}
	if (!b) {
		char msg[256];

		stats.num_ooms++;
		snprintf(msg, sizeof(msg),
			 "NPU out of memory. Tried to allocate %zu bytes (NPU %d; %lld already "
			 "allocated; %lld reserved in total by PyTorch)",
			 alloc_size, device,
			 static_cast<long long>(stats.allocated_bytes[AGGREGATE].current),
			 static_cast<long long>(stats.reserved_bytes[AGGREGATE].current));
		throw OutOfMemoryError(msg);
	}
	return alloc_found_block(b, orig_size, size, device, allocator_type);
}

/* One exit, as in every released library: not a jump to the unlocking. */
__attribute__((noinline, noclone, optimize("no-optimize-sibling-calls", "no-reorder-blocks"))) void
DeviceCachingAllocator::free(Block *block, uint8_t allocator_type)
{
	std::lock_guard<std::recursive_mutex> guard(mutex);

	if (!block->allocated)
		throwError("free of a block that is not allocated");
	block->allocated = false;

	/* Captured: the block may be merged into a neighbour below. */
	void *ptr = block->ptr;
	int64_t n = static_cast<int64_t>(block->size);
	int device = block->device;
	size_t requested = block->requested_size;
	aclrtStream stream = block->stream;

	bump(stats.allocation, block->pool, -1);
	bump(stats.allocated_bytes, block->pool, -n);
	if (!block->stream_uses.empty())
		insert_events(block);
	else
		free_block(block, allocator_type);

#ifdef SIM_RC2 /* free_outer does */
	(void)ptr;
	(void)requested;
	(void)device;
	(void)stream;
#else
	emit::memory({ "pta_free", CACHING, MemoryDataType::MEMORY_FREE, allocator_type, device,
		       ptr, n, requested, stats.allocated_bytes[AGGREGATE].current,
		       stats.reserved_bytes[AGGREGATE].current,
		       stats.active_bytes[AGGREGATE].current, stream });
#endif
}

size_t DeviceCachingAllocator::merge(Block *dst, Block *src, BlockPool &pool)
{
	if (!src || src->allocated || src->event_count > 0)
		return 0;
	if (dst->prev == src) {
		dst->ptr = src->ptr;
		dst->prev = src->prev;
		if (dst->prev)
			dst->prev->next = dst;
		dst->segment_head = src->segment_head;
		dst->handles.swap(src->handles);
	} else {
		dst->next = src->next;
		if (dst->next)
			dst->next->prev = dst;
	}
	size_t n = src->size;

	dst->size += n;
	pool.blocks.erase(src);
	delete src;
	return n;
}

/* Noinline: the real one is a function of its own, called from free and from process_events. */
__attribute__((noinline, noclone)) void DeviceCachingAllocator::free_block(Block *block,
									   uint8_t allocator_type)
{
	BlockPool &pool = *block->pool;
	void *ptr = block->ptr;
	int64_t n = static_cast<int64_t>(block->size);
	size_t requested = block->requested_size;
	int device = block->device;
	aclrtStream stream = block->stream;

	active_blocks.erase(block);
	merge(block, block->prev, pool);
	merge(block, block->next, pool);
	pool.blocks.insert(block);
	bump(stats.active, &pool, -1);
	bump(stats.active_bytes, &pool, -n);
	bump(stats.requested_bytes, &pool, -static_cast<int64_t>(requested));
#ifdef SIM_RC2
	if (uint64_t t0 = sim_truth_begin())
		emit::truth({ "pta_block_free", CACHING, MemoryDataType::MEMORY_BLOCK_FREE,
			      allocator_type, device, ptr, n, requested,
			      stats.allocated_bytes[AGGREGATE].current,
			      stats.reserved_bytes[AGGREGATE].current,
			      stats.active_bytes[AGGREGATE].current, stream },
			    t0);
#elif SIM_LAYOUT > LAYOUT_C10
	emit::memory({ "pta_block_free", CACHING, MemoryDataType::MEMORY_BLOCK_FREE, allocator_type,
		       device, ptr, n, requested, stats.allocated_bytes[AGGREGATE].current,
		       stats.reserved_bytes[AGGREGATE].current,
		       stats.active_bytes[AGGREGATE].current, stream });
#else
	(void)ptr;
	(void)device;
	(void)stream;
#endif
}

void DeviceCachingAllocator::recordStream(Block *block, aclrtStream stream)
{
	std::lock_guard<std::recursive_mutex> guard(mutex);

	if (stream == block->stream)
		return;
	for (aclrtStream s : block->stream_uses)
		if (s == stream)
			return;
	block->stream_uses.push_back(stream);
}

/* One event on each stream that used the block; the block is back when all have passed. */
void DeviceCachingAllocator::insert_events(Block *block)
{
	std::vector<aclrtStream> uses;

	uses.swap(block->stream_uses);
	for (aclrtStream s : uses) {
		void *ev = nullptr;

		aclrtCreateEvent(&ev);
		aclrtRecordEvent(ev, s);
		block->event_count++;
		events[s].emplace_back(ev, block);
	}
}

void DeviceCachingAllocator::process_events(bool wait)
{
	if (events.empty())
		return;
	for (auto it = events.begin(); it != events.end();) {
		auto &q = it->second;

		while (!q.empty()) {
			void *ev = q.front().first;
			Block *b = q.front().second;
			int status = 0;

			if (wait)
				aclrtSynchronizeEvent(ev);
			else if (aclrtQueryEventStatus(ev, &status) || !status)
				break;
			aclrtDestroyEvent(ev);
			q.pop_front();
			if (--b->event_count == 0)
				free_block(b, 0);
		}
		it = q.empty() ? events.erase(it) : std::next(it);
	}
}

void DeviceCachingAllocator::release_block(Block *b)
{
	BlockPool &pool = *b->pool;

	if (b->handles.empty()) {
		aclrtFree(b->ptr);
	} else {
		size_t granule = pool.is_small ? kSmallBuffer : kLargeBuffer;

		for (size_t i = 0; i < b->handles.size(); i++) {
			aclrtUnmapMem(static_cast<char *>(b->ptr) + i * granule);
			aclrtFreePhysical(b->handles[i]);
		}
		aclrtReleaseMemAddress(b->ptr);
	}
	bump(stats.segment, &pool, -1);
	bump(stats.reserved_bytes, &pool, -static_cast<int64_t>(b->size));
	delete b;
}

/* Whole segments only: a block with a neighbour stays. */
void DeviceCachingAllocator::release_blocks(BlockPool &pool)
{
	for (auto it = pool.blocks.begin(); it != pool.blocks.end();) {
		Block *b = *it;

		if (b->prev || b->next) {
			++it;
			continue;
		}
		it = pool.blocks.erase(it);
		release_block(b);
	}
}

bool DeviceCachingAllocator::release_cached_blocks()
{
	process_events(true);
	release_blocks(large_blocks);
	release_blocks(small_blocks);
	return true;
}

void DeviceCachingAllocator::emptyCache()
{
	std::lock_guard<std::recursive_mutex> guard(mutex);

	release_cached_blocks();
}

void DeviceCachingAllocator::totals(int64_t out[3])
{
	std::lock_guard<std::recursive_mutex> guard(mutex);

	out[0] = stats.allocated_bytes[AGGREGATE].current;
	out[1] = stats.reserved_bytes[AGGREGATE].current;
	out[2] = stats.active_bytes[AGGREGATE].current;
}

} // namespace NPUCachingAllocator
} // namespace c10_npu
