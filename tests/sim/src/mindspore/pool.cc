// SPDX-License-Identifier: Apache-2.0
/* Hermetic libmindspore_memory_pool.so: best fit with splitting and merging, and the pool classes.
 */
#include "pool.h"
#include "../truth/sim_truth.h"

#include <algorithm>
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
	live_[b->addr_] = b;
	return b;
}

MemBuf *MemBufAllocator::Cut(MemBuf *b, size_t size)
{
	auto *rest = new MemBuf{};

	rest->addr_ = static_cast<char *>(b->addr_) + size;
	rest->size_ = b->size_ - size;
	rest->stream_id_ = b->stream_id_;
	rest->used_ = true;
	rest->prev = b;
	rest->next = b->next;
	if (rest->next)
		rest->next->prev = rest;
	b->next = rest;
	b->size_ = size;
	live_[rest->addr_] = rest;
	return rest;
}

MemBuf *MemBufAllocator::Take(void *addr, size_t size)
{
	auto *at = static_cast<char *>(addr);

	for (MemBuf *b : idle_) {
		auto *start = static_cast<char *>(b->addr_);

		if (at < start || at + size > start + b->size_)
			continue;
		idle_.erase(b);
		b->used_ = true;
		if (at > start) {
			MemBuf *head = b;

			b = Cut(head, static_cast<size_t>(at - start));
			head->used_ = false;
			idle_.insert(head);
		}
		if (b->size_ > size) {
			MemBuf *rest = Cut(b, size);

			live_.erase(rest->addr_);
			rest->used_ = false;
			idle_.insert(rest);
		}
		live_[b->addr_] = b;
		return b;
	}
	return nullptr;
}

std::vector<MemBuf *> MemBufAllocator::Waiting() const
{
	std::vector<MemBuf *> out;

	for (const auto &i : live_)
		if (i.second->event_)
			out.push_back(i.second);
	return out;
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
					  size_t used, size_t total)
{
	sim_truth_rec r = {};

	r.fn = fn;
	r.t0 = t0;
	r.t1 = sim_truth_now();
	r.out = reinterpret_cast<uintptr_t>(addr);
	r.size = size;
	r.device = device;
	r.alloc = static_cast<int64_t>(used);
	r.nargs = 3;
	r.args[0] = requested;
	r.args[1] = stream;
	r.args[2] = total;
	r.has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV | SIM_T_USED | SIM_T_NORET;
	sim_truth_put(&r);
}

/* The allocation of a block that a list is cut from, or a free of pieces: told as what comes of it.
 */
thread_local bool quiet;

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

std::vector<DeviceMemPtr> DynamicMemPool::AllocContinuousTensorMem(const std::vector<size_t> &,
								   uint32_t)
{
	return {};
}

size_t DynamicMemPool::GetVmmUsedMemSize() const
{
	return 0;
}

/* ---- the newer pool ---- */

AbstractDynamicMemPool::AbstractDynamicMemPool(MemBufAllocator *a, int device)
    : allocator_(a), device_(device), mem_stat_(std::make_shared<MemStat>())
{
}

AbstractDynamicMemPool::~AbstractDynamicMemPool()
{
}

std::pair<MemBuf *, MemBufAllocator *> AbstractDynamicMemPool::AllocMemBuf(size_t align_size, bool,
									   uint32_t stream_id)
{
	uint64_t t0 = quiet ? 0 : sim_truth_begin();
	MemBuf *b = allocator_->Malloc(align_size, stream_id);

	if (b) {
		mem_stat_->used_size_ += b->size_;
		/* As the released one: the mapped part counts where there is an address range. */
		mem_stat_->alloc_size_ = GetVmmUsedMemSize() ? 1UL << 40 : allocator_->total;
		if (mem_stat_->used_size_ > mem_stat_->peak_size_)
			mem_stat_->peak_size_ = mem_stat_->used_size_;
	}
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, "ms_alloc", device_, b ? b->addr_ : nullptr, b ? b->size_ : align_size,
		     align_size, stream_id, mem_stat_->used_size_, allocator_->total);
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

std::vector<DeviceMemPtr>
AbstractDynamicMemPool::AllocContinuousTensorMem(const std::vector<size_t> &sizes,
						 uint32_t stream_id)
{
	uint64_t t0 = sim_truth_begin();
	std::vector<DeviceMemPtr> out;
	size_t total = 0, used;

	for (size_t n : sizes)
		total += n;
	quiet = true;
	DeviceMemPtr first = AbstractDynamicMemPool::AllocTensorMem(total, false, false, stream_id);

	quiet = false;
	if (!first)
		return out;
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Find(first);

	used = mem_stat_->used_size_ - b->size_;
	for (size_t i = 0; i < sizes.size(); i++) {
		MemBuf *next = i + 1 < sizes.size() ? allocator_->Cut(b, sizes[i]) : nullptr;

		used += b->size_;
		out.push_back(b->addr_);
		if (__builtin_expect(t0 != 0, 0))
			Note(t0, "ms_alloc", device_, b->addr_, b->size_, sizes[i], stream_id, used,
			     allocator_->total);
		b = next;
	}
	return out;
}

bool AbstractDynamicMemPool::DoFreeTensorMem(const DeviceMemPtr &addr)
{
	uint64_t t0 = quiet ? 0 : sim_truth_begin();
	MemBuf *b = allocator_->Find(addr);

	if (!b)
		return false;
	if (b->event_) {
		b->waits_ = true;
		return false;
	}
	void *p = addr;
	size_t n = b->size_;

	allocator_->Free(b);
	mem_stat_->used_size_ -= n;
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, "ms_free", device_, p, n, n, b->stream_id_, mem_stat_->used_size_,
		     allocator_->total);
	return true;
}

/* Short: the compiler puts a copy of it into the virtual thunk, as in the released library. */
void AbstractDynamicMemPool::FreeTensorMem(const DeviceMemPtr &addr)
{
	std::lock_guard<std::mutex> g(lock_);

	DoFreeTensorMem(addr);
}

void AbstractDynamicMemPool::RecordEvent(const DeviceMemPtr &addr)
{
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Find(addr);

	if (b)
		b->event_ = true;
}

void AbstractDynamicMemPool::SyncAllEvents()
{
	std::lock_guard<std::mutex> g(lock_);

	for (MemBuf *b : allocator_->Waiting()) {
		b->event_ = false;
		if (b->waits_) {
			b->waits_ = false;
			DoFreeTensorMem(b->addr_);
		}
	}
}

/*
 * What is to be kept is cut out of the blocks first, the pieces are freed then. The truth
 * tells of whole blocks that go, and of parts that are new ones.
 */
std::vector<MemBuf *>
AbstractDynamicMemPool::DoFreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
					     const std::vector<DeviceMemPtr> &keep_addrs,
					     const std::vector<size_t> &keep_sizes)
{
	std::map<void *, MemBuf *> candidates;
	std::map<void *, size_t> shortened; /* blocks whose beginning is kept, as they were */
	std::vector<std::pair<void *, size_t>> whole;
	std::vector<MemBuf *> kept;
	uint64_t t0 = sim_truth_begin();
	size_t used = mem_stat_->used_size_;

	for (const DeviceMemPtr &p : free_addrs) {
		MemBuf *b = allocator_->Find(p);

		if (b && candidates.emplace(b->addr_, b).second)
			whole.emplace_back(b->addr_, b->size_);
	}
	for (size_t i = 0; i < keep_addrs.size(); i++) {
		auto it = candidates.upper_bound(keep_addrs[i]);

		if (it == candidates.begin())
			continue;
		MemBuf *b = (--it)->second;
		auto *start = static_cast<char *>(b->addr_);
		auto *keep = static_cast<char *>(keep_addrs[i]);

		if (keep >= start + b->size_)
			continue;
		if (keep == start) {
			candidates.erase(it);
			shortened[start] = b->size_;
		} else {
			b = allocator_->Cut(b, static_cast<size_t>(keep - start));
		}
		if (b->size_ > keep_sizes[i]) {
			MemBuf *rest = allocator_->Cut(b, keep_sizes[i]);

			candidates.emplace(rest->addr_, rest);
		}
		kept.push_back(b);
	}
	quiet = true;
	for (const auto &c : candidates) {
		bool rest = std::none_of(whole.begin(), whole.end(),
					 [&](const auto &w) { return w.first == c.first; });
		size_t n = c.second->size_;

		DoFreeTensorMem(c.second->addr_);
		if (rest && __builtin_expect(t0 != 0, 0))
			Note(t0, "ms_free_rest", device_, c.first, n, n, 0, used,
			     allocator_->total);
	}
	quiet = false;
	if (__builtin_expect(t0 != 0, 0)) {
		std::sort(whole.begin(), whole.end());
		for (const auto &w : whole) {
			if (shortened.count(w.first))
				continue;
			used -= w.second;
			Note(t0, "ms_free_part", device_, w.first, w.second, w.second, 0, used,
			     allocator_->total);
		}
		for (MemBuf *b : kept) {
			auto it = shortened.find(b->addr_);

			if (it != shortened.end() && it->second == b->size_)
				continue; /* nothing has changed */
			if (it != shortened.end()) {
				used -= it->second;
				Note(t0, "ms_free_kept", device_, b->addr_, it->second, it->second,
				     0, used, allocator_->total);
			}
			used += b->size_;
			Note(t0, "ms_keep", device_, b->addr_, b->size_, b->size_, b->stream_id_,
			     used, allocator_->total);
		}
	}
	return kept;
}

void AbstractDynamicMemPool::FreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
						const std::vector<DeviceMemPtr> &keep_addrs,
						const std::vector<size_t> &keep_sizes)
{
	std::lock_guard<std::mutex> g(lock_);

	DoFreePartTensorMems(free_addrs, keep_addrs, keep_sizes);
}

size_t AbstractDynamicMemPool::TotalMemStatistics() const
{
	if (size_t mapped = GetVmmUsedMemSize())
		return mapped + mem_stat_->custom_alloc_size_;
	return mem_stat_->alloc_size_ + mem_stat_->custom_alloc_size_;
}

size_t AbstractDynamicMemPool::TotalUsedMemStatistics() const
{
	return mem_stat_->used_size_;
}

/* ---- the older pool, also the base of the host pools ---- */

DynamicMemPoolBestFit::DynamicMemPoolBestFit(MemBufAllocator *a, int device)
    : allocator_(a), device_(device), persistent_(std::make_shared<MemStat>()),
      common_(std::make_shared<MemStat>())
{
}

DynamicMemPoolBestFit::~DynamicMemPoolBestFit()
{
}

DeviceMemPtr DynamicMemPoolBestFit::Give(size_t size, uint32_t stream_id)
{
	uint64_t t0 = quiet ? 0 : sim_truth_begin();
	size_t align_size = Align(size);
	MemBuf *b = allocator_->Malloc(align_size, stream_id);

	if (b) {
		common_->used_size_ += b->size_;
		common_->alloc_size_ = GetVmmUsedMemSize() ? 1UL << 40 : allocator_->total;
	}
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, OnDevice() ? "ms_alloc" : "ms_host_alloc", device_, b ? b->addr_ : nullptr,
		     b ? b->size_ : align_size, size, stream_id, common_->used_size_,
		     allocator_->total);
	return b ? b->addr_ : nullptr;
}

DeviceMemPtr DynamicMemPoolBestFit::AllocTensorMem(size_t size, bool, bool, uint32_t stream_id)
{
	std::lock_guard<std::mutex> g(lock_);

	return Give(size, stream_id);
}

std::vector<DeviceMemPtr>
DynamicMemPoolBestFit::AllocContinuousTensorMem(const std::vector<size_t> &sizes,
						uint32_t stream_id)
{
	uint64_t t0 = sim_truth_begin();
	std::vector<DeviceMemPtr> out;
	size_t total = 0, used;

	for (size_t n : sizes)
		total += n;
	quiet = true;
	DeviceMemPtr first = AllocTensorMem(total, false, false, stream_id);

	quiet = false;
	if (!first)
		return out;
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Find(first);

	used = common_->used_size_ - b->size_;
	for (size_t i = 0; i < sizes.size(); i++) {
		MemBuf *next = i + 1 < sizes.size() ? allocator_->Cut(b, sizes[i]) : nullptr;

		used += b->size_;
		out.push_back(b->addr_);
		if (__builtin_expect(t0 != 0, 0))
			Note(t0, OnDevice() ? "ms_alloc" : "ms_host_alloc", device_, b->addr_,
			     b->size_, sizes[i], stream_id, used, allocator_->total);
		b = next;
	}
	return out;
}

/* What a stream may still use is out of use at once here, and given back later. */
void DynamicMemPoolBestFit::FreeTensorMemInner(const DeviceMemPtr &addr)
{
	uint64_t t0 = sim_truth_begin();
	MemBuf *b = allocator_->Find(addr);

	if (!b || b->waits_)
		return;
	void *p = addr;
	size_t n = b->size_;
	uint32_t stream = b->stream_id_;

	if (b->event_)
		b->waits_ = true;
	else
		allocator_->Free(b);
	common_->used_size_ -= n;
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, OnDevice() ? "ms_free" : "ms_host_free", device_, p, n, n, stream,
		     common_->used_size_, allocator_->total);
}

void DynamicMemPoolBestFit::FreeTensorMem(const DeviceMemPtr &addr)
{
	std::lock_guard<std::mutex> g(lock_);

	FreeTensorMemInner(addr);
}

void DynamicMemPoolBestFit::RecordEvent(const DeviceMemPtr &addr)
{
	std::lock_guard<std::mutex> g(lock_);
	MemBuf *b = allocator_->Find(addr);

	if (b)
		b->event_ = true;
}

void DynamicMemPoolBestFit::SyncAllEvents()
{
	std::lock_guard<std::mutex> g(lock_);

	for (MemBuf *b : allocator_->Waiting()) {
		b->event_ = false;
		if (b->waits_) {
			b->waits_ = false;
			allocator_->Free(b);
		}
	}
}

/* Out of what was just freed: exactly this part is in use again. */
void DynamicMemPoolBestFit::KeepTensorMemByAddr(const DeviceMemPtr &addr, size_t size)
{
	uint64_t t0 = sim_truth_begin();
	MemBuf *b = allocator_->Take(addr, size);

	if (!b)
		return;
	common_->used_size_ += size;
	if (__builtin_expect(t0 != 0, 0))
		Note(t0, OnDevice() ? "ms_keep" : "ms_host_alloc", device_, b->addr_, b->size_,
		     size, b->stream_id_, common_->used_size_, allocator_->total);
}

void DynamicMemPoolBestFit::FreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
					       const std::vector<DeviceMemPtr> &keep_addrs,
					       const std::vector<size_t> &keep_sizes)
{
	std::lock_guard<std::mutex> g(lock_);

	for (const DeviceMemPtr &p : free_addrs)
		FreeTensorMemInner(p);
	for (size_t i = 0; i < keep_addrs.size(); i++)
		KeepTensorMemByAddr(keep_addrs[i], keep_sizes[i]);
}

size_t DynamicMemPoolBestFit::TotalMemStatistics() const
{
	if (size_t mapped = GetVmmUsedMemSize())
		return mapped;
	return persistent_->alloc_size_ + common_->alloc_size_;
}

size_t DynamicMemPoolBestFit::TotalUsedMemStatistics() const
{
	return persistent_->used_size_ + common_->used_size_;
}

} // namespace device
} // namespace mindspore
