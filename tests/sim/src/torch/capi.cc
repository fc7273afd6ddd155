// SPDX-License-Identifier: Apache-2.0
/* What stands for the Python layer of torch_npu: a C API for the driver. */
#include "npu.h"

using c10_npu::NPUCachingAllocator::allocator;

extern "C" {

/* Throws c10_npu::OutOfMemoryError through the allocator's frames; the caller catches. */
SIM_API void *sim_npu_malloc(size_t size, void *stream)
{
	return allocator.load()->raw_alloc_with_stream(size, stream);
}

/* As the Python binding: the exception ends inside this library. */
SIM_API void *sim_npu_try_malloc(size_t size, void *stream)
{
	try {
		return allocator.load()->raw_alloc_with_stream(size, stream);
	} catch (const std::exception &) {
		return nullptr;
	}
}

SIM_API void sim_npu_free(void *p)
{
	allocator.load()->raw_delete(p);
}

SIM_API void sim_npu_record_stream(void *p, void *stream)
{
	allocator.load()->recordStream(p, stream);
}

SIM_API void sim_npu_empty_cache(void)
{
	c10_npu::acl::DrainQueues();
	allocator.load()->emptyCache();
}

SIM_API void sim_npu_stats(int device, int64_t out[3])
{
	allocator.load()->stats(device, out);
}

/* A failing TORCH_CHECK. */
SIM_API int sim_npu_check(int fail)
{
	if (fail)
		throw c10_npu::NPUError("check failed");
	return 0;
}

} // extern "C"
