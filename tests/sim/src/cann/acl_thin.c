// SPDX-License-Identifier: Apache-2.0
/* The thin public library: each function is a tail jump to its Impl (libacl_rt.so, libascendcl.so).
 */
#include "acl.h"

#define API __attribute__((visibility("default")))

#define THIN(ret, name, params, args)   \
	API ret name params             \
	{                               \
		return name##Impl args; \
	}
/* A void function may not "return f()" in strict C; the call is in tail position all the same. */
#pragma GCC diagnostic ignored "-Wpedantic"

ACL_FUNCTIONS(THIN)
