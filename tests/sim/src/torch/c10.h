// SPDX-License-Identifier: Apache-2.0
/* The part of libc10 that a memory tracer meets. */
#ifndef SIM_C10_H
#define SIM_C10_H

#include <cstddef>
#include <cstdint>

#define C10_API __attribute__((visibility("default")))

namespace c10
{

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, PrivateUse1 = 20 };

/* Two bytes: passed packed in one register. */
struct C10_API Device {
	DeviceType type_;
	int8_t index_;
	Device(DeviceType t, int8_t i) : type_(t), index_(i)
	{
	}
};

C10_API void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated,
					 size_t total_reserved, Device device);
C10_API void reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated,
					 size_t total_reserved, Device device);
C10_API bool memoryProfilingEnabled();
C10_API void *alloc_cpu(size_t nbytes);
C10_API void free_cpu(void *data);

class C10_API ProfiledCPUMemoryReporter
{
      public:
	void New(void *ptr, size_t nbytes);
	void Delete(void *ptr);
};

} // namespace c10
#endif
