// SPDX-License-Identifier: Apache-2.0
/* Simulated runtime: device binaries, kernels, and the registration functions. */
#include "rt_objects.h"
#include "rt.h"
#include "../truth/sim_truth.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#define API __attribute__((visibility("default")))

namespace cce
{
namespace runtime
{

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(offsetof(Kernel, attr) == 12 && offsetof(Kernel, stub) == 16 &&
		      offsetof(Kernel, name) == 24,
	      "layout of the open runtime");
static_assert(offsetof(Program, table) == 8 && offsetof(Program, count) == 16 &&
		      offsetof(Program, fill) == 20,
	      "layout of the open runtime");
#pragma GCC diagnostic pop

namespace
{

std::shared_mutex lock;
std::unordered_set<const void *> programs, kernels;
std::unordered_map<const void *, Kernel *> stubs;
std::unordered_map<Kernel *, Wrapper *> wrapped;

/* SIM_RT_HANDLES=master: handles are small objects that begin with a magic word. */
bool MasterHandles()
{
	static const bool master = [] {
		const char *e = getenv("SIM_RT_HANDLES");
		return e && !strcmp(e, "master");
	}();

	return master;
}

} // namespace

Program::Program() : table(nullptr), count(0), fill(0)
{
}

Program::~Program()
{
	for (uint32_t i = 0; i < fill; i++) {
		kernels.erase(table[i].kernel);
		stubs.erase(table[i].kernel->stub);
		delete table[i].kernel;
	}
	free(table);
}

Kernel *Program::Add(uint64_t key, const std::string &name, const void *stub)
{
	uint32_t at = 0;

	if (fill == count) {
		uint32_t n = count ? count * 2 : 8;
		auto *t = static_cast<KernelTableEntry *>(realloc(table, n * sizeof(*table)));

		if (!t)
			return nullptr;
		table = t;
		count = n;
	}
	while (at < fill && table[at].tilingKey < key)
		at++;
	if (at < fill && table[at].tilingKey == key)
		return table[at].kernel;
	memmove(table + at + 1, table + at, (fill - at) * sizeof(*table));
	auto *k = new Kernel{ this, 0, 1, stub, name, key };

	table[at] = { key, k };
	fill++;
	kernels.insert(k);
	if (stub)
		stubs[stub] = k;
	return k;
}

Kernel *Program::Find(uint64_t key) const
{
	uint32_t lo = 0, hi = fill;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (table[mid].tilingKey < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < fill && table[lo].tilingKey == key ? table[lo].kernel : nullptr;
}

Kernel *Program::FindByName(const char *name) const
{
	for (uint32_t i = 0; i < fill; i++)
		if (table[i].kernel->name == name)
			return table[i].kernel;
	return nullptr;
}

/* "<key> <name>\n" each */
uint32_t Program::Load(const char *text, uint64_t length)
{
	std::string s(text, length);
	uint32_t n = 0;
	size_t at = 0;

	while (at < s.size()) {
		size_t end = s.find('\n', at);
		std::string line = s.substr(at, end == std::string::npos ? end : end - at);
		size_t sp = line.find(' ');

		if (sp != std::string::npos) {
			Add(strtoull(line.c_str(), nullptr, 0), line.substr(sp + 1), nullptr);
			n++;
		}
		if (end == std::string::npos)
			break;
		at = end + 1;
	}
	return n;
}

Kernel *ToKernel(const void *handle)
{
	std::shared_lock<std::shared_mutex> g(lock);

	if (!handle)
		return nullptr;
	if (MasterHandles()) {
		auto *w = static_cast<const Wrapper *>(handle);

		if (w->magic != FUNC_MAGIC)
			return nullptr;
		handle = w->object;
	}
	if (!kernels.count(handle))
		return nullptr;
	return static_cast<Kernel *>(const_cast<void *>(handle));
}

Program *ToProgram(const void *handle)
{
	std::shared_lock<std::shared_mutex> g(lock);

	if (!handle)
		return nullptr;
	if (MasterHandles()) {
		auto *w = static_cast<const Wrapper *>(handle);

		if (w->magic != BINH_MAGIC)
			return nullptr;
		handle = w->object;
	}
	if (!programs.count(handle))
		return nullptr;
	return static_cast<Program *>(const_cast<void *>(handle));
}

void *KernelHandle(Kernel *k)
{
	if (!MasterHandles())
		return k;
	std::unique_lock<std::shared_mutex> g(lock);
	Wrapper *&w = wrapped[k];

	if (!w)
		w = new Wrapper{ FUNC_MAGIC, k };
	return w;
}

Kernel *KernelOfStub(const void *stub)
{
	std::shared_lock<std::shared_mutex> g(lock);
	auto it = stubs.find(stub);

	return it == stubs.end() ? nullptr : it->second;
}

namespace
{

rtError_t NewProgram(const void *data, uint64_t length, void **hdl)
{
	auto *p = new Program;

	{
		std::unique_lock<std::shared_mutex> g(lock);

		programs.insert(p);
		if (data && length)
			p->Load(static_cast<const char *>(data), length);
	}
	*hdl = MasterHandles() ? static_cast<void *>(new Wrapper{ BINH_MAGIC, p }) : p;
	return RT_OK;
}

rtError_t DropProgram(void *hdl)
{
	Program *p = ToProgram(hdl);

	if (!p)
		return RT_ERR_INVALID_HANDLE;
	std::unique_lock<std::shared_mutex> g(lock);

	programs.erase(p);
	if (MasterHandles())
		delete static_cast<Wrapper *>(hdl);
	delete p;
	return RT_OK;
}

/* Key of a kernel that is registered by name alone. */
uint64_t NextKey(const Program *p)
{
	return p->fill ? p->table[p->fill - 1].tilingKey + 1 : 1;
}

} // namespace
} // namespace runtime
} // namespace cce

using namespace cce::runtime;

extern "C" {

API rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl)
{
	if (!bin || !hdl)
		return RT_ERR_PARAM_INVALID;
	return NewProgram(bin->data, bin->length, hdl);
}

API rtError_t rtRegisterAllKernel(const rtDevBinary_t *bin, void **hdl)
{
	return rtDevBinaryRegister(bin, hdl);
}

API rtError_t rtDevBinaryUnRegister(void *hdl)
{
	return DropProgram(hdl);
}

API rtError_t rtsBinaryLoadFromData(const void *data, uint64_t length, const void *cfg, void **hdl)
{
	(void)cfg;
	if (!data || !hdl)
		return RT_ERR_PARAM_INVALID;
	return NewProgram(data, length, hdl);
}

API rtError_t rtsBinaryUnload(void *hdl)
{
	return DropProgram(hdl);
}

static void NoteName(uint64_t t0, const char *fn, const void *bin, const void *key,
		     const char *name)
{
	if (!t0)
		return;
	sim_truth_rec r = {};

	r.fn = fn;
	r.name = name;
	r.t0 = t0;
	r.t1 = sim_truth_now();
	r.nargs = 2;
	r.args[0] = reinterpret_cast<uintptr_t>(bin);
	r.args[1] = reinterpret_cast<uintptr_t>(key);
	r.out = reinterpret_cast<uintptr_t>(key);
	r.has = SIM_T_OUT;
	sim_truth_put(&r);
}

API rtError_t rtFunctionRegister(void *bin, const void *stub, const char *stubName,
				 const void *kernelInfoExt, uint32_t mode)
{
	uint64_t t0 = sim_truth_begin();
	Program *p = ToProgram(bin);

	(void)mode;
	if (!p)
		return RT_ERR_INVALID_HANDLE;
	if (!stub || !stubName)
		return RT_ERR_PARAM_INVALID;
	{
		std::unique_lock<std::shared_mutex> g(lock);
		const char *info = static_cast<const char *>(kernelInfoExt);

		p->Add(NextKey(p), info ? info : stubName, stub);
	}
	NoteName(t0, "rtFunctionRegister", bin, stub, stubName);
	return RT_OK;
}

API rtError_t rtRegisterFuncSymbol(void *bin, const void *symbol, const char *kernelName,
				   const void *reserve)
{
	uint64_t t0 = sim_truth_begin();
	Program *p = ToProgram(bin);

	(void)reserve;
	if (!p)
		return RT_ERR_INVALID_HANDLE;
	{
		std::unique_lock<std::shared_mutex> g(lock);

		p->Add(NextKey(p), kernelName, symbol);
	}
	NoteName(t0, "rtRegisterFuncSymbol", bin, symbol, kernelName);
	return RT_OK;
}

API rtError_t rtsFuncGetByName(void *bin, const char *name, void **func)
{
	uint64_t t0 = sim_truth_begin();
	Program *p = ToProgram(bin);
	Kernel *k;

	if (!p)
		return RT_ERR_INVALID_HANDLE;
	{
		std::shared_lock<std::shared_mutex> g(lock);

		k = p->FindByName(name);
	}
	if (!k)
		return RT_ERR_PARAM_INVALID;
	*func = KernelHandle(k);
	NoteName(t0, "rtsFuncGetByName", bin, *func, name);
	return RT_OK;
}

API rtError_t rtsFuncGetByEntry(void *bin, uint64_t entry, void **func)
{
	Program *p = ToProgram(bin);
	Kernel *k = p ? p->Find(entry) : nullptr;

	if (!k)
		return p ? RT_ERR_PARAM_INVALID : RT_ERR_INVALID_HANDLE;
	*func = KernelHandle(k);
	return RT_OK;
}

API rtError_t rtsFuncGetName(const void *func, uint32_t maxLen, char *name)
{
	Kernel *k = ToKernel(func);

	if (!k)
		return RT_ERR_INVALID_HANDLE;
	if (maxLen <= k->name.size())
		return RT_ERR_PARAM_INVALID;
	snprintf(name, maxLen, "%s", k->name.c_str());
	return RT_OK;
}

} // extern "C"
