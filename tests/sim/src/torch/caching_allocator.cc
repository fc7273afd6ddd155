// SPDX-License-Identifier: Apache-2.0
/* Hermetic NpuCachingAllocator: one allocator a device, and the functions the real library exports.
 */
#include "device_allocator.h"
#include "report_outer.h"
#include "../cann/acl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <unordered_map>

namespace c10_npu
{

NPUError::NPUError(const std::string &what) : std::runtime_error(what)
{
}

NPUError::~NPUError()
{
}

OutOfMemoryError::OutOfMemoryError(const std::string &what) : NPUError(what)
{
}

OutOfMemoryError::~OutOfMemoryError()
{
}

void throwError(const char *what)
{
	throw NPUError(what);
}

int SetDevice(int8_t device)
{
	return aclrtSetDevice(device);
}

int GetDevice(int32_t *device)
{
	return aclrtGetDevice(device);
}

namespace acl
{

int MallocAlign32(void **p, size_t n, int policy)
{
	using Fn = int (*)(void **, size_t, int);
	static const Fn fn = [] {
		void *h = dlopen("libascendcl.so", RTLD_LAZY);
		return h ? reinterpret_cast<Fn>(dlsym(h, "aclrtMallocAlign32")) : nullptr;
	}();

	return fn ? fn(p, n, policy) : aclrtMalloc(p, n, policy);
}

} // namespace acl

namespace NPUCachingAllocator
{

SIM_API std::atomic<NPUAllocator *> allocator{ nullptr };

class NpuCachingAllocator final : public NPUAllocator
{
      public:
	std::vector<std::unique_ptr<DeviceCachingAllocator>> device_allocator;

	void init(int count)
	{
		while (static_cast<int>(device_allocator.size()) < count)
			device_allocator.emplace_back(new DeviceCachingAllocator);
	}

	void *raw_alloc(size_t n) override;
	void *raw_alloc_with_stream(size_t n, aclrtStream stream) override;
	void raw_delete(void *p) override;
	void recordStream(void *p, aclrtStream stream) override;
	void emptyCache() override;
	void stats(int device, int64_t out[3]) override;
	std::string name() override;

      private:
	struct alignas(64) Shard {
		std::mutex lock;
		std::unordered_map<void *, Block *> blocks;
	};
	static const size_t kShards = 67;
	Shard shards[kShards];

	Shard &shard(void *p)
	{
		return shards[reinterpret_cast<uintptr_t>(p) / 512 % kShards];
	}

	void malloc(void **p, int device, size_t n, aclrtStream stream);
	Block *take(void *p, bool remove);
};

/* Never destroyed: threads may free at exit. */
static NpuCachingAllocator &caching_allocator = *new NpuCachingAllocator;

static bool no_caching()
{
	static const bool off = getenv("PYTORCH_NO_NPU_MEMORY_CACHING") != nullptr;

	return off;
}

void NpuCachingAllocator::malloc(void **p, int device, size_t n, aclrtStream stream)
{
	if (device < 0 || device >= static_cast<int>(device_allocator.size()))
		throwError("Allocator not initialized for device");
	Block *b = device_allocator[device]->malloc_outer(device, n, stream, 0);
	Shard &s = shard(b->ptr);
	std::lock_guard<std::mutex> g(s.lock);

	s.blocks[b->ptr] = b;
	*p = b->ptr;
}

Block *NpuCachingAllocator::take(void *p, bool remove)
{
	Shard &s = shard(p);
	std::lock_guard<std::mutex> g(s.lock);
	auto it = s.blocks.find(p);

	if (it == s.blocks.end())
		return nullptr;
	Block *b = it->second;

	if (remove)
		s.blocks.erase(it);
	return b;
}

void *NpuCachingAllocator::raw_alloc(size_t n)
{
	return raw_alloc_with_stream(n, nullptr);
}

void *NpuCachingAllocator::raw_alloc_with_stream(size_t n, aclrtStream stream)
{
	int32_t device = 0;
	void *p = nullptr;

	if (!n)
		return nullptr;
	if (GetDevice(&device))
		throwError("no current device");
	if (no_caching()) {
		if (acl::MallocAlign32(&p, n, 0))
			throw OutOfMemoryError("NPU out of memory");
		return p;
	}
	malloc(&p, device, n, stream);
	return p;
}

void NpuCachingAllocator::raw_delete(void *p)
{
	if (!p)
		return;
	if (no_caching()) {
		aclrtFree(p);
		return;
	}
	Block *b = take(p, true);

	if (!b)
		throwError("invalid device pointer");
	device_allocator[b->device]->free_outer(b, 0);
}

void NpuCachingAllocator::recordStream(void *p, aclrtStream stream)
{
	Block *b = take(p, false);

	if (b)
		device_allocator[b->device]->recordStream(b, stream);
}

void NpuCachingAllocator::emptyCache()
{
	for (size_t i = 0; i < device_allocator.size(); i++) {
		device_allocator[i]->emptyCache();
		NPUWorkspaceAllocator::emptyCache(static_cast<int>(i));
	}
}

void NpuCachingAllocator::stats(int device, int64_t out[3])
{
	device_allocator[device]->totals(out);
}

std::string NpuCachingAllocator::name()
{
	return "native";
}

/* ---- what the real library exports ---- */

void *MallocBlock(size_t size, void *stream, int device)
{
	if (device == -1) {
		int32_t current = 0;

		if (GetDevice(&current))
			throwError("no current device");
		device = current;
	}
	if (device < 0 || device >= static_cast<int>(caching_allocator.device_allocator.size()))
		return nullptr;
	if (!caching_allocator.device_allocator[device])
		throwError("no allocator for this device");
	if (!stream)
		throwError("no stream");

	Block *block = caching_allocator.device_allocator[device]->malloc_outer(device, size,
										stream, 1);

	if (!block)
		throwError("no block");
	return block;
}

void FreeBlock(void *handle)
{
	Block *block = static_cast<Block *>(handle);

	if (!block)
		throwError("no block");
	if (!caching_allocator.device_allocator[block->device])
		throwError("no allocator for this device");
	return caching_allocator.device_allocator[block->device]->free_outer(block, 1);
}

void *GetBlockPtr(const void *handle)
{
	const Block *block = static_cast<const Block *>(handle);

	if (!block)
		throwError("no block");
	return block->ptr;
}

size_t GetBlockSize(const void *handle)
{
	const Block *block = static_cast<const Block *>(handle);

	if (!block)
		throwError("no block");
	return block->size;
}

std::mutex *getFreeMutex()
{
	static std::mutex m;

	return &m;
}

} // namespace NPUCachingAllocator
} // namespace c10_npu

extern "C" SIM_API int sim_npu_init(int count)
{
	c10_npu::NPUCachingAllocator::caching_allocator.init(count);
	c10_npu::NPUCachingAllocator::allocator.store(
		&c10_npu::NPUCachingAllocator::caching_allocator);
	return 0;
}
