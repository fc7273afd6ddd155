// SPDX-License-Identifier: Apache-2.0
/* What the files of the hermetic libtorch_npu share. */
#ifndef SIM_NPU_H
#define SIM_NPU_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#define SIM_API __attribute__((visibility("default")))

using aclrtStream = void *;

namespace c10_npu
{

SIM_API int SetDevice(int8_t device);
SIM_API int GetDevice(int32_t *device);

/* What a TORCH_CHECK throws, and its out-of-memory form. */
class SIM_API NPUError : public std::runtime_error
{
      public:
	explicit NPUError(const std::string &what);
	~NPUError() override;
};

class SIM_API OutOfMemoryError : public NPUError
{
      public:
	explicit OutOfMemoryError(const std::string &what);
	~OutOfMemoryError() override;
};

[[noreturn]] void throwError(const char *what);

namespace acl
{

/* Newer functions are looked up in libascendcl.so, with a fallback. */
int MallocAlign32(void **p, size_t n, int policy);
/* The consumer threads have done all that was queued so far. */
void DrainQueues();

} // namespace acl

namespace NPUCachingAllocator
{

class NPUAllocator
{
      public:
	virtual ~NPUAllocator() = default;
	virtual void *raw_alloc(size_t n) = 0;
	virtual void *raw_alloc_with_stream(size_t n, aclrtStream stream) = 0;
	virtual void raw_delete(void *p) = 0;
	virtual void recordStream(void *p, aclrtStream stream) = 0;
	virtual void emptyCache() = 0;
	virtual void stats(int device, int64_t out[3]) = 0;
	virtual std::string name() = 0;
};

SIM_API extern std::atomic<NPUAllocator *> allocator;
/* SIM_OPAQUE: not exported, so that nothing leads to the functions behind them. */
#ifdef SIM_OPAQUE
#define SIM_BLOCK_API
#else
#define SIM_BLOCK_API SIM_API
#endif
SIM_BLOCK_API void *MallocBlock(size_t size, void *stream, int device);
SIM_BLOCK_API void FreeBlock(void *handle);
SIM_BLOCK_API void *GetBlockPtr(const void *handle);
SIM_BLOCK_API size_t GetBlockSize(const void *handle);
SIM_API std::mutex *getFreeMutex();

} // namespace NPUCachingAllocator

namespace NPUWorkspaceAllocator
{

void *malloc_with_stream(size_t size, aclrtStream stream);
void release_use(void *ptr);
void emptyCache(int device);

} // namespace NPUWorkspaceAllocator
} // namespace c10_npu

namespace at_npu
{
namespace native
{

/* Stands for at::Tensor: one pointer, a destructor, returned through a hidden pointer. */
class SIM_API WorkspaceTensor
{
      public:
	explicit WorkspaceTensor(void *p);
	WorkspaceTensor(const WorkspaceTensor &) = delete;
	~WorkspaceTensor();
	void *data;
};

#if SIM_LAYOUT >= 3
SIM_API WorkspaceTensor allocate_workspace(uint64_t size, aclrtStream stream);
#endif

class SIM_API OpCommand
{
      public:
	OpCommand &Name(const std::string &name);
	void Run();
#if SIM_LAYOUT >= 3
	static void RunOpApiV2(const std::string &name, const std::function<int()> &func,
			       bool sync);
#endif
	static void RunOpApi(const std::string &name, std::function<int()> func, bool sync);

      private:
	std::string name_;
};

} // namespace native
} // namespace at_npu
#endif
