/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to probe/: Python method tables, in a file and in live processes. */
#ifndef MEMTAP_PYMETHOD_H
#define MEMTAP_PYMETHOD_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/derive.h"
#include "probe/probe.h"

/* A method that is looked for in live processes. */
struct pymethod {
	const char *name;
	struct addr_set at; /* where the text of its name is in the file */
	uint64_t fn; /* out: its function, 0 = in no table */
	bool twice; /* out: tables name several functions so */
};

/* All places in a file that read as the name, tails of longer texts too. */
void pymethod__names(const struct elf_image *img, const char *method, struct addr_set *at);
/*
 * Fill in `fn` and `twice` of the methods from the tables of a process: in the
 * writable data of the file, or anywhere when a PyModuleDef in that data leads
 * there (ascend-abi.md 2.6.2). Only for libraries whose tables code fills in:
 * others are pymethod__find's. `same` tells whether a descriptor is of this file.
 * Number of methods found, 0 = no table is filled (yet), -ESRCH when the process
 * has gone or has not mapped the file, -errno when its memory cannot be read.
 */
int pymethod__look(struct elf_image *img, pid_t pid, bool (*same)(void *ctx, int fd), void *ctx,
		   struct pymethod *m, size_t n);
/*
 * 3.N of the Python that a process runs, by its mappings, else of a file, by its
 * path (".../python3.N/...", "cpython-3NN"); pid may be 0; 0 = unknown.
 */
int pymethod__python_minor(const char *path, pid_t pid);

#endif
