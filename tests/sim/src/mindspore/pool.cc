// SPDX-License-Identifier: Apache-2.0
/* Hermetic libmindspore_memory_pool.so: best fit with splitting and merging, and the pool classes.
 */
#include "pool.h"
#include "../truth/sim_truth.h"

#include <cstdlib>

namespace mindspore
{
namespace device
{

static_assert(offsetof(MemBuf, size_) == 32 && offsetof(MemBuf, addr_) == 40, "as released");

MemBuf *MemBufAllocator::Malloc(size_t size, uint32_t stream)
{
	MemBuf key = {};

	key.stream_id_ = stream;
	key.size_ = size;
	auto it = idle_.lower_bound(&key);
	MemBuf *b;

	if (it != idle_.end() && (*it)->stream_id_ == stream) {
		b = *it;
		idle_.erase(it);
	} else {
		size_t got = 0;
		void *p = Expand(size, &got);

		if (!p)
			return nullptr;
		b = new MemBuf{};
		b->addr_ = p;
		b->size_ = got;
		b->stream_id_ = stream;
		total += got;
	}
	if (b->size_ >= size + kAlignSize) {
		auto *rest = new MemBuf{};

		rest->addr_ = static_cast<char *>(b->addr_) + size;
		rest->size_ = b->size_ - size;
		rest->stream_id_ = stream;
		rest->prev = b;
		rest->next = b->next;
		if (rest->next)
			rest->next->prev = rest;
		b->next = rest;
		b->size_ = size;
		idle_.insert(rest);
	}
	b->used_ = true;
	used += b->size_;
	live_[b->addr_] = b;
	return b;
}

MemBuf *MemBufAllocator::Find(void *addr)
{
	auto it = live_.find(addr);

	return it == live_.end() ? nullptr : it->second;
}

void MemBufAllocator::Merge(MemBuf *b, MemBuf *gone)
{
	if (!gone || gone->used_)
		return;
	idle_.erase(gone);
	if (b->prev == gone) {
		b->addr_ = gone->addr_;
		b->prev = gone->prev;
		if (b->prev)
			b->prev->next = b;
	} else {
		b->next = gone->next;
		if (b->next)
			b->next->prev = b;
	}
	b->size_ += gone->size_;
	delete gone;
}

void MemBufAllocator::Free(MemBuf *b)
{
	live_.erase(b->addr_);
	b->used_ = false;
	used -= b->size_;
	Merge(b, b->prev);
	Merge(b, b->next);
	idle_.insert(b);
}

namespace
{

size_t Align(size_t n)
{
	return n ? (n + kAlignSize - 1) / kAlignSize * kAlignSize : kAlignSize;
}

__attribute__((noinline, cold)) void Note(uint64_t t0, const char *fn, int device, const void *addr,
					  size_t size, size_t requested, uint32_t stream,
					  const MemBufAllocator *a)
{
	sim_truth_rec r = {};

	r.fn = fn;
	r.t0 = t0;
	r.t1 = sim_truth_now();
	r.out = reinterpret_cast<uintptr_t>(addr);
	r.size = size;
	r.device = device;
	r.alloc = static_cast<int64_t>(a->used);
	r.nargs = 3;
	r.args[0] = requested;
	r.args[1] = stream;
	r.args[2] = a->total;
	r.has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV | SIM_T_USED | SIM_T_NORET;
	sim_truth_put(&r);
}

} // namespace

DynamicMemPool::~DynamicMemPool()
{
}

void DynamicMemPool::Initialize(size_t, size_t, size_t)
{
}

void DynamicMemPool::ReleaseDeviceRes()
{
}

std::vector<DeviceMemPtr> DynamicMemPool::AllocContinuousTensorMem(const std::vector<size_t> &sizes,
								   uint32_t stream_id)
{
	std::vector<DeviceMemPtr> out;

	for (size_t n : sizes)
		out.push_back(AllocTensorMem(n, false, false, stream_id));
	return out;
}

/* ---- the newer pool ---- */

AbstractDynamicMemPool::AbstractDynamicMemPool(MemBufAllocator *a, int device)
    : allocator_(a), device_(device)
{
}

AbstractDynamicMemPool::~AbstractDynamicMemPool()
{
}

std::pair<MemBuf *, MemBufAllocator *> AbstractDynamicMemPool::AllocMemBuf(size_t align_size, bool,
									   uint32_t stream_id)
{
	uint64_t t0 = sim_truth_begin();
	MemBuf *b = allocator_->Malloc(align_size, stream_id);

	if (__builtin_expect(t0 != 0, 0))
		Note(t0, "ms_alloc", device_, b ? b->addr_ : nullptr, b ? b->size_ : align_size,
		     align_size, stream_id, allocator_);
	return std::make_pair(b, allocator_);
}

DeviceMemPtr AbstractDynamicMemPool::AllocTensorMem(size_t size, bool from_persistent, bool,
						    uint32_t stream_id)
{
	size_t align_size = Align(size);
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = AllocMemBuf(align_size, from_persistent, stream_id).first;

	return b ? b->addr_ : nullptr;
}

bool AbstractDynamicMemPool::DoFreeTensorMem(const DeviceMemPtr &addr)
{
	uint64_t t0 = sim_truth_begin();
	MemBuf *b = allocator_->Find(addr);

	if (!b)
		return false;
	void *p = addr;
	size_t n = b->size_;

	allocator_->Free(b);
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, "ms_free", device_, p, n, n, b->stream_id_, allocator_);
	return true;
}

/* Short: the compiler puts a copy of it into the virtual thunk, as in the released library. */
void AbstractDynamicMemPool::FreeTensorMem(const DeviceMemPtr &addr)
{
	std::lock_guard<std::mutex> g(lock_);

	DoFreeTensorMem(addr);
}

std::vector<MemBuf *>
AbstractDynamicMemPool::DoFreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
					     const std::vector<DeviceMemPtr> &keep_addrs,
					     const std::vector<size_t> &)
{
	std::vector<MemBuf *> kept;
	std::lock_guard<std::mutex> g(lock_);

	for (const DeviceMemPtr &p : free_addrs) {
		MemBuf *b = allocator_->Find(p);

		if (!b)
			continue;
		uint64_t t0 = sim_truth_begin();
		size_t n = b->size_;
		uint32_t stream = b->stream_id_;

		allocator_->Free(b);
		if (__builtin_expect(t0 != 0, 0))
			Note(t0, "ms_free_part", device_, p, n, n, stream, allocator_);
	}
	for (const DeviceMemPtr &p : keep_addrs) {
		MemBuf *b = allocator_->Find(p);

		if (b)
			kept.push_back(b);
	}
	return kept;
}

size_t AbstractDynamicMemPool::TotalMemStatistics() const
{
	return allocator_->total;
}

size_t AbstractDynamicMemPool::TotalUsedMemStatistics() const
{
	return allocator_->used;
}

/* ---- the older pool, also the base of the host pools ---- */

DynamicMemPoolBestFit::DynamicMemPoolBestFit(MemBufAllocator *a, int device)
    : allocator_(a), device_(device)
{
}

DynamicMemPoolBestFit::~DynamicMemPoolBestFit()
{
}

DeviceMemPtr DynamicMemPoolBestFit::AllocTensorMem(size_t size, bool, bool, uint32_t stream_id)
{
	uint64_t t0 = sim_truth_begin();
	size_t align_size = Align(size);
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Malloc(align_size, stream_id);

	if (__builtin_expect(t0 != 0, 0))
		Note(t0, OnDevice() ? "ms_alloc" : "ms_host_alloc", device_, b ? b->addr_ : nullptr,
		     b ? b->size_ : align_size, size, stream_id, allocator_);
	return b ? b->addr_ : nullptr;
}

std::vector<DeviceMemPtr>
DynamicMemPoolBestFit::AllocContinuousTensorMem(const std::vector<size_t> &sizes,
						uint32_t stream_id)
{
	return DynamicMemPool::AllocContinuousTensorMem(sizes, stream_id);
}

void DynamicMemPoolBestFit::FreeTensorMem(const DeviceMemPtr &addr)
{
	uint64_t t0 = sim_truth_begin();
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Find(addr);

	if (!b)
		return;
	void *p = addr;
	size_t n = b->size_;
	uint32_t stream = b->stream_id_;

	allocator_->Free(b);
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, OnDevice() ? "ms_free" : "ms_host_free", device_, p, n, n, stream,
		     allocator_);
}

size_t DynamicMemPoolBestFit::TotalMemStatistics() const
{
	return allocator_->total;
}

size_t DynamicMemPoolBestFit::TotalUsedMemStatistics() const
{
	return allocator_->used;
}

} // namespace device
} // namespace mindspore
