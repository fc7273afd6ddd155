// SPDX-License-Identifier: Apache-2.0
/*
 * Simulated ATB: names, signatures, call chains and layouts of its releases (ascend-abi.md 2.9),
 * by ATB_GEN: 80, 81 or 82 (8.2 and later).
 */
#ifndef SIM_ATB_H
#define SIM_ATB_H

#include "mki.h"

#include <cstring>
#include <memory>

namespace atb
{

using Status = int32_t;
constexpr Status ERROR_INVALID_PARAM = 1, ERROR_RT_FAIL = 6, ERROR_INTERNAL = 9;

template <class T> class SVector
{
      public:
	SVector() = default;
	SVector(const SVector &) = delete;
	SVector &operator=(const SVector &other)
	{
		reserve(other.size_);
		size_ = other.size_;
		memcpy(begin(), other.begin(), size_ * sizeof(T));
		return *this;
	}
	~SVector() { delete[] heap_; }
	T *begin() { return heap_ ? heap_ : storage_; }
	const T *begin() const { return heap_ ? heap_ : storage_; }
	size_t size() const { return size_; }
	T &at(size_t i) { return begin()[i]; }
	const T &at(size_t i) const { return begin()[i]; }
	void push_back(const T &v) { begin()[size_++] = v; }
	/* Only more than fits inline goes to the heap. */
	void reserve(size_t n)
	{
		if (n <= 64 || n <= capacity_)
			return;
		T *more = new T[n]();

		memcpy(more, begin(), size_ * sizeof(T));
		delete[] heap_;
		heap_ = more;
		capacity_ = n;
	}

      private:
	size_t capacity_ = 0;
	size_t size_ = 0;
	T storage_[65] = {};
	T *heap_ = nullptr;
};

struct Tensor {
	int32_t dtype, format;
	int64_t dims[8];
	uint64_t dimNum;
	void *deviceData;
	void *hostData;
	uint64_t dataSize;
};
static_assert(sizeof(Tensor) == 104, "ATB's Tensor");
static_assert(sizeof(SVector<Tensor>) == 6784, "ATB's SVector<Tensor>");

struct VariantPack {
	SVector<Tensor> inTensors, outTensors;
};

class Context
{
      public:
	virtual ~Context();
};

class ContextBase : public Context
{
      public:
	~ContextBase() override;
	void *stream = nullptr;
	bool withArgs = false; /* kernels get their arguments ready-made */
};

class MstxMemRegister
{
      public:
	Status MstxHeapRegister(void *workspace, uint64_t workspaceSize);
};

struct RunnerVariantPack {
	SVector<Tensor> inTensors, outTensors;
	SVector<bool> isInTensorCanFree, isOutTensorNeedMalloc;
	uint8_t *hostTilingBuffer = nullptr;
	uint8_t *tilingBuffer = nullptr;
	uint64_t tilingBufferSize = 0;
	uint8_t *workspaceBuffer = nullptr;
	uint64_t workspaceBufferSize = 0;
	uint8_t *intermediateBuffer = nullptr;
	uint64_t intermediateBufferSize = 0;
#if ATB_GEN >= 82
	uint8_t *argsDeviceBuffer = nullptr;
	uint8_t *argsHostBuffer = nullptr;
#endif
	ContextBase *context = nullptr;
#if ATB_GEN >= 82
	MstxMemRegister *mstxMemRegister = nullptr;
#endif
};

class Operation
{
      public:
	virtual ~Operation();
	virtual std::string GetName() const = 0;
};

class Runner
{
      public:
	explicit Runner(const std::string &name);
	virtual ~Runner();
	std::string GetName() const;
	std::string GetOperationName() const;
	Status Execute(RunnerVariantPack &runnerVariantPack);
	void SetRunnerInfo(const std::string &operationName, const std::vector<int64_t> &operationIds);
	virtual void SetSaveTensorDir(const std::string &tensorDir);
	std::string GetSaveTensorDir() const;
#if ATB_GEN >= 81
	virtual void ChangeWorkspaceBufferByExecuteStream(RunnerVariantPack &runnerVariantPack);
#endif

      protected:
	std::vector<int64_t> runnerIds_;
	size_t executeCount_ = 0;
	size_t setupCount_ = 0;
	std::string tensorDir_;
	bool isParamUpdated_ = false;
	Operation *operation_ = nullptr;
	std::string logPrefix_;
#if ATB_GEN >= 81
	std::vector<uint64_t> multiStreamWorkspaceSizes_;
#endif

      private:
	virtual Status ExecuteImpl(RunnerVariantPack &runnerVariantPack);
	std::string name_;
	std::string operationName_;
	bool saveTensorFlag_ = false;
};

class MkiNodeImplement
{
      public:
	explicit MkiNodeImplement(Mki::Kernel *kernel);
	virtual ~MkiNodeImplement();
	virtual std::string GetName() const;
	virtual Status Run(void *stream);
	Mki::LaunchParam &Param() { return launchParam_; }
	void SetArgsDeviceBuffer(void *args) { argsDeviceBuffer_ = args; }

      private:
	void *operation_ = nullptr;
	std::shared_ptr<Mki::Kernel> kernel_;
	Mki::LaunchParam launchParam_;
	Mki::RunInfo runInfo_ = {};
	void *argsDeviceBuffer_ = nullptr;
};

struct KernelGraphNode {
	struct {
		int64_t opId;
		std::string opName;
		void *specificParam;
	} opDesc;
	SVector<Mki::Tensor *> inTensors, outTensors;
	std::shared_ptr<MkiNodeImplement> impl;
};

class OpsRunner : public Runner
{
      public:
	explicit OpsRunner(const std::string &name);
	~OpsRunner() override;
	void AddKernel(const std::string &name, Mki::Trouble trouble);

      private:
	Status ExecuteImpl(RunnerVariantPack &runnerVariantPack) override;
#if ATB_GEN >= 82
	Status RunAllKernel(RunnerVariantPack &runnerVariantPack);
#elif ATB_GEN >= 81
	Status RunAllKernel(ContextBase *context);
#else
	Status RunAllKernel(ContextBase &context);
#endif
#if ATB_GEN >= 81
	Status RunKernel(KernelGraphNode &node, size_t nodeId, ContextBase *context) const;
#else
	Status RunKernel(KernelGraphNode &node, size_t nodeId, ContextBase &context) const;
#endif
	std::vector<std::unique_ptr<KernelGraphNode>> nodes_;
};

/* Calls an aclnn operator: no kernel of Mki's. */
class AclnnRunner : public Runner
{
      public:
	explicit AclnnRunner(const std::string &name);
	~AclnnRunner() override;

      private:
	Status ExecuteImpl(RunnerVariantPack &runnerVariantPack) override;
};

class OperationBase;

class GraphRunner : public Runner
{
      public:
	explicit GraphRunner(const std::string &name);
	~GraphRunner() override;
	void AddNode(OperationBase *op);
	void SetSaveTensorDir(const std::string &tensorDir) override;
	void SetNodeInfo(const std::vector<int64_t> &ids);

      private:
	Status ExecuteImpl(RunnerVariantPack &runnerVariantPack) override;
	Status ExecuteAllRunner(RunnerVariantPack &runnerVariantPack);
	std::vector<OperationBase *> nodes_;
};

class OperationBase : public Operation
{
      public:
	OperationBase(const std::string &name, Runner *runner);
	~OperationBase() override;
	std::string GetName() const override;
	virtual Status Setup(const VariantPack &variantPack, uint64_t &workspaceSize, Context *context);
	virtual Status Execute(const VariantPack &variantPack, uint8_t *workspace, uint64_t workspaceSize,
			       Context *context);
	Runner *GetRunner() { return runner_.get(); }

      protected:
	std::string name_;
	std::vector<int64_t> operationBaseIds_;
	std::shared_ptr<Runner> runner_;
	RunnerVariantPack runnerVariantPack_;

      private:
	void SetSaveTensorDir();
	Status Launch();
	size_t executeCount_ = 0;
	bool numbered_ = false;
};

Status CreateContext(Context **context);
Status DestroyContext(Context *context);
Status DestroyOperation(Operation *operation);

} // namespace atb

#endif
