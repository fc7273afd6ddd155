// SPDX-License-Identifier: Apache-2.0
/* Simulated Mki, what ATB runs its kernels by: layouts as far as a tracer reads them. */
#ifndef SIM_MKI_H
#define SIM_MKI_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace Mki
{

template <class T> struct SVector {
	T storage[49];
	size_t size = 0;
	void push_back(const T &v) { storage[size++] = v; }
};

struct TensorDesc {
	int32_t dtype = -1, format = -1;
	SVector<int64_t> dims;
	std::vector<int64_t> strides;
	int64_t offset = 0;
};

struct Tensor {
	TensorDesc desc;
	void *data = nullptr;
	size_t dataSize = 0;
	void *hostData = nullptr;
};
static_assert(sizeof(Tensor) == 464, "Mki's Tensor");

class Status
{
      public:
	Status(int code, const std::string &text);
	bool Ok() const;
	int Code() const;

      private:
	int code_;
	std::string text_;
};

class LaunchParam
{
      public:
	LaunchParam();
	~LaunchParam();
	SVector<Tensor> &GetInTensors();
	SVector<Tensor> &GetOutTensors();

      private:
	void *specificParam_ = nullptr;
	SVector<Tensor> inTensors_;
	SVector<Tensor> outTensors_;
};

struct RunInfo {
	void *stream;
};

class Kernel
{
      public:
	virtual ~Kernel();
	virtual std::string GetName() const = 0;
	virtual Status Run(const LaunchParam &param, RunInfo &info) = 0;
	virtual Status RunWithArgs(void *args, void *stream, bool isDeviceAddr) = 0;
};

/* What the kernel is to do instead of working. */
enum class Trouble { NONE, FAILS, THROWS };

class KernelBase : public Kernel
{
      public:
	KernelBase(const std::string &name, Trouble trouble);
	~KernelBase() override;
	std::string GetName() const override;
	Status Run(const LaunchParam &param, RunInfo &info) override;
	Status RunWithArgs(void *args, void *stream, bool isDeviceAddr) override;

      protected:
	uint32_t launchBufferSize_ = 0;
	uint8_t kernelInfo_[168] = {};

      private:
	Status Launch(void *stream);
	std::string kernelName_;
	Trouble trouble_;
};

} // namespace Mki

#endif
