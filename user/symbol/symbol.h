/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: rows that unwind a file's code, symbol tables, Python code objects.
 *
 * Files and the memory of targets are hostile: sizes and offsets are checked,
 * what is malformed is an error or a name that is not known, never a crash.
 */
#ifndef MEMTAP_SYMBOL_H
#define MEMTAP_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "probe/probe.h"

/* ==== unwind rows of a file ==== */

/* ==== names of functions ==== */

/* ==== Python ==== */

struct python;
struct mt_py_offsets;
struct mt_py_frame;
struct mt_py_stack;

/*
 * The interpreter of a process, checked against what its memory holds: an object
 * also where there is none or it is not understood, see python__why. 0 or -ENOMEM.
 * Of a forked child open another one; after exec too. Not thread safe.
 */
int python__open(pid_t pid, struct python **out);
void python__close(struct python *py); /* NULL is fine */
/* What BPF needs to walk its threads; its `why` is that of python__why. */
const struct mt_py_offsets *python__offsets(const struct python *py);
/* enum mt_py_why; 0: stacks can be walked. */
unsigned int python__why(const struct python *py);
/* What was found and how, or the reason, for people. */
const char *python__text(const struct python *py);
/* A reason as words, "thread has no Python state"; never NULL. */
const char *python__reason(unsigned int why);

/* Threads that the interpreters know. */
struct python_thread {
	uint64_t pointer; /* its thread pointer */
	uint32_t tid; /* in its PID namespace; 0 before 3.11 */
};

/* At most max. Their number or -errno. */
ssize_t python__threads(struct python *py, struct python_thread *t, size_t max);
/* What BPF does, from outside: right only of a thread that does not run Python code. */
void python__walk(struct python *py, const struct python_thread *t, uint32_t max,
		  struct mt_py_stack *out);

/* Texts are UTF-8, of the object and valid until the next call. */
struct python_name {
	const char *file, *name, *qualname; /* qualname: that of name before 3.11 */
	int line; /* of the instruction; of `def` where that has none, 0 if not known */
	bool cut; /* a text is longer than is kept */
};

/*
 * Function, file and line of a frame, read once per code object and remembered
 * by its address and what tells it apart from others there before or after.
 * enum mt_py_why: 0 named.
 */
unsigned int python__name(struct python *py, const struct mt_py_frame *f, struct python_name *out);
/*
 * A stack as the vendor's cell has it: `file(line): function`, a line each, at
 * most `depth` of them; NA for a frame without a name, and alone for no stack.
 */
void python__cell(struct python *py, const struct mt_py_stack *s, uint32_t depth,
		  struct strbuf *out);

/* What the code objects of a process took, and how often a name could not be had. */
struct python_counts {
	uint64_t hits, reads, replaced, evicted; /* replaced: another code at the same address */
	size_t codes, bytes;
	const uint64_t *why; /* frames without a name, by enum mt_py_why */
};

struct python_counts python__counts(const struct python *py);

#endif
