// SPDX-License-Identifier: Apache-2.0
/* The operator engine (libnnopbase.so) as libopapi.so sees it. */
#ifndef SIM_NNOPBASE_H
#define SIM_NNOPBASE_H

#include <cstdint>

/* Opaque to callers; the name is the key of the kernel. */
struct aclOpExecutor {
	const char *name; /* aclnnAdd */
	void *func; /* handle of the kernel, set at the first run */
	void *program;
};

int InitL2Phase1Context(const char *name, aclOpExecutor **executor);
int InitL2Phase2Context(const char *name, aclOpExecutor *executor);
int CommonOpExecutorRun(void *workspace, uint64_t size, aclOpExecutor *executor, void *stream);

#endif
