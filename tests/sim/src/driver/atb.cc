// SPDX-License-Identifier: Apache-2.0
/*
 * sim-atb-GENERATION-ABI [ROUNDS [THREADS [many]]]: runs operations of the simulated ATB and
 * writes to standard output what a tool inside would see of them, one line a row, each thread
 * for itself. Prints READY and waits for a line before the first, prints DONE and waits for one
 * at the end. "many": more tensors than a tracer looks at.
 */
#include "../atb/atb.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <sys/syscall.h>

extern "C" {
int32_t aclInit(const char *config);
int32_t aclrtSetDevice(int32_t device);
int32_t aclrtCreateStream(void **stream);
int32_t aclFinalize(void);
}

using Mki::Trouble;

namespace
{

constexpr uint64_t WORKSPACE_SIZE = 4096;
constexpr size_t LOOKED_AT = 128, MKI_ROOM = 48;

struct KernelSpec {
	std::string name;
	Trouble trouble = Trouble::NONE;
};

/* An operation: a graph of others, or one with kernels, or one without. */
struct Spec {
	std::string name;
	std::vector<KernelSpec> kernels;
	std::vector<Spec> nodes;
};

atb::OperationBase *Build(const Spec &spec)
{
	if (!spec.nodes.empty()) {
		atb::GraphRunner *g = new atb::GraphRunner(spec.name + "GraphRunner");

		for (const Spec &n : spec.nodes)
			g->AddNode(Build(n));
		return new atb::OperationBase(spec.name, g);
	}
	if (spec.kernels.empty())
		return new atb::OperationBase(spec.name, new atb::AclnnRunner(spec.name + "AclnnRunner"));
	atb::OpsRunner *r = new atb::OpsRunner(spec.name + "OpsRunner");

	for (const KernelSpec &k : spec.kernels)
		r->AddKernel(k.name, k.trouble);
	return new atb::OperationBase(spec.name, r);
}

/* What one thread has to say. */
struct Said {
	std::string text;
	long tid = 0;

	__attribute__((format(printf, 2, 3))) void Line(const char *format, ...)
	{
		char buf[2048];
		va_list ap;

		va_start(ap, format);
		vsnprintf(buf, sizeof(buf), format, ap);
		va_end(ap);
		text += std::to_string(tid) + " " + buf + "\n";
	}
};

const char *const ACL_TYPES[] = { "FLOAT", "FLOAT16", "INT8", "INT32" };

void SayTensor(Said &said, const atb::Tensor &t, const std::string &name, bool write, bool kernel)
{
	const char *format = t.format == 2 ? "ND" : t.format == 29 ? "FRACTAL_NZ" : "UNDEFINED";
	std::string type = t.dtype >= 0 && t.dtype < 4 ? ACL_TYPES[t.dtype] : "UNDEFINED", shape = "[";

	for (size_t i = 0; i < t.dimNum; i++)
		shape += std::to_string(t.dims[i]) + ",";
	type = (kernel ? "TENSOR_DTYPE_" : type == "UNDEFINED" ? "ACL_DT_" : "ACL_") + type;
	said.Line("%s %s %" PRIuPTR " %" PRIu64 " %s %s_%s %s]", write ? "WRITE" : "UNKNOWN", name.c_str(),
		  reinterpret_cast<uintptr_t>(t.deviceData), t.dataSize, type.c_str(),
		  kernel ? "TENSOR_FORMAT" : "ACL_FORMAT", format, shape.c_str());
}

void SayTensors(Said &said, const atb::VariantPack &pack, const std::string &name, bool kernel)
{
	size_t room = kernel ? MKI_ROOM : 256, n = 0;

	for (size_t i = 0; i < pack.inTensors.size() && i < room && n < LOOKED_AT; i++, n++)
		SayTensor(said, pack.inTensors.at(i), name, false, kernel);
	for (size_t i = 0; i < pack.outTensors.size() && i < room && n < LOOKED_AT; i++, n++)
		SayTensor(said, pack.outTensors.at(i), name, true, kernel);
}

/* One execution of a runner: what it ends with. */
Trouble Say(Said &said, const Spec &spec, const std::string &path, const void *ws, uint64_t size, uint64_t inner,
	    const atb::VariantPack &pack, bool args)
{
	Trouble trouble = Trouble::NONE;
	char at[24];
	size_t i = 0;

	snprintf(at, sizeof(at), ws ? "%p" : "0", ws);
	said.Line("ATB_START %s %s %s %" PRIu64, spec.name.c_str(), path.c_str(), at, size);
	SayTensors(said, pack, spec.name, false);
	for (const Spec &n : spec.nodes) {
		trouble = Say(said, n, path + "/" + std::to_string(i++) + "_" + n.name, ws, inner, inner, pack, args);
		if (trouble != Trouble::NONE)
			break;
	}
	for (const KernelSpec &k : spec.kernels) {
		std::string name = std::to_string(i++) + "_" + k.name;

		said.Line("KERNEL_START %s %s/%s/before", name.c_str(), path.c_str(), name.c_str());
		if (!args)
			SayTensors(said, pack, name, true);
		trouble = k.trouble;
		if (trouble != Trouble::NONE)
			break;
		said.Line("KERNEL_END %s %s/%s/after", name.c_str(), path.c_str(), name.c_str());
		if (!args)
			SayTensors(said, pack, name, true);
	}
	if (trouble == Trouble::THROWS)
		return trouble;
	said.Line("ATB_END %s %s %s %" PRIu64, spec.name.c_str(), path.c_str(), at, size);
	SayTensors(said, pack, spec.name, false);
	return trouble;
}

const Spec ADD = { "ElewiseOperation", { { "AddF16Kernel" }, { "CastF16F32Kernel" } }, {} };
const Spec LINEAR = { "LinearOperation", {}, {} };
const Spec LAYER = { "LayerOperation", {}, { LINEAR, { "RopeOperation", { { "RopeKernel" } }, {} } } };
const Spec GRAPH = { "DecoderLayer", {}, { ADD, LAYER, LINEAR, ADD } };
const Spec FAILS = { "BadOperation", { { "FineKernel" }, { "BadKernel", Trouble::FAILS }, { "NeverKernel" } }, {} };
const Spec FAILS_INSIDE = { "BadGraph", {}, { ADD, FAILS, ADD } };
const Spec THROWS = { "ThrowingOperation", { { "ThrowingKernel", Trouble::THROWS } }, {} };
const Spec THROWS_INSIDE = { "ThrowingGraph", {}, { ADD, THROWS, ADD } };
const Spec LONG = { "A" + std::string(90, 'x') + "Operation", { { "LongKernel" } }, {} };

const Spec *const ALL[] = { &ADD, &LINEAR, &GRAPH, &FAILS, &FAILS_INSIDE, &THROWS, &THROWS_INSIDE, &LONG };

atb::Tensor TensorAt(uint64_t address, std::initializer_list<int64_t> shape, int32_t dtype, int32_t format)
{
	static const int bytes[] = { 4, 2, 1, 4 };
	atb::Tensor t = {};

	t.dtype = dtype;
	t.format = format;
	t.dataSize = dtype >= 0 && dtype < 4 ? (uint64_t)bytes[dtype] : 1;
	for (int64_t n : shape) {
		t.dims[t.dimNum++] = n;
		t.dataSize *= (uint64_t)n;
	}
	t.deviceData = reinterpret_cast<void *>(address);
	return t;
}

struct Worker {
	Said said;
	int device = 0;
	std::vector<atb::OperationBase *> ops;
	std::vector<int64_t> ids;
	atb::Context *context = nullptr;
	uint8_t *workspace = nullptr;
	std::unique_ptr<atb::VariantPack> pack;

	void Prepare(int number, bool many, int64_t *next)
	{
		uint64_t base = 0x12c041200000 + ((uint64_t)number << 24), need = 0;

		device = number;
		workspace = reinterpret_cast<uint8_t *>(base + 0x800000);
		pack.reset(new atb::VariantPack());
		pack->inTensors.reserve(many ? 100 : 2);
		pack->outTensors.reserve(many ? 100 : 2);
		pack->inTensors.push_back(TensorAt(base, { 2, 3 }, 1, 2));
		pack->inTensors.push_back(TensorAt(base + 4096, { 1, 2, 3, 4, 1, 2, 1, 2 }, 0, 29));
		pack->inTensors.push_back(TensorAt(0, { 4 }, 3, 2)); /* of the host */
		/* in the workspace */
		pack->outTensors.push_back(TensorAt(base + 0x800100, { 16 }, 2, 2));
		pack->outTensors.push_back(TensorAt(base + 8192, {}, 99, -1));
		for (int i = 0; many && i < 90; i++) {
			pack->inTensors.push_back(TensorAt(base + 16384 + (uint64_t)i * 512, { 8, i }, 1, 2));
			pack->outTensors.push_back(TensorAt(base + 65536 + (uint64_t)i * 512, { i }, 0, 2));
		}
		atb::CreateContext(&context);
		for (const Spec *s : ALL) {
			ops.push_back(Build(*s));
			ids.push_back((*next)++);
			ops.back()->Setup(*pack, need, context);
		}
	}

	void Run(int rounds)
	{
		atb::ContextBase *c = static_cast<atb::ContextBase *>(context);

		aclrtSetDevice(device);
		aclrtCreateStream(&c->stream);
		said.tid = syscall(SYS_gettid);
		for (int round = 0; round < rounds; round++)
			for (size_t i = 0; i < ops.size(); i++)
				One(i, round, round == 1);
	}

	/* Every third has no workspace. */
	void One(size_t i, int round, bool args)
	{
		uint64_t size = (i + (size_t)round) % 3 == 2 ? 0 : WORKSPACE_SIZE, need = 0;
		uint8_t *ws = size ? workspace : nullptr;
		std::string path = std::to_string(device) + "_" + std::to_string(getpid()) + "/" +
				   std::to_string(round) + "/" + std::to_string(ids[i]) + "_" + ALL[i]->name;
		Trouble trouble;

#if ATB_GEN >= 82
		static_cast<atb::ContextBase *>(context)->withArgs = args;
#else
		args = false;
#endif
		/* As with ATB's dump off: an execution that was left does not count in the runner. */
		if (thrown.size() <= i)
			thrown.resize(i + 1);
		if (!getenv("SIM_ATB_DUMP"))
			path = std::to_string(device) + "_" + std::to_string(getpid()) + "/" +
			       std::to_string(round - thrown[i]) + "/" + std::to_string(ids[i]) + "_" + ALL[i]->name;
		if (size)
			said.Line("MALLOC %" PRIuPTR " %" PRIu64, reinterpret_cast<uintptr_t>(ws), size);
		trouble = Say(said, *ALL[i], path, ws, size, size / 4 * 3, *pack, args);
		thrown[i] += trouble == Trouble::THROWS;
		if (size)
			said.Line("FREE %" PRIuPTR " %" PRIu64, reinterpret_cast<uintptr_t>(ws), size);
		ops[i]->Setup(*pack, need, context);
		if (!ops[i]->Execute(*pack, ws, size, context) != (trouble == Trouble::NONE)) {
			fprintf(stderr, "sim-atb: %s ended as it should not\n", ALL[i]->name.c_str());
			_exit(1);
		}
	}

	std::vector<int> thrown;
};

} // namespace

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, threads = argc > 2 ? atoi(argv[2]) : 1;
	bool many = argc > 3 && !strcmp(argv[3], "many");
	std::vector<std::unique_ptr<Worker>> workers;
	std::vector<std::thread> running;
	int64_t next = 0;

	aclInit(nullptr);
	aclrtSetDevice(0);
	for (int i = 0; i < threads; i++) {
		workers.emplace_back(new Worker());
		workers.back()->Prepare(i, many, &next);
	}
	fprintf(stderr, "READY\n");
	(void)getchar();
	for (auto &w : workers)
		running.emplace_back([&w, rounds] { w->Run(rounds); });
	for (std::thread &t : running)
		t.join();
	for (auto &w : workers)
		fputs(w->said.text.c_str(), stdout);
	fflush(stdout);
	fprintf(stderr, "DONE\n");
	(void)getchar();
	aclFinalize();
	return 0;
}
