// SPDX-License-Identifier: Apache-2.0
/* Simulated libatb.so: one operation that runs its runners and kernels through the real call names.
 */
#include "rt.h"
#include "../truth/sim_truth.h"

#include <cstdint>
#include <cstring>
#include <string>

/* Layouts of ATB 8.2 and later, as far as a tracer reads them. */
namespace atb
{

struct Tensor {
	int32_t dtype, format;
	int64_t dims[8];
	uint64_t dimNum;
	void *deviceData;
	void *hostData;
	uint64_t dataSize;
};
static_assert(sizeof(Tensor) == 104, "ATB's Tensor");

struct TensorVector { /* SVector<Tensor> */
	uint64_t capacity;
	uint64_t size;
	Tensor inlined[65];
	Tensor *heap;
};
static_assert(sizeof(TensorVector) == 6784, "ATB's SVector<Tensor>");

struct VariantPack {
	TensorVector in, out;
};

class RunnerVariantPack
{
      public:
	TensorVector in, out;
	uint8_t tiling[200];
	uint8_t *tilingBuffer;
	uint64_t tilingBufferSize;
	uint8_t *workspaceBuffer;
	uint64_t workspaceBufferSize;
	uint8_t *intermediateBuffer;
	uint64_t intermediateBufferSize;
};

static_assert(sizeof(RunnerVariantPack) == 13816, "ATB 8.2");

class Context
{
      public:
	virtual ~Context();
	void *stream;
};
Context::~Context()
{
}

class Operation
{
      public:
	virtual ~Operation();
};
Operation::~Operation()
{
}

namespace
{

const void *const STUB = "atb kernel stub";

void RegisterKernel()
{
	static const bool done = [] {
		rtDevBinary_t bin = {};
		void *hdl = nullptr;

		rtDevBinaryRegister(&bin, &hdl);
		rtFunctionRegister(hdl, STUB, "LayernormF16Kernel", "LayernormF16Kernel", 0);
		return true;
	}();
	(void)done;
}

} // namespace

class MkiNodeImplement
{
      public:
	int32_t Run(void *stream);
};

int32_t MkiNodeImplement::Run(void *stream)
{
	RegisterKernel();
	return rtKernelLaunch(STUB, 8, nullptr, 0, nullptr, stream);
}

class Runner
{
      public:
	explicit Runner(const char *name);
	virtual ~Runner();
	virtual int32_t Execute(RunnerVariantPack &pack);
	void *stream = nullptr;
	uint8_t room[88];
	std::string name_;
};

Runner::Runner(const char *name) : name_(name)
{
	memset(room, 0, sizeof(room));
}

Runner::~Runner()
{
}

int32_t Runner::Execute(RunnerVariantPack &pack)
{
	MkiNodeImplement node;

	(void)pack;
	return node.Run(stream);
}

/* The name is a char* at +8. */
class OperationBase : public Operation
{
      public:
	explicit OperationBase(const char *name);
	~OperationBase() override;
	int32_t Setup(const VariantPack &pack, uint64_t &workspaceSize, Context *context);
	int32_t Execute(const VariantPack &pack, uint8_t *workspace, uint64_t workspaceSize,
			Context *context);
	std::string name_;
	Runner runner_;
};

OperationBase::OperationBase(const char *name) : name_(name), runner_("LayerNormOpsRunner")
{
}

OperationBase::~OperationBase()
{
}

int32_t OperationBase::Setup(const VariantPack &pack, uint64_t &workspaceSize, Context *context)
{
	(void)context;
	if (pack.in.size > 64)
		return 1;
	workspaceSize = 1 << 20;
	return 0;
}

int32_t OperationBase::Execute(const VariantPack &pack, uint8_t *workspace, uint64_t workspaceSize,
			       Context *context)
{
	uint64_t t0 = sim_truth_begin();
	static thread_local RunnerVariantPack rvp;

	rvp.in = pack.in;
	rvp.out = pack.out;
	rvp.workspaceBuffer = workspace;
	rvp.workspaceBufferSize = workspaceSize;
	runner_.stream = context->stream;
	int32_t rc = runner_.Execute(rvp);

	if (t0) {
		sim_truth_rec r = {};

		r.fn = "atb_execute";
		r.name = name_.c_str();
		r.t0 = t0;
		r.t1 = sim_truth_now();
		r.ret = rc;
		r.out = reinterpret_cast<uintptr_t>(workspace);
		r.size = workspaceSize;
		r.stream = reinterpret_cast<uintptr_t>(context->stream);
		r.nargs = 2;
		r.args[0] = pack.in.size;
		r.args[1] = pack.out.size;
		r.has = SIM_T_OUT | SIM_T_SIZE | SIM_T_STREAM;
		sim_truth_put(&r);
	}
	return rc;
}

int32_t CreateContext(Context **out)
{
	*out = new Context;
	(*out)->stream = nullptr;
	return 0;
}

int32_t DestroyContext(Context *c)
{
	delete c;
	return 0;
}

int32_t DestroyOperation(Operation *op)
{
	delete op;
	return 0;
}

} // namespace atb

/* For the driver, which is C: run one operation on tensors at the given addresses. */
extern "C" int sim_atb_run(void *stream, void *workspace, uint64_t size, void *in, void *out,
			   uint64_t bytes)
{
	static thread_local atb::VariantPack pack;
	static thread_local atb::OperationBase *op;
	atb::Context *c = nullptr;
	uint64_t need = 0;

	if (!op)
		op = new atb::OperationBase("LayerNormOperation");
	atb::CreateContext(&c);
	c->stream = stream;
	pack.in.size = pack.out.size = 1;
	pack.in.inlined[0].deviceData = in;
	pack.out.inlined[0].deviceData = out;
	pack.in.inlined[0].dataSize = pack.out.inlined[0].dataSize = bytes;
	int rc = op->Setup(pack, need, c);

	if (!rc)
		rc = op->Execute(pack, static_cast<uint8_t *>(workspace), size, c);
	atb::DestroyContext(c);
	return rc;
}
