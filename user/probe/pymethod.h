/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to probe/: Python method tables in a live process. */
#ifndef MEMTAP_PYMETHOD_H
#define MEMTAP_PYMETHOD_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/probe.h"

/*
 * Function of a method name, from the tables in the writable data of a process
 * that has the file mapped: 8-byte words that point at the string `method`,
 * followed by a pointer to an FDE start of the file (ascend-abi.md 2.6.2). For
 * libraries whose tables are filled by code. 0, -ENOENT, -EEXIST ambiguous.
 */
int pymethod__find_live(struct elf_image *img, pid_t pid, uint64_t dev, uint64_t ino,
			const char *method, uint64_t *vaddr);
/* 3.N of the Python that a process runs, from its mappings; 0 = none. */
int pymethod__python_minor(pid_t pid);

#endif
