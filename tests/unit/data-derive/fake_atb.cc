// SPDX-License-Identifier: Apache-2.0
/*
 * The getters of libatb and libmki that tell where their objects have what, for tests/unit/atb.c.
 * -DVECTOR: a runner as in 8.1 and later; -DOLD: Mki's tensors without strides; -DHIDDEN: none.
 */
#include <cstdint>
#include <string>
#include <vector>

#ifdef HIDDEN
#define EXPORTED __attribute__((visibility("hidden")))
#else
#define EXPORTED
#endif

namespace atb
{
struct RunnerVariantPack;

class Runner
{
      public:
	virtual ~Runner();
	EXPORTED std::string GetOperationName() const;
	int32_t Execute(RunnerVariantPack &pack);
	std::vector<int64_t> runnerIds_;
	size_t executeCount_, setupCount_;
	std::string tensorDir_;
	bool isParamUpdated_;
	void *operation_;
	std::string logPrefix_;
#ifdef VECTOR
	std::vector<uint64_t> multiStreamWorkspaceSizes_;
#endif
	std::string name_, operationName_;
};

Runner::~Runner()
{
}

std::string Runner::GetOperationName() const
{
	return operationName_;
}

int32_t Runner::Execute(RunnerVariantPack &pack)
{
	(void)pack;
	return (int32_t)executeCount_++;
}

#ifdef VECTOR
class MstxMemRegister
{
      public:
	int32_t MstxHeapRegister(void *workspace, uint64_t size);
};

int32_t MstxMemRegister::MstxHeapRegister(void *workspace, uint64_t size)
{
	return workspace && size;
}
#endif
} // namespace atb

namespace Mki
{
struct Tensor {
#ifdef OLD
	uint8_t bytes[432];
#else
	uint8_t bytes[464];
#endif
};

template <class T> struct SVector {
	T storage[49];
	size_t size;
};

class LaunchParam
{
      public:
	SVector<Tensor> &GetInTensors();
	SVector<Tensor> &GetOutTensors();
	void *specificParam_[2];
	SVector<Tensor> inTensors_;
#ifdef ODD
	void *between;
#endif
	SVector<Tensor> outTensors_;
};

SVector<Tensor> &LaunchParam::GetInTensors()
{
	return inTensors_;
}

SVector<Tensor> &LaunchParam::GetOutTensors()
{
	return outTensors_;
}

struct RunInfo;
struct Status {
	int code;
	std::string text;
};

class KernelBase
{
      public:
	virtual ~KernelBase();
	EXPORTED std::string GetName() const;
	Status Run(const LaunchParam &param, RunInfo &info);
	uint32_t launchBufferSize_;
	uint64_t kernelInfo_[30];
	std::string kernelName_;
};

KernelBase::~KernelBase()
{
}

std::string KernelBase::GetName() const
{
	return kernelName_;
}

Status KernelBase::Run(const LaunchParam &param, RunInfo &info)
{
	(void)param;
	(void)info;
	return { (int)launchBufferSize_, kernelName_ };
}
} // namespace Mki
