// SPDX-License-Identifier: Apache-2.0
/* Simulated libopapi.so: the two phases of each operator in OPAPI_LIST. */
#include "nnopbase.h"

#include <cstdarg>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#define API extern "C" __attribute__((visibility("default")))

namespace
{

/* SIM_WS_BYTES=65536,aclnnAdd:3000000,aclnnMul:0 - of all operators, but for those that are named.
 */
struct Workspaces {
	uint64_t all = 0;
	std::map<std::string, uint64_t> named;

	Workspaces()
	{
		const char *e = getenv("SIM_WS_BYTES");
		std::istringstream list(e ? e : "");

		for (std::string item; std::getline(list, item, ',');) {
			size_t colon = item.find(':');

			if (colon == std::string::npos)
				all = strtoull(item.c_str(), nullptr, 0);
			else
				named[item.substr(0, colon)] = strtoull(item.c_str() + colon + 1,
									nullptr, 0);
		}
	}
};

uint64_t WorkspaceBytes(const char *name)
{
	static const Workspaces w;
	auto i = w.named.find(name);

	return i == w.named.end() ? w.all : i->second;
}

/*
 * Operators differ in their parameters, but all end with (uint64_t *workspaceSize,
 * aclOpExecutor **executor). Both point to zeroed variables on the caller's stack: the first such
 * adjacent pair is it.
 */
int Plan(aclOpExecutor *x, const uint64_t *w, int n)
{
	const uint64_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
	const uint64_t top = here + (4ULL << 20);

	for (int i = 0; i + 1 < n; i++) {
		uint64_t p = w[i], q = w[i + 1];

		if (p == q || p <= here || p >= top || q <= here || q >= top || (p & 7) || (q & 7))
			continue;
		auto *size = reinterpret_cast<uint64_t *>(p);
		auto **ex = reinterpret_cast<aclOpExecutor **>(q);

		if (*size || *ex)
			continue;
		*size = WorkspaceBytes(x->name);
		*ex = x;
		return InitL2Phase1Context(x->name, ex);
	}
	return 561103;
}

#define WORDS 46

} // namespace

/*
 * A function that is called with a fixed list of arguments can read them as variadic ones: on both
 * ABIs the integers come first from the registers, then from the stack.
 */
#define OP(name)                                                                     \
	static aclOpExecutor exec_##name = { #name, nullptr, nullptr };              \
	API int name##GetWorkspaceSize(uint64_t first, ...)                          \
	{                                                                            \
		uint64_t w[WORDS] = { first };                                       \
		va_list ap;                                                          \
		va_start(ap, first);                                                 \
		for (int i = 1; i < WORDS; i++)                                      \
			w[i] = va_arg(ap, uint64_t);                                 \
		va_end(ap);                                                          \
		return Plan(&exec_##name, w, WORDS);                                 \
	}                                                                            \
	API int name(void *ws, uint64_t size, aclOpExecutor *executor, void *stream) \
	{                                                                            \
		aclOpExecutor *x = executor ? executor : &exec_##name;               \
		int rc = InitL2Phase2Context(#name, x);                              \
		if (rc)                                                              \
			return rc;                                                   \
		rc = CommonOpExecutorRun(ws, size, x, stream);                       \
		return rc ? 561000 + (rc & 0xff) : 0;                                \
	}

#include OPAPI_LIST
