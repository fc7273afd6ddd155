// SPDX-License-Identifier: Apache-2.0
/*
 * Stand-in for the vendor's libascend_kernel_hook.so: replaces launch functions.
 * Its very name in LD_PRELOAD switches on torch_npu's mstx memory calls.
 */
#include "hooks.h"

typedef long word;
typedef int (*launch_fn)(word, word, word, word, word, word, word, word);

/* Eight words cover all of them; what a function does not take, it does not look at. */
#define LAUNCHES(X)                          \
	X(aclrtLaunchKernelImpl)             \
	X(aclrtLaunchKernelV2Impl)           \
	X(aclrtLaunchKernelWithConfigImpl)   \
	X(aclrtLaunchKernelWithHostArgsImpl) \
	X(rtKernelLaunch)                    \
	X(rtKernelLaunchWithHandleV2)        \
	X(rtKernelLaunchWithFlagV2)          \
	X(rtLaunchKernelByFuncHandle)        \
	X(rtLaunchKernelByFuncHandleV2)

#define ENUM(name) N_##name,
enum { LAUNCHES(ENUM) N_ALL };
#define COUNT(name) [N_##name] = { #name, 0 },
static struct hook_count counts[] = { LAUNCHES(COUNT) };

#define HOOK(name)                                                                    \
	API int name(word a, word b, word c, word d, word e, word f, word g, word h); \
	int name(word a, word b, word c, word d, word e, word f, word g, word h)      \
	{                                                                             \
		static launch_fn fn;                                                  \
		launch_fn call = __atomic_load_n(&fn, __ATOMIC_RELAXED);              \
		if (!call) {                                                          \
			call = (launch_fn)hook_real(#name);                           \
			__atomic_store_n(&fn, call, __ATOMIC_RELAXED);                \
		}                                                                     \
		counts[N_##name].calls++;                                             \
		return call(a, b, c, d, e, f, g, h);                                  \
	}
LAUNCHES(HOOK)

static __attribute__((destructor)) void told(void)
{
	hook_counts_write(counts, N_ALL);
}
