// SPDX-License-Identifier: Apache-2.0
/* The concrete pools: device memory mapped piecewise or in GiB, pinned host, plain host. */
#include "pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace mindspore
{
namespace device
{

namespace
{

/* MindSpore looks everything up at run time. */
struct Acl {
	int (*init)(const char *);
	int (*setDevice)(int32_t);
	int (*memInfo)(int, size_t *, size_t *);
	int (*malloc)(void **, size_t, int);
	int (*mallocHost)(void **, size_t);
	int (*reserve)(void **, size_t, size_t, void *, uint64_t);
	int (*physical)(void **, size_t, const void *, uint64_t);
	int (*map)(void *, size_t, size_t, void *, uint64_t);
};

template <typename F> void Get(void *h, const char *name, F *out)
{
	*out = reinterpret_cast<F>(dlsym(h, name));
	if (!*out)
		abort();
}

const Acl &Api()
{
	static const Acl acl = [] {
		Acl a;
		void *h = dlopen("libascendcl.so", RTLD_NOW);

		if (!h)
			abort();
		Get(h, "aclInit", &a.init);
		Get(h, "aclrtSetDevice", &a.setDevice);
		Get(h, "aclrtGetMemInfo", &a.memInfo);
		Get(h, "aclrtMalloc", &a.malloc);
		Get(h, "aclrtMallocHost", &a.mallocHost);
		Get(h, "aclrtReserveMemAddress", &a.reserve);
		Get(h, "aclrtMallocPhysical", &a.physical);
		Get(h, "aclrtMapMem", &a.map);
		return a;
	}();

	return acl;
}

/* aclrtPhysicalMemProp */
struct PhysicalProp {
	int32_t handle_type, alloc_type, attr;
	uint32_t id;
	int32_t type;
	uint64_t reserve;
};

constexpr size_t kBlock = 1UL << 30;

/* Physical handles that are mapped, of all pools. */
struct Mapped {
	size_t granule = 2UL << 20, handles = 0;
} mapped;

/* The default: one reservation of the whole device, then 2 MiB handles. */
class VmmAllocator : public MemBufAllocator
{
      public:
	explicit VmmAllocator(int device) : device_(device)
	{
	}

      protected:
	void *Expand(size_t size, size_t *got) override
	{
		size_t left = 0, whole = 0, g = mapped.granule;
		size_t n = (size + g - 1) / g * g;
		PhysicalProp prop = { 0, 0, 4, static_cast<uint32_t>(device_), 1, 0 };

		if (!base_) {
			if (Api().memInfo(1, &left, &whole) ||
			    Api().reserve(&base_, whole, 0, nullptr, 1))
				return nullptr;
			room_ = whole;
		}
		if (at_ + n > room_)
			return nullptr;
		char *p = static_cast<char *>(base_) + at_;

		for (size_t i = 0; i < n; i += g) {
			void *h = nullptr;

			if (Api().physical(&h, g, &prop, 0))
				return nullptr;
			mapped.handles++;
			if (Api().map(p + i, g, 0, h, 0))
				return nullptr;
		}
		at_ += n;
		*got = n;
		return p;
	}

      private:
	int device_;
	void *base_ = nullptr;
	size_t at_ = 0, room_ = 0;
};

class BlockAllocator : public MemBufAllocator
{
      protected:
	void *Expand(size_t size, size_t *got) override
	{
		size_t n = size > kBlock ? size : kBlock;
		void *p = nullptr;

		if (Api().malloc(&p, n, 0))
			return nullptr;
		*got = n;
		return p;
	}
};

class PinAllocator : public MemBufAllocator
{
      protected:
	void *Expand(size_t size, size_t *got) override
	{
		size_t n = size > 64UL << 20 ? size : 64UL << 20;
		void *p = nullptr;

		if (Api().mallocHost(&p, n))
			return nullptr;
		*got = n;
		return p;
	}
};

class HostAllocator : public MemBufAllocator
{
      protected:
	void *Expand(size_t size, size_t *got) override
	{
		*got = size > 8UL << 20 ? size : 8UL << 20;
		return aligned_alloc(kAlignSize, (*got + kAlignSize - 1) / kAlignSize * kAlignSize);
	}
};

} // namespace

namespace ascend
{

/* What the pools of the device have in common. */
class BACKEND_EXPORT AbstractAscendMemoryPoolSupport : virtual public DynamicMemPool
{
      public:
	explicit AbstractAscendMemoryPoolSupport(bool vmm) : vmm_(vmm)
	{
	}
	size_t GetVmmUsedMemSize() const override;

      private:
	bool vmm_;
};

/* The released one is too long to be copied into its virtual thunk. */
__attribute__((noinline)) size_t AbstractAscendMemoryPoolSupport::GetVmmUsedMemSize() const
{
	return vmm_ ? mapped.handles * mapped.granule : 0;
}

class BACKEND_EXPORT DefaultAscendMemoryPool : public AbstractAscendMemoryPoolSupport,
					       public AbstractDynamicMemPool
{
      public:
	DefaultAscendMemoryPool(MemBufAllocator *a, int device, bool vmm)
	    : AbstractAscendMemoryPoolSupport(vmm), AbstractDynamicMemPool(a, device)
	{
	}
};

class BACKEND_EXPORT BestFitAscendMemoryPool : public AbstractAscendMemoryPoolSupport,
					       public DynamicMemPoolBestFit
{
      public:
	BestFitAscendMemoryPool(MemBufAllocator *a, int device, bool vmm)
	    : AbstractAscendMemoryPoolSupport(vmm), DynamicMemPoolBestFit(a, device)
	{
	}
	bool OnDevice() const override
	{
		return true;
	}
};

class BACKEND_EXPORT AscendPinMemPool : public DynamicMemPoolBestFit
{
      public:
	explicit AscendPinMemPool(MemBufAllocator *a) : DynamicMemPoolBestFit(a, 0)
	{
	}
	bool OnDevice() const override
	{
		return false;
	}
};

} // namespace ascend

namespace cpu
{

class BACKEND_EXPORT CPUMemoryPool : public DynamicMemPoolBestFit
{
      public:
	explicit CPUMemoryPool(MemBufAllocator *a) : DynamicMemPoolBestFit(a, 0)
	{
	}
	bool OnDevice() const override
	{
		return false;
	}
};

} // namespace cpu

static DynamicMemPool *pools[3]; /* device, pinned, CPU */

static bool has(const char *conf, const char *what)
{
	return conf && strstr(conf, what);
}

} // namespace device
} // namespace mindspore

using namespace mindspore::device;

/* conf: the value of MS_ALLOC_CONF or NULL; "older_pool:true", "enable_vmm:false" */
extern "C" BACKEND_EXPORT int sim_ms_init(int device, const char *conf)
{
	bool vmm = !has(conf, "enable_vmm:false");
	MemBufAllocator *a;
	int rc = Api().setDevice(device);

	if (rc)
		return rc;
	if (vmm)
		a = new VmmAllocator(device);
	else
		a = new BlockAllocator;
	if (has(conf, "older_pool:true"))
		pools[0] = new ascend::BestFitAscendMemoryPool(a, device, vmm);
	else
		pools[0] = new ascend::DefaultAscendMemoryPool(a, device, vmm);
	pools[1] = new ascend::AscendPinMemPool(new PinAllocator);
	pools[2] = new cpu::CPUMemoryPool(new HostAllocator);
	return 0;
}

extern "C" BACKEND_EXPORT void *sim_ms_alloc(int pool, size_t size, uint32_t stream)
{
	return pools[pool]->AllocTensorMem(size, false, false, stream);
}

extern "C" BACKEND_EXPORT void sim_ms_free(int pool, void *p)
{
	pools[pool]->FreeTensorMem(p);
}

/* One piece of memory cut into n blocks; 0, or 1 when there is none. */
extern "C" BACKEND_EXPORT int sim_ms_alloc_list(int pool, const size_t *sizes, size_t n,
						uint32_t stream, void **out)
{
	auto v = pools[pool]->AllocContinuousTensorMem(std::vector<size_t>(sizes, sizes + n),
						       stream);

	if (v.size() != n)
		return 1;
	std::copy(v.begin(), v.end(), out);
	return 0;
}

/* Bulk free, as at the end of a graph, of which parts are kept. */
extern "C" BACKEND_EXPORT void sim_ms_free_part(void **p, size_t n, void **keep,
						const size_t *sizes, size_t n_keep)
{
	pools[0]->FreePartTensorMems(std::vector<void *>(p, p + n),
				     std::vector<void *>(keep, keep + n_keep),
				     std::vector<size_t>(sizes, sizes + n_keep));
}

/* A stream uses the block until events are synchronised. */
extern "C" BACKEND_EXPORT void sim_ms_record_event(void *p)
{
	pools[0]->RecordEvent(p);
}

extern "C" BACKEND_EXPORT void sim_ms_sync_events(void)
{
	pools[0]->SyncAllEvents();
}
