/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to symbol/: an interpreter in the memory of another process. */
#ifndef MEMTAP_SYMBOL_PYTHON_H
#define MEMTAP_SYMBOL_PYTHON_H

#include "base/base.h"
#include "memtap/python.h"
#include "symbol/symbol.h"

/* ---- memory of another process ---- */

/* read: all n bytes or -errno. */
struct py_mem {
	int (*read)(void *ctx, uint64_t addr, void *buf, size_t n);
	void *ctx;
};

struct py_process {
	pid_t pid;
	int fd; /* of /proc/PID/mem where process_vm_readv is not permitted; -1 */
	struct py_mem mem;
};

/* mem then points into p, which must stay where it is. */
void py_process__open(struct py_process *p, pid_t pid);
void py_process__close(struct py_process *p);

static inline int py_mem__read(const struct py_mem *m, uint64_t addr, void *buf, size_t n)
{
	return m->read(m->ctx, addr, buf, n);
}

/* 0 and the word, or -errno. */
int py_mem__u64(const struct py_mem *m, uint64_t addr, uint64_t *v);
/* Text up to its NUL; 0, -ENAMETOOLONG (cut), or -errno. */
int py_mem__text(const struct py_mem *m, uint64_t addr, char *buf, size_t n);

/* ---- layout ---- */

enum py_lines { PY_LNOTAB, PY_LINES_626, PY_LINES_657 };

#define PY_NO_OFFSET 0xffff

/* Offsets of members; what a release lacks is PY_NO_OFFSET. */
struct py_layout {
	uint32_t version; /* PY_VERSION_HEX; minor only from the table */
	bool free_threaded;
	bool described; /* by the interpreter itself, else by the table */
	uint16_t interp_head; /* in _PyRuntime */
	uint16_t current; /* in _PyRuntime: the state that holds the lock (to 3.11) */
	uint16_t interp_next, threads_head;
	uint16_t thread_next, thread_id, native_id, frame, cframe, cframe_frame;
	uint16_t frame_code, frame_prev, frame_instr, frame_owner, frame_tlbc, frame_entry;
	uint8_t shim; /* owners from here on; MT_PY_NONE */
	uint8_t tag;
	uint8_t lasti, lasti_shift;
	uint16_t code_first, code_argcount, code_flags, code_file, code_name, code_qualname;
	uint16_t code_table, code_start, code_tlbc, code_version;
	uint16_t ob_type, tp_name;
	uint16_t str_state, str_length, str_hash, str_ascii, str_compact;
	uint16_t bytes_size, bytes_data;
	enum py_lines lines;
};

#define PY_MINOR(version) ((version) >> 16 & 0xff)

/* Of 3.8 to 3.12, for a machine (EM_*). -ENOTSUP: another release. */
int py_layout__table(unsigned int minor, int machine, struct py_layout *l);
/* From the bytes at _PyRuntime. -ENOENT: it does not describe itself; -ENOTSUP; -EINVAL. */
#define PY_DEBUG_OFFSETS_SIZE 1024
int py_layout__described(const uint8_t *p, size_t n, struct py_layout *l);
/* The part that a walker needs. False: it does not fit in one-byte offsets. */
bool py_layout__offsets(const struct py_layout *l, uint64_t runtime, struct mt_py_offsets *o);

/* ---- line tables (pyline.c) ---- */

/*
 * Line of the instruction at byte `at`. 0; -ENOENT it has none; -EINVAL the table
 * does not reach it or is malformed.
 */
int py_line__find(enum py_lines kind, const uint8_t *table, size_t n, int first, int32_t at,
		  int *line);

/* ---- objects (pyobject.c) ---- */

/* Can an object begin with this word? Objects that were freed leave most of their members. */
bool py_object__alive(const struct py_layout *l, uint64_t first);
/* Name of the type of an object. 0 or -errno (-ENOENT: it was freed). */
int py_object__type(const struct py_mem *m, const struct py_layout *l, uint64_t obj, char *buf,
		    size_t n);
/*
 * A str as UTF-8, at most max bytes (-ENAMETOOLONG, cut, when it is longer).
 * Control characters become '?', surrogates U+FFFD. 0 or -errno; -EINVAL: no str.
 */
int py_object__str(const struct py_mem *m, const struct py_layout *l, uint64_t obj,
		   struct strbuf *out, size_t max);
/* The bytes of a bytes object, malloced. Length or -errno (-EFBIG). */
ssize_t py_object__bytes(const struct py_mem *m, const struct py_layout *l, uint64_t obj,
			 size_t max, uint8_t **out);

/* ---- threads ---- */

struct py_thread_state {
	uint64_t addr, id, native; /* native 0: not told */
};

#define PY_MAX_THREADS 1024

/* ---- the evaluation loop (pyloop.c) ---- */

#define PY_LOOP_PARTS 8

struct py_loop_part {
	uint64_t start, end; /* in the process */
};

/* The loop itself, what was split off from it, its clones. None: it was not found. */
struct py_loop {
	uint32_t n;
	struct py_loop_part part[PY_LOOP_PARTS];
};

/* In the interpreter's file, which is at `bias`. */
void py_loop__find(struct elf_image *img, uint64_t bias, struct py_loop *l);
bool py_loop__has(const struct py_loop *l, uint64_t addr);

struct python {
	int others; /* that share it, less one */
	bool silent; /* a read of its memory did not return: nothing of it is read any more */
	struct py_process proc;
	const struct py_mem *mem;
	struct py_layout layout;
	struct mt_py_offsets offsets;
	uint64_t runtime; /* address of _PyRuntime */
	enum mt_py_why why;
	char text[320];
	uint64_t code_type; /* once known */
	struct py_loop loop;
	struct pycodes *codes; /* pycode.c */
};

/* The thread states of all interpreters, at most max. Number or -errno. */
ssize_t py_threads__read(const struct py_mem *m, const struct mt_py_offsets *o,
			 struct py_thread_state *out, size_t max);
/*
 * Where threads keep the pointer to their state (pythread.c): slot, block, self, find
 * of offsets, checked against the states. `img`: the interpreter's file at `bias`.
 * 0, or -ENOENT: only the lists are left (find is MT_PY_FIND_LIST then, if they serve).
 */
int py_slot__find(struct python *py, struct elf_image *img, uint64_t bias,
		  const struct py_thread_state *t, size_t n);
/* What code tells (pydecode.c). What pthread_self() adds to the thread pointer, from its code
 * (aarch64). 0 or -errno. */
int py_slot__self_a64(const uint8_t *code, size_t n, int32_t *self);
/* Offset of a thread-local variable from code that returns it. 0 or -errno. */
int py_slot__tls(int machine, const uint8_t *code, size_t n, int32_t *off);

/* The walker of BPF: from a thread pointer, or from a thread state on (pywalk.c). */
void py_walk__memory(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t tp,
		     uint32_t tid, uint32_t max, struct mt_py_stack *out);
void py_walk__state(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t state,
		    uint32_t max, struct mt_py_stack *out);
/* Is the code object that is there now the one that a walker took this check of? */
bool py_walk__is_checked(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t code,
			 uint32_t check);

/* ---- the file of an interpreter (pyelf.c) ---- */

/* Address of a defined data symbol in .dynsym, .symtab. 0 or -ENOENT. */
int py_elf__data(const struct elf_image *img, const char *name, uint64_t *vaddr);
/* Address of a section by name. 0 or -ENOENT. */
int py_elf__section(const struct elf_image *img, const char *name, uint64_t *vaddr);

/* Code objects: see symbol.h. */
void pycodes__free(struct pycodes *c);

#endif
