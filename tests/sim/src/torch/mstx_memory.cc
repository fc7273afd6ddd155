// SPDX-License-Identifier: Apache-2.0
/* As MstxMgr of the real one: heap = all that is reserved, a region for each block. */
#include "mstx_memory.h"
#include "../cann/mstx.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <unordered_map>

namespace torch_npu
{
namespace mstx_memory
{

static bool names_the_hook(const std::string &preload)
{
	static const char name[] = "libascend_kernel_hook.so";

	for (size_t at = 0; at <= preload.size();) {
		size_t end = preload.find_first_of(": ", at);
		std::string one = preload.substr(at, end == std::string::npos ? end : end - at);
		char real[PATH_MAX];

		if (realpath(one.c_str(), real)) {
			std::string r = real;

			if (r.size() >= sizeof(name) - 1 &&
			    !r.compare(r.size() - (sizeof(name) - 1), std::string::npos, name))
				return true;
		}
		if (end == std::string::npos)
			break;
		at = end + 1;
	}
	return false;
}

bool enabled()
{
	static const bool on = [] {
		const char *preload = getenv("LD_PRELOAD");

		return preload && names_the_hook(preload);
	}();

	return on;
}

namespace
{

struct Api {
	decltype(&mstxDomainCreateA) domain;
	decltype(&mstxMemHeapRegister) heap;
	decltype(&mstxMemHeapUnregister) heap_end;
	decltype(&mstxMemRegionsRegister) regions;
	decltype(&mstxMemRegionsUnregister) regions_end;
	bool ok;

	template <typename F> void get(void *h, const char *name, F &f)
	{
		f = h ? reinterpret_cast<F>(dlsym(h, name)) : nullptr;
		ok = ok && f;
	}

	Api() : ok(true)
	{
		void *h = dlopen("libms_tools_ext.so", RTLD_LAZY);

		get(h, "mstxDomainCreateA", domain);
		get(h, "mstxMemHeapRegister", heap);
		get(h, "mstxMemHeapUnregister", heap_end);
		get(h, "mstxMemRegionsRegister", regions);
		get(h, "mstxMemRegionsUnregister", regions_end);
	}
};

struct Component {
	mstxDomainHandle_t domain = nullptr;
	std::unordered_map<int, std::pair<int64_t, mstxMemHeapHandle_t>> heaps;
};

} // namespace

void record(int component, int device, void *ptr, int64_t size, int64_t reserved)
{
	static Api &api = *new Api;
	static std::mutex &lock = *new std::mutex;
	static Component *components = new Component[2];
	std::lock_guard<std::mutex> g(lock);
	Component &c = components[component != 0];

	if (!api.ok)
		return;
	if (!c.domain)
		c.domain = api.domain(component ? "ptaWorkspace" : "ptaCaching");
	auto &heap = c.heaps[device];

	if (heap.first != reserved) {
		mstxMemVirtualRangeDesc_t range = { static_cast<uint32_t>(device), ptr,
						    static_cast<uint64_t>(reserved) };
		mstxMemHeapDesc_t desc = { 0, 0, &range };

		if (heap.second)
			api.heap_end(c.domain, heap.second);
		heap = { reserved, api.heap(c.domain, &desc) };
	}
	if (size > 0) {
		mstxMemVirtualRangeDesc_t range = { static_cast<uint32_t>(device), ptr,
						    static_cast<uint64_t>(size) };
		mstxMemRegionHandle_t out = nullptr;
		mstxMemRegionsRegisterBatch_t batch = { heap.second, 0, 1, &range, &out };

		api.regions(c.domain, &batch);
	} else {
		mstxMemRegionRef_t ref = {};
		mstxMemRegionsUnregisterBatch_t batch = { 1, &ref };

		ref.pointer = ptr;
		api.regions_end(c.domain, &batch);
	}
}

} // namespace mstx_memory
} // namespace torch_npu
