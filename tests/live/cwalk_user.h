/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder in user space, on a stopped child of cwalk. */
#ifndef CWALK_USER_H
#define CWALK_USER_H

#include <sys/types.h>

#include "cwalk.h"
#include "symbol/symbol.h"

struct cwalk_regs {
	uint64_t pc, sp, fp, lr;
	uint64_t more[17]; /* x86-64: by DWARF number */
};

struct cwalk_frames {
	uint64_t pc[MT_UW_MAX_FRAMES + 1];
	uint32_t n;
	int end, guessed;
};

/* Read the rows of what a process maps, for walks of it from now on. 0 or -errno. */
int cwalk_user__open(pid_t pid);
void cwalk_user__close(void);
/* The registers of a stopped thread. 0 or -errno. */
int cwalk_user__regs(pid_t tid, struct cwalk_regs *r);
int cwalk_user__read(void *dst, uint32_t n, uint64_t addr);
void cwalk_user__walk(const struct cwalk_regs *r, struct cwalk_frames *f);
/* Address in its file, and the path of that ("-" if none). */
uint64_t cwalk_user__place(uint64_t pc, const char **path);
/*
 * Write what the last walk read, and the frames that it should have found, into a
 * file as tests/unit/data-stacks/README.md describes. 0 or -errno.
 */
int cwalk_user__store(const char *path, const char *what, const struct cwalk_regs *r,
		      const struct cwalk_note *n);
/*
 * Step through cwalk_steps(), walking at each instruction. Prints what it found;
 * true if all stacks were right.
 */
bool cwalk_user__steps(struct cwalk_shared *s, pid_t pid);

#endif
