// SPDX-License-Identifier: Apache-2.0
/* Simulated libnnopbase.so: runs an executor by one launch, through ACL or the older runtime call.
 */
#include "nnopbase.h"
#include "acl.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

/* C++ symbols of the real engine have default visibility and C++ names. */

namespace
{

std::mutex lock;

bool OldRuntimePath()
{
	static const bool old = [] {
		const char *e = getenv("SIM_OP_LAUNCH");
		return e && !strcmp(e, "rt");
	}();

	return old;
}

const uint64_t KEY = 1;

/* "aclnnAdd" runs the kernel "Add_<hash>_high_performance_1", as generated kernels are called. */
int Prepare(aclOpExecutor *x)
{
	std::lock_guard<std::mutex> g(lock);

	if (x->func)
		return 0;
	std::string op = !strncmp(x->name, "aclnn", 5) ? x->name + 5 : x->name;
	uint64_t h = 0xcbf29ce484222325ULL;

	for (char c : op)
		h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
	char hex[17];
	snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(h));
	std::string name = op + "_" + hex + "_high_performance_1";
	std::string text = std::to_string(KEY) + " " + name + "\n";
	void *bin = nullptr, *func = nullptr;
	int rc = aclrtBinaryLoadFromData(text.data(), text.size(), nullptr, &bin);

	if (!rc)
		rc = aclrtBinaryGetFunction(bin, name.c_str(), &func);
	if (rc)
		return rc;
	x->program = bin;
	__atomic_store_n(&x->func, func, __ATOMIC_RELEASE);
	return 0;
}

} // namespace

int InitL2Phase1Context(const char *name, aclOpExecutor **executor)
{
	return name && executor ? 0 : 561000;
}

int InitL2Phase2Context(const char *name, aclOpExecutor *executor)
{
	return name && executor ? 0 : 561000;
}

static int Run(void *workspace, uint64_t size, aclOpExecutor *executor, void *stream)
{
	uint64_t args[8] = { reinterpret_cast<uintptr_t>(workspace), size };

	if (!__atomic_load_n(&executor->func, __ATOMIC_ACQUIRE)) {
		int rc = Prepare(executor);

		if (rc)
			return rc;
	}
	if (OldRuntimePath()) {
		rtArgsEx_t ex = {};

		ex.args = args;
		ex.argsSize = sizeof(args);
		return rtKernelLaunchWithHandleV2(executor->program, KEY, 24, &ex, nullptr, stream,
						  nullptr);
	}
	return aclrtLaunchKernelWithHostArgs(executor->func, 24, stream, nullptr, args,
					     sizeof(args), nullptr, 0);
}

int CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *executor, void *stream)
{
	uint64_t t0 = sim_truth_begin();
	int rc = Run(workspace, size, executor, stream);

	if (t0) {
		sim_truth_rec r = {};

		r.fn = "CommonOpExecutorRun";
		r.name = executor->name;
		r.t0 = t0;
		r.t1 = sim_truth_now();
		r.ret = rc;
		r.nargs = 4;
		r.args[0] = reinterpret_cast<uintptr_t>(workspace);
		r.args[1] = size;
		r.args[2] = reinterpret_cast<uintptr_t>(executor);
		r.args[3] = reinterpret_cast<uintptr_t>(stream);
		r.stream = reinterpret_cast<uintptr_t>(stream);
		r.has = SIM_T_STREAM;
		sim_truth_put(&r);
	}
	return rc;
}

extern "C" int NnopbaseRunWithWorkspace(aclOpExecutor *executor, void *stream, void *ws,
					uint64_t size)
{
	return CommonOpExecutorRun(ws, size, executor, stream);
}
