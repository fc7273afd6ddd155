// SPDX-License-Identifier: Apache-2.0
/* The objects behind kernel and program handles, in the layout of the open runtime (8.5 to 9.1). */
#ifndef SIM_RT_OBJECTS_H
#define SIM_RT_OBJECTS_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cce
{
namespace runtime
{

class Program;

/* program@0, attr@12, stub@16, name@24; on master a handle is {"FUNC", Kernel*}. */
struct Kernel {
	Program *program;
	uint32_t offset;
	uint32_t attr;
	const void *stub;
	std::string name;
	uint64_t tilingKey;
};

struct KernelTableEntry {
	uint64_t tilingKey;
	Kernel *kernel;
};

/* vptr@0, table@8, count@16, fill@20; on master a handle is {"BINH", Program*}. */
class Program
{
      public:
	Program();
	virtual ~Program();
	virtual uint32_t Load(const char *text, uint64_t length);
	Kernel *Add(uint64_t key, const std::string &name, const void *stub);
	Kernel *Find(uint64_t key) const;
	Kernel *FindByName(const char *name) const;

	KernelTableEntry *table;
	uint32_t count; /* room */
	uint32_t fill;
};

struct Wrapper {
	uint64_t magic;
	void *object;
};

const uint64_t FUNC_MAGIC = 0x46554E43; /* "FUNC" */
const uint64_t BINH_MAGIC = 0x42494E48; /* "BINH" */

/* NULL for what is no handle of ours. */
Kernel *ToKernel(const void *handle);
Program *ToProgram(const void *handle);
void *KernelHandle(Kernel *k);
Kernel *KernelOfStub(const void *stub);

} // namespace runtime
} // namespace cce
#endif
