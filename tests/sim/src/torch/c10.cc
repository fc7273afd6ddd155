// SPDX-License-Identifier: Apache-2.0
/* Hermetic libc10.so: the memory-reporting functions and the CPU allocator. */
#include "c10.h"

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace c10
{

namespace
{
bool listening; /* no profiler here */
std::mutex lock;
std::unordered_map<void *, size_t> sizes;
} // namespace

bool memoryProfilingEnabled()
{
	return listening;
}

void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated,
				 size_t total_reserved, Device device)
{
	static volatile uint64_t sink;

	if (!memoryProfilingEnabled())
		return;
	sink = reinterpret_cast<uintptr_t>(ptr) + static_cast<uint64_t>(alloc_size) +
	       total_allocated + total_reserved + static_cast<uint64_t>(device.index_);
	(void)sink;
}

void reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated, size_t total_reserved,
				 Device device)
{
	reportMemoryUsageToProfiler(nullptr, alloc_size, total_allocated, total_reserved, device);
}

void ProfiledCPUMemoryReporter::New(void *ptr, size_t nbytes)
{
	{
		std::lock_guard<std::mutex> g(lock);

		sizes[ptr] = nbytes;
	}
	if (memoryProfilingEnabled())
		reportMemoryUsageToProfiler(ptr, static_cast<int64_t>(nbytes), 0, 0,
					    Device(DeviceType::CPU, -1));
}

void ProfiledCPUMemoryReporter::Delete(void *ptr)
{
	size_t n = 0;

	{
		std::lock_guard<std::mutex> g(lock);
		auto it = sizes.find(ptr);

		if (it == sizes.end())
			return;
		n = it->second;
		sizes.erase(it);
	}
	if (memoryProfilingEnabled())
		reportMemoryUsageToProfiler(ptr, -static_cast<int64_t>(n), 0, 0,
					    Device(DeviceType::CPU, -1));
}

void *alloc_cpu(size_t nbytes)
{
	void *p = nullptr;

	if (!nbytes)
		return nullptr;
	if (posix_memalign(&p, 64, nbytes))
		throw std::runtime_error("DefaultCPUAllocator: can't allocate memory");
	return p;
}

void free_cpu(void *data)
{
	free(data);
}

} // namespace c10

/* A CPU tensor, as torch makes and drops it. */
extern "C" __attribute__((visibility("default"))) void *sim_cpu_tensor(size_t nbytes)
{
	static c10::ProfiledCPUMemoryReporter r;
	void *p = c10::alloc_cpu(nbytes);

	r.New(p, nbytes);
	return p;
}

extern "C" __attribute__((visibility("default"))) void sim_cpu_tensor_free(void *p)
{
	static c10::ProfiledCPUMemoryReporter r;

	r.Delete(p);
	c10::free_cpu(p);
}

/* Which keys the thread includes and excludes: operators are dispatched by it. */
namespace c10 {
namespace impl {
struct PODLocalDispatchKeySet {
	unsigned long included, excluded;
};
extern __attribute__((visibility("default"))) __thread PODLocalDispatchKeySet raw_local_dispatch_key_set;
__thread PODLocalDispatchKeySet raw_local_dispatch_key_set;
} // namespace impl
} // namespace c10
