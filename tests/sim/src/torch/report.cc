// SPDX-License-Identifier: Apache-2.0
/* The report function that a tracer derives, and the virtual one that it must not take instead. */
#include "memory_usage.h"
#include "npu.h"

#include <cstdlib>

namespace torch_npu
{
namespace profiler
{

using toolkit::profiler::Dump;
using toolkit::profiler::MemoryData;

namespace
{

/* The manager whose state is asked first; the call keeps the prologue before the test. */
__attribute__((noinline)) bool profilerRunning()
{
	return Dump::instance().running();
}

} // namespace

/* The guard's address is what the released aarch64 libraries load in the second instruction. */
#ifdef __aarch64__
#define STACK_GUARD __attribute__((stack_protect))
#else
#define STACK_GUARD
#endif

#if SIM_LAYOUT > LAYOUT_C10
unsigned long spoil_from;

__attribute__((constructor)) static void read_spoil_from()
{
	const char *e = getenv("SIM_BAD_REPORT");

	spoil_from = e ? strtoul(e, nullptr, 10) : 0;
}

/* Another device type and an odd size, as at a function that is not the one looked for. */
__attribute__((noinline)) void spoil(MemoryUsage &data)
{
	static std::atomic<unsigned long> n{ 0 };

	if (++n < spoil_from)
		return;
	data.device_type = 3;
	data.alloc_size += 1;
}

/*
 * One exit, as in every released library: the compiler would otherwise give the early return a
 * copy of the epilogue.
 */
__attribute__((optimize("no-reorder-blocks"))) STACK_GUARD void
reportMemoryDataToNpuProfiler(const MemoryUsage &data)
{
	if (!profilerRunning())
		return;

	int64_t ptr = data.ptr, size = data.alloc_size, allocated = data.total_allocated,
		reserved = data.total_reserved, active = data.total_active,
		stream = reinterpret_cast<int64_t>(data.stream_ptr);
	int64_t time = toolkit::profiler::nowNs();
	uint64_t tid = toolkit::profiler::threadId();
	uint64_t pid = toolkit::profiler::processId();

	Dump::instance().report(new MemoryData(data, ptr, size, allocated, reserved, active, stream,
					       time, tid, pid));
}
#endif

/* torch's own profiler reports CPU tensors through this; its address is only in a vtable. */
class MemoryReportingState
{
      public:
	virtual ~MemoryReportingState() = default;
	virtual void reportMemoryUsage(void *ptr, int64_t size, size_t allocated, size_t reserved,
				       int8_t type, int8_t index) = 0;
	virtual bool memoryProfilingEnabled() const = 0;
};

class NpuProfilerThreadLocalState : public MemoryReportingState
{
      public:
	void reportMemoryUsage(void *ptr, int64_t size, size_t allocated, size_t reserved,
			       int8_t type, int8_t index) override;
	bool memoryProfilingEnabled() const override;
};

void NpuProfilerThreadLocalState::reportMemoryUsage(void *ptr, int64_t size, size_t allocated,
						    size_t reserved, int8_t type, int8_t index)
{
	if (!profilerRunning())
		return;

	MemoryUsage u;

	u.device_type = type;
	u.device_index = index;
	u.ptr = reinterpret_cast<int64_t>(ptr);
	u.alloc_size = size;
	u.total_allocated = static_cast<int64_t>(allocated);
	u.total_reserved = static_cast<int64_t>(reserved);
	Dump::instance().report(new MemoryData(u, u.ptr, u.alloc_size, u.total_allocated,
					       u.total_reserved, 0, 0, toolkit::profiler::nowNs(),
					       toolkit::profiler::threadId(),
					       toolkit::profiler::processId()));
}

bool NpuProfilerThreadLocalState::memoryProfilingEnabled() const
{
	return profilerRunning();
}

static MemoryReportingState *state;

} // namespace profiler
} // namespace torch_npu

extern "C" SIM_API void sim_npu_profiling(int on)
{
	if (!torch_npu::profiler::state)
		torch_npu::profiler::state = new torch_npu::profiler::NpuProfilerThreadLocalState;
	torch_npu::toolkit::profiler::Dump::instance().set(on != 0);
}

/* As torch's thread-local profiler state would be called for a CPU tensor. */
extern "C" SIM_API void sim_npu_cpu_tensor(void *p, long size)
{
	if (torch_npu::profiler::state)
		torch_npu::profiler::state->reportMemoryUsage(p, size, 0, 0, 0, -1);
}
