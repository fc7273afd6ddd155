// SPDX-License-Identifier: Apache-2.0
/* Hermetic libnpu_profiler.so: report objects (home of MemoryData's vtable) and where they go. */
#include "memory_usage.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace torch_npu
{
namespace toolkit
{
namespace profiler
{

namespace
{
std::atomic<bool> on{ false };
std::atomic<uint64_t> seen{ 0 };
} // namespace

size_t BaseReportData::encode(unsigned char *out, size_t room)
{
	size_t n = strlen(tag) + 1;

	if (n > room)
		return 0;
	memcpy(out, tag, n);
	return n;
}

size_t MemoryData::encode(unsigned char *out, size_t room)
{
	const int64_t w[] = { ptr,	     timeNs,	  allocSize, totalAllocated,
			      totalReserved, totalActive, stream };

	if (room < sizeof(w))
		return 0;
	memcpy(out, w, sizeof(w));
	return sizeof(w);
}

Dump &Dump::instance()
{
	static Dump d;

	return d;
}

bool Dump::running() const
{
	return on.load(std::memory_order_relaxed);
}

void Dump::set(bool v)
{
	on.store(v);
}

void Dump::report(BaseReportData *raw)
{
	std::unique_ptr<BaseReportData> data(raw);
	unsigned char buf[128];

	if (data->encode(buf, sizeof(buf)))
		seen.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Dump::count() const
{
	return seen.load();
}

int64_t nowNs()
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

uint64_t threadId()
{
	static thread_local uint64_t id = static_cast<uint64_t>(syscall(SYS_gettid));

	return id;
}

uint64_t processId()
{
	return static_cast<uint64_t>(getpid());
}

} // namespace profiler
} // namespace toolkit
} // namespace torch_npu
