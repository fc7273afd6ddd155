// SPDX-License-Identifier: Apache-2.0
/*
 * Simulated libatb.so: operations run their runner, graphs those of their nodes, runners their
 * kernels. As in a plain process: it dumps nothing and nobody hears its mstx calls.
 * SIM_ATB_DUMP: it computes where its own dump would go.
 */
#include "atb.h"

#include "../truth/sim_truth.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <unistd.h>

extern "C" int32_t aclrtGetDevice(int32_t *device);

namespace atb
{

Context::~Context()
{
}

ContextBase::~ContextBase()
{
}

Operation::~Operation()
{
}

/* ---- runners ---- */

Runner::Runner(const std::string &name) : tensorDir_(name), logPrefix_(name), name_(name)
{
}

Runner::~Runner()
{
}

std::string Runner::GetName() const
{
	return name_;
}

std::string Runner::GetOperationName() const
{
	return operationName_;
}

std::string Runner::GetSaveTensorDir() const
{
	return tensorDir_;
}

void Runner::SetSaveTensorDir(const std::string &tensorDir)
{
	tensorDir_ = tensorDir;
}

void Runner::SetRunnerInfo(const std::string &operationName, const std::vector<int64_t> &operationIds)
{
	operationName_ = operationName;
	runnerIds_ = operationIds;
}

#if ATB_GEN >= 81
void Runner::ChangeWorkspaceBufferByExecuteStream(RunnerVariantPack &runnerVariantPack)
{
	(void)runnerVariantPack;
}
#endif

Status Runner::ExecuteImpl(RunnerVariantPack &runnerVariantPack)
{
	(void)runnerVariantPack;
	return 0;
}

Status Runner::Execute(RunnerVariantPack &runnerVariantPack)
{
#if ATB_GEN < 81
	if (!runnerVariantPack.context || !runnerVariantPack.context->stream)
		return ERROR_INVALID_PARAM;
#endif
	if (saveTensorFlag_ && !tensorDir_.empty())
		logPrefix_ = tensorDir_ + "/before";
	Status st = ExecuteImpl(runnerVariantPack);

	executeCount_++;
	if (st) {
		logPrefix_ = name_ + " Execute Failed";
		return st;
	}
	return 0;
}

AclnnRunner::AclnnRunner(const std::string &name) : Runner(name)
{
}

AclnnRunner::~AclnnRunner()
{
}

Status AclnnRunner::ExecuteImpl(RunnerVariantPack &runnerVariantPack)
{
	return runnerVariantPack.context ? 0 : ERROR_INVALID_PARAM;
}

/* ---- kernels ---- */

MkiNodeImplement::MkiNodeImplement(Mki::Kernel *kernel) : kernel_(kernel)
{
}

MkiNodeImplement::~MkiNodeImplement()
{
}

std::string MkiNodeImplement::GetName() const
{
	return kernel_->GetName();
}

Status MkiNodeImplement::Run(void *stream)
{
	runInfo_.stream = stream;
	Mki::Status st = argsDeviceBuffer_ ? kernel_->RunWithArgs(argsDeviceBuffer_, stream, true)
					   : kernel_->Run(launchParam_, runInfo_);

	return st.Ok() ? 0 : ERROR_RT_FAIL;
}

OpsRunner::OpsRunner(const std::string &name) : Runner(name)
{
}

OpsRunner::~OpsRunner()
{
}

void OpsRunner::AddKernel(const std::string &name, Mki::Trouble trouble)
{
	nodes_.emplace_back(new KernelGraphNode());
	nodes_.back()->opDesc.opName = "SomeOperation";
	nodes_.back()->impl = std::make_shared<MkiNodeImplement>(new Mki::KernelBase(name, trouble));
}

static void Take(Mki::SVector<Mki::Tensor> &to, const SVector<Tensor> &from)
{
	to.size = 0;
	for (size_t i = 0; i < from.size() && i < 48; i++) {
		const Tensor &t = from.at(i);
		Mki::Tensor k;

		k.desc.dtype = t.dtype;
		k.desc.format = t.format;
		for (size_t j = 0; j < t.dimNum; j++)
			k.desc.dims.push_back(t.dims[j]);
		k.data = t.deviceData;
		k.dataSize = t.dataSize;
		k.hostData = t.hostData;
		to.push_back(k);
	}
}

Status OpsRunner::ExecuteImpl(RunnerVariantPack &pack)
{
	static uint8_t args;

	for (auto &node : nodes_) {
		Take(node->impl->Param().GetInTensors(), pack.inTensors);
		Take(node->impl->Param().GetOutTensors(), pack.outTensors);
		node->impl->SetArgsDeviceBuffer(pack.context->withArgs ? &args : nullptr);
	}
#if ATB_GEN >= 82
	return RunAllKernel(pack);
#elif ATB_GEN >= 81
	return RunAllKernel(pack.context);
#else
	return RunAllKernel(*pack.context);
#endif
}

#if ATB_GEN >= 82
Status OpsRunner::RunAllKernel(RunnerVariantPack &pack)
#elif ATB_GEN >= 81
Status OpsRunner::RunAllKernel(ContextBase *context)
#else
Status OpsRunner::RunAllKernel(ContextBase &context)
#endif
{
	for (size_t i = 0; i < nodes_.size(); i++) {
#if ATB_GEN >= 82
		Status st = RunKernel(*nodes_[i], i, pack.context);
#else
		Status st = RunKernel(*nodes_[i], i, context);
#endif

		if (st)
			return st;
	}
	return 0;
}

#if ATB_GEN >= 81
Status OpsRunner::RunKernel(KernelGraphNode &node, size_t nodeId, ContextBase *context) const
{
	Status st = node.impl->Run(context->stream);
#else
Status OpsRunner::RunKernel(KernelGraphNode &node, size_t nodeId, ContextBase &context) const
{
	Status st = node.impl->Run(context.stream);
#endif

	if (st)
		return st;
	node.opDesc.opId = (int64_t)nodeId;
	return 0;
}

/* ---- graphs ---- */

GraphRunner::GraphRunner(const std::string &name) : Runner(name)
{
}

GraphRunner::~GraphRunner()
{
	for (OperationBase *op : nodes_)
		delete op;
}

void GraphRunner::AddNode(OperationBase *op)
{
	nodes_.push_back(op);
}

void GraphRunner::SetNodeInfo(const std::vector<int64_t> &ids)
{
	for (size_t i = 0; i < nodes_.size(); i++) {
		std::vector<int64_t> own = ids;
		Runner *r = nodes_[i]->GetRunner();

		own.push_back((int64_t)i);
		r->SetRunnerInfo(nodes_[i]->GetName(), own);
		if (GraphRunner *g = dynamic_cast<GraphRunner *>(r))
			g->SetNodeInfo(own);
	}
}

void GraphRunner::SetSaveTensorDir(const std::string &tensorDir)
{
	tensorDir_ = tensorDir;
	for (size_t i = 0; i < nodes_.size(); i++)
		nodes_[i]->GetRunner()->SetSaveTensorDir(tensorDir + "/" + std::to_string(i) + "_" +
							 nodes_[i]->GetName());
}

Status GraphRunner::ExecuteImpl(RunnerVariantPack &runnerVariantPack)
{
	Status st = ExecuteAllRunner(runnerVariantPack);

	return st ? st : 0;
}

/* Its nodes have the tensors and the buffers of the graph. */
Status GraphRunner::ExecuteAllRunner(RunnerVariantPack &runnerVariantPack)
{
	for (OperationBase *op : nodes_) {
		std::unique_ptr<RunnerVariantPack> pack(new RunnerVariantPack());

		pack->inTensors = runnerVariantPack.inTensors;
		pack->outTensors = runnerVariantPack.outTensors;
		pack->workspaceBuffer = runnerVariantPack.workspaceBuffer;
		pack->workspaceBufferSize = runnerVariantPack.workspaceBufferSize;
		pack->context = runnerVariantPack.context;
		Status st = op->GetRunner()->Execute(*pack);

		if (st)
			return st;
	}
	return 0;
}

/* ---- operations ---- */

OperationBase::OperationBase(const std::string &name, Runner *runner)
	: name_(name), operationBaseIds_{ -1 }, runner_(runner)
{
}

OperationBase::~OperationBase()
{
}

std::string OperationBase::GetName() const
{
	return name_;
}

void OperationBase::SetSaveTensorDir()
{
	int32_t device = -1;

	aclrtGetDevice(&device);
	runner_->SetSaveTensorDir(std::to_string(device) + "_" + std::to_string(getpid()) + "/" +
				  std::to_string(executeCount_) + "/" +
				  std::to_string(operationBaseIds_.back()) + "_" + name_);
}

Status OperationBase::Setup(const VariantPack &variantPack, uint64_t &workspaceSize, Context *context)
{
	static std::atomic<int64_t> next;
	static const bool dump = getenv("SIM_ATB_DUMP");

	if (!numbered_) {
		numbered_ = true;
		operationBaseIds_[0] = next++;
		runner_->SetRunnerInfo(name_, operationBaseIds_);
		if (GraphRunner *g = dynamic_cast<GraphRunner *>(runner_.get()))
			g->SetNodeInfo(operationBaseIds_);
	}
	if (dump)
		SetSaveTensorDir();
	runnerVariantPack_.context = dynamic_cast<ContextBase *>(context);
	if (!runnerVariantPack_.context || variantPack.inTensors.size() > 256)
		return ERROR_INVALID_PARAM;
	workspaceSize = 1 << 20;
	return 0;
}

/* What is thrown inside ends here. */
Status OperationBase::Launch()
{
	try {
		return runner_->Execute(runnerVariantPack_);
	} catch (const std::exception &) {
		return ERROR_RT_FAIL;
	}
}

#if ATB_GEN >= 82
Status MstxMemRegister::MstxHeapRegister(void *workspace, uint64_t workspaceSize)
{
	/* mstxMemHeapRegister gives nothing without a tool inside. */
	return workspace && workspaceSize ? ERROR_INTERNAL : ERROR_INVALID_PARAM;
}
#endif

Status OperationBase::Execute(const VariantPack &variantPack, uint8_t *workspace, uint64_t workspaceSize,
			      Context *context)
{
	uint64_t t0 = sim_truth_begin();
#if ATB_GEN >= 82
	static thread_local bool mstx = true;
	MstxMemRegister reg;

	if (workspaceSize && mstx)
		mstx = !reg.MstxHeapRegister(workspace, workspaceSize);
#endif
	if (context != runnerVariantPack_.context)
		return ERROR_INVALID_PARAM;
	runnerVariantPack_.inTensors = variantPack.inTensors;
	runnerVariantPack_.outTensors = variantPack.outTensors;
	runnerVariantPack_.workspaceBuffer = workspace;
	runnerVariantPack_.workspaceBufferSize = workspaceSize / 4 * 3;
	runnerVariantPack_.intermediateBuffer = workspace + workspaceSize / 4 * 3;
	runnerVariantPack_.intermediateBufferSize = workspaceSize / 4;
	Status st = Launch();

	executeCount_++;
	if (t0) {
		sim_truth_rec r = {};

		r.fn = "atb_execute";
		r.name = name_.c_str();
		r.t0 = t0;
		r.t1 = sim_truth_now();
		r.ret = st;
		r.out = reinterpret_cast<uintptr_t>(workspace);
		r.size = workspaceSize;
		r.stream = reinterpret_cast<uintptr_t>(runnerVariantPack_.context->stream);
		r.nargs = 2;
		r.args[0] = variantPack.inTensors.size();
		r.args[1] = variantPack.outTensors.size();
		r.has = SIM_T_OUT | SIM_T_SIZE | SIM_T_STREAM;
		sim_truth_put(&r);
	}
	return st;
}

Status CreateContext(Context **context)
{
	*context = new ContextBase();
	return 0;
}

Status DestroyContext(Context *context)
{
	delete context;
	return 0;
}

Status DestroyOperation(Operation *operation)
{
	delete operation;
	return 0;
}

} // namespace atb
