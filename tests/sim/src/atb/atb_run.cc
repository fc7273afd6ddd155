// SPDX-License-Identifier: Apache-2.0
/* For sim-train, which is C: run one operation on tensors at the given addresses. */
#include "atb.h"

extern "C" int sim_atb_run(void *stream, void *workspace, uint64_t size, void *in, void *out, uint64_t bytes)
{
	static thread_local atb::OperationBase *op;
	static thread_local atb::ContextBase *context;
	atb::VariantPack *pack = new atb::VariantPack();
	atb::Tensor t = { 1, 2, { 1, static_cast<int64_t>(bytes / 2) }, 2, in, nullptr, bytes };
	uint64_t need = 0;

	if (!op) {
		atb::OpsRunner *runner = new atb::OpsRunner("LayerNormOpsRunner");

		runner->AddKernel("LayernormF16Kernel", Mki::Trouble::NONE);
		op = new atb::OperationBase("LayerNormOperation", runner);
		context = new atb::ContextBase();
	}
	context->stream = stream;
	pack->inTensors.push_back(t);
	t.deviceData = out;
	pack->outTensors.push_back(t);
	int rc = op->Setup(*pack, need, context);

	if (!rc)
		rc = op->Execute(*pack, static_cast<uint8_t *>(workspace), size, context);
	delete pack;
	return rc;
}
