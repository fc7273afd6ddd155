// SPDX-License-Identifier: Apache-2.0
/* MindSpore's memory pools, with the class and function names of 2.7 to 2.10. */
#ifndef SIM_MS_POOL_H
#define SIM_MS_POOL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#define BACKEND_EXPORT __attribute__((visibility("default")))

namespace mindspore
{
namespace device
{

using DeviceMemPtr = void *;
constexpr size_t kAlignSize = 512;

/* size@32, addr@40 */
struct MemBuf {
	MemBuf *prev, *next; /* neighbours by address */
	MemBuf *prev_stream, *next_stream;
	size_t size_;
	void *addr_;
	uint32_t stream_id_;
	bool used_;
	bool event_; /* a stream may still use it: freed when events are synchronised */
	bool waits_; /* and it was to be freed meanwhile */
};

/* The pool's own account; one object a pool, in the older one of two parts. */
struct MemStat {
	size_t used_size_, peak_size_;
	size_t alloc_size_, custom_alloc_size_;
};

/* Where the bytes of a pool come from. */
class MemBufAllocator
{
      public:
	MemBuf *Malloc(size_t size, uint32_t stream);
	MemBuf *Find(void *addr);
	void Free(MemBuf *b);
	/* Cuts a used block: behind `size` bytes of it another used one begins, which is returned.
	 */
	MemBuf *Cut(MemBuf *b, size_t size);
	/* Exactly these bytes, out of an idle block; NULL: they are in none. */
	MemBuf *Take(void *addr, size_t size);
	std::vector<MemBuf *> Waiting() const;
	/* Bytes mapped of an address range; 0: none is used. */
	virtual size_t Mapped() const
	{
		return 0;
	}
	size_t total = 0;
	virtual ~MemBufAllocator() = default;

      protected:
	/* At least size bytes; how many in *got. */
	virtual void *Expand(size_t size, size_t *got) = 0;

      private:
	struct Order {
		bool operator()(const MemBuf *a, const MemBuf *b) const
		{
			if (a->stream_id_ != b->stream_id_)
				return a->stream_id_ < b->stream_id_;
			return a->size_ != b->size_ ? a->size_ < b->size_ : a->addr_ < b->addr_;
		}
	};
	std::set<MemBuf *, Order> idle_;
	std::unordered_map<void *, MemBuf *> live_;
	void Merge(MemBuf *b, MemBuf *gone);
};

/* A virtual base: callers reach FreeTensorMem through a virtual thunk. */
class BACKEND_EXPORT DynamicMemPool
{
      public:
	virtual ~DynamicMemPool();
	virtual void Initialize(size_t init_size, size_t increase_size, size_t max_size);
	virtual void ReleaseDeviceRes();
	virtual DeviceMemPtr AllocTensorMem(size_t size, bool from_persistent, bool need_recycle,
					    uint32_t stream_id) = 0;
	virtual std::vector<DeviceMemPtr> AllocContinuousTensorMem(const std::vector<size_t> &sizes,
								   uint32_t stream_id);
	virtual void FreeTensorMem(const DeviceMemPtr &addr) = 0;
	virtual void FreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
					const std::vector<DeviceMemPtr> &keep_addrs,
					const std::vector<size_t> &keep_sizes) = 0;
	virtual void RecordEvent(const DeviceMemPtr &addr) = 0;
	virtual void SyncAllEvents() = 0;
	virtual size_t TotalMemStatistics() const = 0;
	virtual size_t TotalUsedMemStatistics() const = 0;
	/* What is mapped of an address range; 0: the pool has none. */
	virtual size_t GetVmmUsedMemSize() const;
};

class BACKEND_EXPORT AbstractDynamicMemPool : virtual public DynamicMemPool
{
      public:
	AbstractDynamicMemPool(MemBufAllocator *a, int device);
	~AbstractDynamicMemPool() override;
	DeviceMemPtr AllocTensorMem(size_t size, bool from_persistent, bool need_recycle,
				    uint32_t stream_id) override;
	std::vector<DeviceMemPtr> AllocContinuousTensorMem(const std::vector<size_t> &sizes,
							   uint32_t stream_id) override;
	void FreeTensorMem(const DeviceMemPtr &addr) override;
	void FreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
				const std::vector<DeviceMemPtr> &keep_addrs,
				const std::vector<size_t> &keep_sizes) override;
	void RecordEvent(const DeviceMemPtr &addr) override;
	void SyncAllEvents() override;
	size_t TotalMemStatistics() const override;
	size_t TotalUsedMemStatistics() const override;
	std::pair<MemBuf *, MemBufAllocator *> AllocMemBuf(size_t align_size, bool from_persistent,
							   uint32_t stream_id);
	bool DoFreeTensorMem(const DeviceMemPtr &addr);
	std::vector<MemBuf *> DoFreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
						   const std::vector<DeviceMemPtr> &keep_addrs,
						   const std::vector<size_t> &keep_sizes);

      private:
	MemBufAllocator *allocator_;
	int device_;
	std::shared_ptr<MemStat> mem_stat_;
	std::mutex lock_;
};

class BACKEND_EXPORT DynamicMemPoolBestFit : virtual public DynamicMemPool
{
      public:
	DynamicMemPoolBestFit(MemBufAllocator *a, int device);
	~DynamicMemPoolBestFit() override;
	DeviceMemPtr AllocTensorMem(size_t size, bool from_persistent, bool need_recycle,
				    uint32_t stream_id) override;
	std::vector<DeviceMemPtr> AllocContinuousTensorMem(const std::vector<size_t> &sizes,
							   uint32_t stream_id) override;
	void FreeTensorMem(const DeviceMemPtr &addr) override;
	void FreePartTensorMems(const std::vector<DeviceMemPtr> &free_addrs,
				const std::vector<DeviceMemPtr> &keep_addrs,
				const std::vector<size_t> &keep_sizes) override;
	void FreeTensorMemInner(const DeviceMemPtr &addr);
	void KeepTensorMemByAddr(const DeviceMemPtr &addr, size_t size);
	void RecordEvent(const DeviceMemPtr &addr) override;
	void SyncAllEvents() override;
	size_t TotalMemStatistics() const override;
	size_t TotalUsedMemStatistics() const override;
	/* The truth tells host pools from device pools; a tracer has the type's name. */
	virtual bool OnDevice() const = 0;

      private:
	MemBufAllocator *allocator_;
	int device_;
	std::mutex lock_;
	std::shared_ptr<MemStat> persistent_, common_;
	DeviceMemPtr Give(size_t size, uint32_t stream_id);
};

} // namespace device
} // namespace mindspore
#endif
