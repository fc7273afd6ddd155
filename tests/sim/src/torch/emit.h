// SPDX-License-Identifier: Apache-2.0
/* One memory record: to the profiler as this generation does it, and to the ground truth. */
#ifndef SIM_EMIT_H
#define SIM_EMIT_H

#include "memory_usage.h"
#include "mstx_memory.h"
#include "../truth/sim_truth.h"
#if SIM_LAYOUT == LAYOUT_C10
#include "c10.h"
#endif

namespace emit
{

struct Record {
	const char *fn; /* of the truth */
	torch_npu::profiler::MemoryComponentType component;
	torch_npu::profiler::MemoryDataType type;
	uint8_t allocator_type;
	int device;
	void *ptr;
	int64_t size; /* positive */
	size_t requested;
	int64_t allocated, reserved, active;
	void *stream;
	/* What is reported in place of ptr and size, if it is something else. */
	void *said_ptr = nullptr;
	int64_t said_size = 0;
};

__attribute__((noinline, cold)) inline void truth(const Record &r, uint64_t t0)
{
	sim_truth_rec t = {};

	t.fn = r.fn;
	t.t0 = t0;
	t.t1 = sim_truth_now();
	t.out = reinterpret_cast<uintptr_t>(r.ptr);
	t.size = static_cast<uint64_t>(r.size);
	t.stream = reinterpret_cast<uintptr_t>(r.stream);
	t.device = r.device;
	t.alloc = r.allocated;
	t.reserved = r.reserved;
	t.active = r.active;
	t.atype = r.allocator_type;
	t.nargs = 1;
	t.args[0] = r.requested;
	t.has = SIM_T_OUT | SIM_T_SIZE | SIM_T_DEV | SIM_T_STREAM | SIM_T_TOTALS | SIM_T_ATYPE |
		SIM_T_NORET;
	sim_truth_put(&t);
}

/* Always inlined: every use is a call site of the report function, as in the real library. */
__attribute__((always_inline)) inline void report(const Record &r)
{
	const bool is_malloc = r.type == torch_npu::profiler::MemoryDataType::MEMORY_MALLOC;
#if SIM_LAYOUT == LAYOUT_NONE
	(void)is_malloc; /* known to the truth alone */
#elif SIM_LAYOUT == LAYOUT_C10
	c10::reportMemoryUsageToProfiler(
		r.ptr, is_malloc ? r.size : -r.size, static_cast<size_t>(r.allocated),
		static_cast<size_t>(r.reserved),
		c10::Device(c10::DeviceType::PrivateUse1, static_cast<int8_t>(r.device)));
#else
	torch_npu::profiler::MemoryUsage u;

	u.device_type = 20; /* PrivateUse1 */
	u.device_index = static_cast<int8_t>(r.device);
#if SIM_LAYOUT >= LAYOUT_C
	u.component_type = static_cast<uint8_t>(r.component);
#endif
	u.data_type = static_cast<uint8_t>(r.type);
#if SIM_LAYOUT >= LAYOUT_B
	u.allocator_type = r.allocator_type;
#endif
#ifdef SIM_RC2
	u.ptr = reinterpret_cast<int64_t>(r.said_ptr ? r.said_ptr : r.ptr);
	u.alloc_size = r.said_size ? -r.said_size : is_malloc ? r.size : -r.size;
#else
	u.ptr = reinterpret_cast<int64_t>(r.ptr);
	u.alloc_size = is_malloc ? r.size : -r.size;
#endif
	u.total_allocated = r.allocated;
	u.total_reserved = r.reserved;
	u.total_active = r.active;
	u.stream_ptr = r.stream;
#if SIM_LAYOUT >= LAYOUT_C
	/* Not for a block that goes back to the pool later than its user freed it. */
	if (__builtin_expect(torch_npu::mstx_memory::enabled(), 0) &&
	    r.type != torch_npu::profiler::MemoryDataType::MEMORY_BLOCK_FREE)
		torch_npu::mstx_memory::record(static_cast<int>(r.component), r.device, r.ptr,
					       is_malloc ? r.size : -r.size, r.reserved);
#endif
	if (__builtin_expect(torch_npu::profiler::spoil_from != 0, 0))
		torch_npu::profiler::spoil(u);
	torch_npu::profiler::reportMemoryDataToNpuProfiler(u);
#endif
}

__attribute__((always_inline)) inline void memory(const Record &r)
{
	uint64_t t0 = sim_truth_begin();

	/* Opaque: else the compiler makes two calls of the report function, by t0's value. */
	asm("" : "+r"(t0));
	report(r);
	if (__builtin_expect(t0 != 0, 0))
		truth(r, t0);
}

} // namespace emit
#endif
