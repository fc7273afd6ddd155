// SPDX-License-Identifier: Apache-2.0
/* torch_npu's memory record in its three layouts, and the profiler object made from it. */
#ifndef SIM_MEMORY_USAGE_H
#define SIM_MEMORY_USAGE_H

#include <cstddef>
#include <cstdint>

/* SIM_LAYOUT: -1 reports to nobody, 0 generation 5.0 (c10's function), 1 A, 2 B, 3 C */
#define LAYOUT_NONE -1
#define LAYOUT_C10 0
#define LAYOUT_A 1
#define LAYOUT_B 2
#define LAYOUT_C 3
/*
 * SIM_RC2 (with layout B): reports as 6.0.rc2 does, from outer functions. A free is reported when the
 * block has been merged with its free neighbours, and names what came of it; workspaces are not reported.
 */

namespace torch_npu
{
namespace profiler
{

enum class MemoryComponentType : uint8_t { CACHING_ALLOCATOR = 0, WORKSPACE_ALLOCATOR = 1 };
enum class MemoryDataType : uint8_t { MEMORY_MALLOC = 0, MEMORY_FREE = 1, MEMORY_BLOCK_FREE = 2 };
enum class MemoryAllocatorType : uint8_t { ALLOCATOR_INNER = 0, ALLOCATOR_EXTERNAL = 1 };

struct MemoryUsage {
	int8_t device_type = 0;
	int8_t device_index = 0;
#if SIM_LAYOUT >= LAYOUT_C
	uint8_t component_type = 0;
#endif
	uint8_t data_type = 0;
#if SIM_LAYOUT >= LAYOUT_B
	uint8_t allocator_type = 0;
#endif
	int64_t ptr = 0;
	int64_t alloc_size = 0;
	int64_t total_allocated = 0;
	int64_t total_reserved = 0;
	int64_t total_active = 0;
	void *stream_ptr = nullptr;
};
static_assert(sizeof(MemoryUsage) == 56 && offsetof(MemoryUsage, ptr) == 8, "as released");

/* SIM_BAD_REPORT=n: from the n-th on, what is reported makes no sense. 0 = all of it does. */
extern unsigned long spoil_from;
void spoil(MemoryUsage &data);

/* Hidden, in report.cc; its first statement is the test. */
void reportMemoryDataToNpuProfiler(const MemoryUsage &data);

} // namespace profiler

namespace toolkit
{
namespace profiler
{

#define NPU_PROFILER_API __attribute__((visibility("default")))

struct NPU_PROFILER_API BaseReportData {
	int32_t deviceId;
	const char *tag;
	BaseReportData(int32_t id, const char *t) : deviceId(id), tag(t)
	{
	}
	virtual ~BaseReportData() = default;
	virtual size_t encode(unsigned char *out, size_t room);
};

/* The key function (encode) lives in libnpu_profiler.so, so the vtable is imported from there. */
struct NPU_PROFILER_API MemoryData : BaseReportData {
	int64_t ptr;
	int64_t timeNs;
	int64_t allocSize;
	int64_t totalAllocated;
	int64_t totalReserved;
	int64_t totalActive;
	int64_t stream;
	int8_t deviceType;
	int8_t deviceIndex;
#if SIM_LAYOUT >= LAYOUT_C
	uint8_t componentType;
#endif
	uint8_t dataType;
#if SIM_LAYOUT >= LAYOUT_B
	uint8_t allocatorType;
#endif
	uint64_t threadId;
	uint64_t processId;

	__attribute__((always_inline))
	MemoryData(const torch_npu::profiler::MemoryUsage &u, int64_t p, int64_t size,
		   int64_t allocated, int64_t reserved, int64_t active, int64_t stm, int64_t time,
		   uint64_t tid, uint64_t pid)
	    : BaseReportData(0, "torch.memory_usage"), ptr(p), timeNs(time), allocSize(size),
	      totalAllocated(allocated), totalReserved(reserved), totalActive(active), stream(stm),
	      deviceType(u.device_type), deviceIndex(u.device_index),
#if SIM_LAYOUT >= LAYOUT_C
	      componentType(u.component_type),
#endif
	      dataType(u.data_type),
#if SIM_LAYOUT >= LAYOUT_B
	      allocatorType(u.allocator_type),
#endif
	      threadId(tid), processId(pid)
	{
	}
	size_t encode(unsigned char *out, size_t room) override;
};

/* The dump side of the profiler: takes reports while it is on. */
class NPU_PROFILER_API Dump
{
      public:
	static Dump &instance();
	bool running() const;
	void set(bool on);
	void report(BaseReportData *data); /* takes it */
	uint64_t count() const;
};

NPU_PROFILER_API int64_t nowNs();
NPU_PROFILER_API uint64_t threadId();
NPU_PROFILER_API uint64_t processId();

} // namespace profiler
} // namespace toolkit
} // namespace torch_npu
#endif
