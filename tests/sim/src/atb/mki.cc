// SPDX-License-Identifier: Apache-2.0
/* Simulated libmki.so: kernels that the runtime launches. */
#include "mki.h"

#include "../cann/rt.h"

#include <stdexcept>

namespace Mki
{

Status::Status(int code, const std::string &text) : code_(code), text_(text)
{
}

bool Status::Ok() const
{
	return !code_;
}

int Status::Code() const
{
	return code_;
}

LaunchParam::LaunchParam()
{
}

LaunchParam::~LaunchParam()
{
}

SVector<Tensor> &LaunchParam::GetInTensors()
{
	return inTensors_;
}

SVector<Tensor> &LaunchParam::GetOutTensors()
{
	return outTensors_;
}

Kernel::~Kernel()
{
}

/* The stub of a kernel is the address of its object. */
KernelBase::KernelBase(const std::string &name, Trouble trouble) : kernelName_(name), trouble_(trouble)
{
	rtDevBinary_t bin = {};
	void *handle = nullptr;

	rtDevBinaryRegister(&bin, &handle);
	rtFunctionRegister(handle, this, kernelName_.c_str(), kernelName_.c_str(), 0);
}

KernelBase::~KernelBase()
{
}

std::string KernelBase::GetName() const
{
	return kernelName_;
}

Status KernelBase::Launch(void *stream)
{
	if (trouble_ == Trouble::THROWS)
		throw std::runtime_error(kernelName_);
	if (trouble_ == Trouble::FAILS)
		return Status(7, "no such tiling");
	return Status(rtKernelLaunch(this, 8, nullptr, 0, nullptr, stream), "");
}

Status KernelBase::Run(const LaunchParam &param, RunInfo &info)
{
	(void)param;
	return Launch(info.stream);
}

Status KernelBase::RunWithArgs(void *args, void *stream, bool isDeviceAddr)
{
	(void)args;
	(void)isDeviceAddr;
	return Launch(stream);
}

} // namespace Mki
