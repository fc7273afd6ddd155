// SPDX-License-Identifier: Apache-2.0
/* Hermetic workspace allocator: one growing block for each (device, stream). */
#include "npu.h"
#include "emit.h"
#include "../cann/acl.h"

#include <map>

namespace c10_npu
{
namespace NPUWorkspaceAllocator
{

/* 6.0.rc2 has layout B's record, but does not report workspaces yet. */
#ifdef SIM_RC2
#define WS_LAYOUT LAYOUT_A
#else
#define WS_LAYOUT SIM_LAYOUT
#endif

using torch_npu::profiler::MemoryComponentType;
using torch_npu::profiler::MemoryDataType;

namespace
{

const size_t kPadding = 32;
const size_t kRound = 2 << 20;
const auto WORKSPACE = MemoryComponentType::WORKSPACE_ALLOCATOR;

struct WorkspaceBlock {
	void *ptr = nullptr;
	size_t size = 0;
	aclrtStream stream = nullptr;
};

/* Records by layout: A none, B growth and release, C those and each use. */
struct DeviceWorkspaceAllocator {
	std::mutex lock;
	std::map<aclrtStream, WorkspaceBlock> blocks;
	WorkspaceBlock *last = nullptr;
	int64_t allocated = 0, reserved = 0;

	void *malloc(int device, size_t size, aclrtStream stream);
	void use_free(int device);
	void release(int device, WorkspaceBlock &b);
	void empty(int device);
};

DeviceWorkspaceAllocator *allocators[64];
std::mutex table_lock;

DeviceWorkspaceAllocator &of(int device)
{
	std::lock_guard<std::mutex> g(table_lock);
	auto *&a = allocators[device & 63];

	if (!a)
		a = new DeviceWorkspaceAllocator;
	return *a;
}

#if WS_LAYOUT == LAYOUT_B
/* One level: the totals say how much the blocks hold, reserved and active stay 0. */
#define TOTALS(a) (a).allocated, 0, 0
#else
#define TOTALS(a) (a).allocated, (a).reserved, (a).allocated
#endif

void DeviceWorkspaceAllocator::release(int device, WorkspaceBlock &b)
{
	if (!b.ptr)
		return;
	aclrtSynchronizeStream(b.stream);
	aclrtFree(b.ptr);
	int64_t n = static_cast<int64_t>(b.size);

#if WS_LAYOUT == LAYOUT_B
	allocated -= n;
	emit::memory({ "ws_segment_free", WORKSPACE, MemoryDataType::MEMORY_FREE, 0, device, b.ptr,
		       n, b.size, TOTALS(*this), b.stream });
#elif WS_LAYOUT == LAYOUT_C
	reserved -= n;
	emit::memory({ "ws_segment_free", WORKSPACE, MemoryDataType::MEMORY_FREE, 0, device, b.ptr,
		       n, b.size, TOTALS(*this), b.stream });
#else
	reserved -= n;
	(void)device;
#endif
	b.ptr = nullptr;
	b.size = 0;
}

void *DeviceWorkspaceAllocator::malloc(int device, size_t size, aclrtStream stream)
{
	std::lock_guard<std::mutex> g(lock);
	WorkspaceBlock &b = blocks[stream];
	size_t need = size + kPadding;

	b.stream = stream;
	if (b.size < need) {
		release(device, b);
		size_t n = (need + kRound - 1) / kRound * kRound;

		if (acl::MallocAlign32(&b.ptr, n, 1)) {
			b.ptr = nullptr;
			throw OutOfMemoryError("NPU out of memory: workspace");
		}
		b.size = n;
#if WS_LAYOUT == LAYOUT_B
		allocated += static_cast<int64_t>(n);
#else
		reserved += static_cast<int64_t>(n);
#endif
#if WS_LAYOUT == LAYOUT_B || WS_LAYOUT == LAYOUT_C
		emit::memory({ "ws_segment_malloc", WORKSPACE, MemoryDataType::MEMORY_MALLOC, 0,
			       device, b.ptr, static_cast<int64_t>(n), size, TOTALS(*this),
			       stream });
#endif
	}
	last = &b;
#if WS_LAYOUT == LAYOUT_C
	allocated += static_cast<int64_t>(b.size);
	emit::memory({ "ws_use_malloc", WORKSPACE, MemoryDataType::MEMORY_MALLOC, 0, device, b.ptr,
		       static_cast<int64_t>(b.size), size, TOTALS(*this), stream });
#endif
	return b.ptr;
}

/* As released: the record names the block that was used last, not always the one given back. */
void DeviceWorkspaceAllocator::use_free(int device)
{
#if WS_LAYOUT == LAYOUT_C
	std::lock_guard<std::mutex> g(lock);

	if (!last)
		return;
	allocated -= static_cast<int64_t>(last->size);
	emit::memory({ "ws_use_free", WORKSPACE, MemoryDataType::MEMORY_FREE, 0, device, last->ptr,
		       static_cast<int64_t>(last->size), last->size, TOTALS(*this), last->stream });
#else
	(void)device;
#endif
}

void DeviceWorkspaceAllocator::empty(int device)
{
	std::lock_guard<std::mutex> g(lock);

	for (auto &kv : blocks) {
		WorkspaceBlock &b = kv.second;

		if (!b.ptr)
			continue;
		/* Not by release(): a call site of its own, as in the real library. */
		aclrtSynchronizeStream(b.stream);
		aclrtFree(b.ptr);
#if WS_LAYOUT == LAYOUT_B
		allocated -= static_cast<int64_t>(b.size);
#else
		reserved -= static_cast<int64_t>(b.size);
#endif
#if WS_LAYOUT == LAYOUT_B || WS_LAYOUT == LAYOUT_C
		emit::memory({ "ws_segment_free", WORKSPACE, MemoryDataType::MEMORY_FREE, 0, device,
			       b.ptr, static_cast<int64_t>(b.size), b.size, TOTALS(*this),
			       b.stream });
#else
		(void)device;
#endif
		b.ptr = nullptr;
		b.size = 0;
	}
}

} // namespace

void *malloc_with_stream(size_t size, aclrtStream stream)
{
	int32_t device = 0;

	if (GetDevice(&device))
		throwError("no current device");
	return of(device).malloc(device, size, stream);
}

void release_use(void *ptr)
{
	int32_t device = 0;

	(void)ptr;
	if (!GetDevice(&device))
		of(device).use_free(device);
}

void emptyCache(int device)
{
	DeviceWorkspaceAllocator *a;

	acl::DrainQueues();
	{
		std::lock_guard<std::mutex> g(table_lock);

		a = allocators[device & 63];
	}
	if (a)
		a->empty(device);
}

} // namespace NPUWorkspaceAllocator
} // namespace c10_npu

namespace at_npu
{
namespace native
{

WorkspaceTensor::WorkspaceTensor(void *p) : data(p)
{
}

WorkspaceTensor::~WorkspaceTensor()
{
	if (data)
		c10_npu::NPUWorkspaceAllocator::release_use(data);
}

#if WS_LAYOUT >= LAYOUT_C
WorkspaceTensor allocate_workspace(uint64_t size, aclrtStream stream)
{
	return WorkspaceTensor(c10_npu::NPUWorkspaceAllocator::malloc_with_stream(size, stream));
}
#endif

} // namespace native
} // namespace at_npu
