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
#include "memtap/unwind.h"
#include "probe/probe.h"

/* ==== unwind rows of a file ==== */

/*
 * What .eh_frame and .debug_frame say of a file's code, as memtap/unwind.h has
 * it. Pages are numbered from that of `base` on; their rows lie one after the
 * other in `rows`, `first` here being counted from its beginning (32 bits).
 */
struct unwind_page {
	uint32_t first, n;
};

struct unwind_table {
	uint64_t base; /* virtual address, a multiple of MT_UW_PAGE */
	uint32_t n_pages, n_rows, n_rules;
	struct unwind_page *pages;
	struct mt_uw_row *rows;
	struct mt_uw_rule *rules; /* [0] is MT_CFA_NONE */
	/* What the rows leave out, in addresses (rules that are not understood) and pages
	 * (more rows than a chunk has room for). */
	uint32_t n_other, n_crowded;
};

/*
 * Build it. 0 or -errno: -ENOENT the file describes no code, -ENOMEM, -E2BIG more
 * than 65535 rules or 4 GiB of code. Free with unwind_table__free (NULL is fine).
 */
int unwind_table__build(const char *path, struct unwind_table **out);
int unwind_table__build_fd(int fd, struct unwind_table **out);
void unwind_table__free(struct unwind_table *t);
/* The rule that holds at an address, never NULL. */
const struct mt_uw_rule *unwind_table__at(const struct unwind_table *t, uint64_t vaddr);

/* ---- rows on disk, by build-id ---- */

/*
 * The folder, made if it is missing; -EPERM when others can write into it. A
 * descriptor, the caller's, or -errno.
 */
int unwind_cache__open(const char *path);
/*
 * 0 or -errno: -ENOENT not there, -EPERM not ours alone, -EINVAL of another
 * version or not what was written.
 */
int unwind_cache__load(int dir, const uint8_t *id, size_t id_len, struct unwind_table **out);
/* Written beside and renamed, mode 0600. 0 or -errno. */
int unwind_cache__save(int dir, const uint8_t *id, size_t id_len, const struct unwind_table *t);

/* ---- the rows of all files, as the BPF programs read them ---- */

/*
 * Where they go: maps of the kernel, or arrays of a test. Each function returns
 * 0 or -errno. A chunk that is given again has only gained rows; NULL = it is
 * taken away. A process: NULL = it is taken away.
 */
struct unwind_sink {
	void *ctx;
	int (*chunk)(void *ctx, uint32_t no, const struct mt_uw_chunk *c);
	int (*pages)(void *ctx, uint32_t first, const struct mt_uw_page *p, uint32_t n);
	int (*rules)(void *ctx, uint32_t first, const struct mt_uw_rule *r, uint32_t n);
	int (*maps)(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n);
	int (*proc)(void *ctx, pid_t pid, const struct mt_uw_proc *p);
	/* A file that is met for the first time, NULL: not wanted. The descriptor stays the
	 * store's. */
	void (*file)(void *ctx, uint32_t no, int fd, const char *path);
	/* One number more of a file, for another place in the same process, NULL: not wanted. */
	void (*twin)(void *ctx, uint32_t no, uint32_t of);
	/* The mappings of a process are read from now on, NULL: not wanted. */
	void (*look)(void *ctx, pid_t pid);
	/* Do the programs still have these mappings of a process there, NULL: they have. Then they
	 * are not written again. */
	bool (*has)(void *ctx, pid_t pid, const struct mt_uw_proc *p, const struct mt_uw_map *m);
	/* fn for each process that the programs have mappings of, NULL: those that were given. */
	void (*owners)(void *ctx, void (*fn)(void *to, const struct mt_uw_proc *p), void *to);
};

/* Descriptors of the maps of bpf/lib/stack.bpf.h, which stay the caller's. */
struct unwind_maps {
	int chunks, pages, rules, maps, procs;
	int open_fd; /* inside: of the chunk that is still filled */
	uint32_t open_no;
	bool full; /* inside: there was no place for the process that is read */
};

struct unwind_sink unwind_maps__sink(struct unwind_maps *m);
void unwind_maps__close(struct unwind_maps *m);

struct unwind_store;

struct unwind_stats {
	uint32_t files, tables; /* files met, those with rows */
	uint32_t cached; /* of them, from the disk */
	uint64_t rows;
	uint32_t rules, chunks, pages, maps, procs;
	uint32_t evicted; /* tables taken away to make room */
	uint32_t no_room; /* files whose rows have no room */
	uint32_t too_large; /* files whose rows would take more than one file may have */
	uint32_t rules_lost; /* distinct rules that had none: MT_CFA_OTHER instead */
	uint32_t procs_lost; /* processes whose mappings have none, to their end */
	uint64_t maps_waited; /* how often a process waited for it */
	uint32_t maps_over; /* mappings of one process beyond those that are looked at, at most */
};

/*
 * At most so many chunks; 0 = as many as are possible. cache: a folder of
 * unwind_cache__open, the store's from now on, or -1. 0 or -errno.
 */
int unwind_store__new(const struct unwind_sink *sink, uint32_t max_chunks, int cache,
		      struct unwind_store **out);
void unwind_store__free(struct unwind_store *s); /* takes nothing away from the sink */
/*
 * Read the mappings of a process, now or again, and build the rows of files that
 * are new. 0 or -errno (-ESRCH: it has gone; -ENOSPC: no room for its mappings).
 */
int unwind_store__process(struct unwind_store *s, pid_t pid);
/*
 * The same, but the rows of some files only, the smallest first, and those that are there
 * already are shown before. *again: when others, or what has no room yet, want another look
 * (boot, perhaps long ago); 0: nothing does.
 */
int unwind_store__look(struct unwind_store *s, pid_t pid, uint64_t *again);
/* It has ended. What it alone has mapped may be taken away. */
void unwind_store__forget(struct unwind_store *s, pid_t pid);
/* Path of a file by its number, as the first process that mapped it saw it; NULL if none. */
const char *unwind_store__path(const struct unwind_store *s, uint32_t file);
/*
 * Are two numbers of one file? It has another after each change, also of its links: when it was
 * deleted or renamed.
 */
bool unwind_store__is_one(const struct unwind_store *s, uint32_t a, uint32_t b);
void unwind_store__stats(const struct unwind_store *s, struct unwind_stats *out);

/* ==== names of functions ==== */

/* ---- identity of a file: the same for all processes and paths that have it ---- */

enum file_id_kind { FILE_ID_NONE, FILE_ID_BUILD, FILE_ID_HASH };

struct file_id {
	uint8_t kind; /* enum file_id_kind */
	uint8_t len;
	uint8_t bytes[BUILD_ID_MAX];
};

#define FILE_ID_TEXT (2 * BUILD_ID_MAX + sizeof("hash-"))

/*
 * The build-id; where there is none (Ascend HAL) a 128-bit hash of the size, the
 * first and last 64 KiB and 64 pages between, or of everything up to 384 KiB. Also
 * for files that are no ELF files. 0 or -errno. A build-id is what the file says:
 * a target can forge it, and then gets the names of that file, or gives it its own.
 */
int file_id__of_fd(int fd, struct file_id *id);
/* The same with the image of the file open already (NULL: it is no ELF file). */
int file_id__of_image(const struct elf_image *img, int fd, struct file_id *id);
/* Of the bytes of a build-id, as a kernel or a perf record gives them. */
void file_id__of_build(const uint8_t *build_id, size_t len, struct file_id *id);
/* Order: < 0, 0, > 0. */
int file_id__cmp(const struct file_id *a, const struct file_id *b);
uint64_t file_id__hash(const struct file_id *id);
/* Hex digits, fit for a file name; "hash-" before those of a hash. Returns buf. */
const char *file_id__text(const struct file_id *id, char buf[FILE_ID_TEXT]);

/* ---- the symbol table of one file ---- */

struct strbuf;
struct symtab;

struct symbol {
	uint64_t start, size; /* vaddr, bytes */
	bool named; /* false: bounds of a function without a name, from its FDE */
};

/*
 * Read .symtab, .dynsym, PLT stubs (NAME@plt), the .symtab of a debug file
 * (debug_fd, -1: none) or else that of .gnu_debugdata, and FDEs for the bounds of
 * what has no name. The descriptors stay the caller's and are not needed again.
 * 0 or -errno: -ENOEXEC no ELF file, -ESTALE the debug file is of another build.
 */
int symtab__open(int fd, int debug_fd, struct symtab **out);
void symtab__close(struct symtab *t); /* NULL is fine */
/*
 * The function that holds an address; its name is appended to `name` (NULL: not
 * wanted), as the file has it, without a version. 0; -ENOENT when nothing holds
 * it, as behind the last byte of a function; -ENOMEM.
 */
int symtab__find(const struct symtab *t, uint64_t vaddr, struct symbol *out, struct strbuf *name);
size_t symtab__count(const struct symtab *t);
/* Memory that it takes. */
size_t symtab__bytes(const struct symtab *t);

enum symtab_source {
	SYMTAB_FROM_SYMTAB = 1,
	SYMTAB_FROM_DYNSYM = 2,
	SYMTAB_FROM_DEBUG_FILE = 4,
	SYMTAB_FROM_DEBUGDATA = 8,
	SYMTAB_FROM_PLT = 16,
};

#define SYMTAB_SOURCES_TEXT 64
/* Where its names are from, for messages: ".symtab, PLT"; "none". Returns buf. */
const char *symtab__sources(const struct symtab *t, char buf[SYMTAB_SOURCES_TEXT]);

/* ---- separate debug files ---- */

struct debug_search {
	const char *root; /* look below this directory only; NULL: our root, then the process's */
	pid_t pid; /* a process in whose root to look as well; 0: none */
};

/*
 * The separate debug file of a file, by build-id, else by .gnu_debuglink beside
 * `path` (absolute, as the process sees it; NULL: not by that). Never from the
 * network. `s` may be NULL. fd, or -ENOENT, or -ESTALE: only one of another build.
 */
int debugfile__find(int fd, const char *path, const struct debug_search *s);
/*
 * Ask the servers of $DEBUGINFOD_URLS for it, for so long (to a second): only where
 * the user asked for that, and never while capturing. fd, or -ENOENT: no server is
 * configured or none has it; -EINVAL: no build-id; -ETIME; -EOPNOTSUPP: elfutils'
 * client library (libdebuginfod.so.1) is not installed; -EINTR: `stop` (NULL: nobody) said
 * so, which is asked each second; -errno. For one thread.
 */
int debuginfod__fetch(const struct file_id *id, unsigned int timeout_ms, bool (*stop)(void *ctx),
		      void *ctx);

/* ---- C++ names ---- */

/*
 * Append the readable form of a mangled name. 0; -EINVAL: it is none of C++ (or
 * of Rust's older scheme); -E2BIG: too long, or its text would be; -ENOMEM.
 */
int demangle(const char *name, struct strbuf *sb);

/* ---- names of many files, within a bound of memory ---- */

struct symbols;

struct symbols_opts {
	size_t max_bytes; /* of tables and answers together; 0: 128 MiB */
	size_t max_files; /* kept open; 0: 2048 */
};

struct symbols_stats {
	uint64_t hits; /* answered from what had been asked before */
	uint64_t misses; /* looked up in a table */
	uint64_t unknown; /* of both: without a name */
	uint64_t loads; /* tables made */
	uint64_t load_ns; /* the time that took */
	uint64_t failed; /* files that could not be read */
	uint64_t evictions; /* tables given up for memory; made again when wanted */
	uint64_t dropped; /* files closed for max_files: they are not known any more */
	size_t bytes, peak_bytes;
	size_t files, tables;
};

/* A name, valid until the next call on the same object. */
struct symbol_name {
	const char *name; /* as the file has it; NULL: not known */
	const char *pretty; /* demangled, or the same */
	uint64_t start, size; /* of the function; 0, 0: nothing is known at all */
};

/*
 * For one thread. Bytes stay within max_bytes, but for a single table that is
 * larger, and its latest answers; a file costs a descriptor, or two when it has a separate debug
 * file.
 */
struct symbols *symbols__new(const struct symbols_opts *o);
void symbols__free(struct symbols *s); /* NULL is fine */
/*
 * Know a file from now on, whatever happens to its path and its processes: the
 * descriptor is duplicated, a separate debug file is looked for. Cheap for one that
 * is known. *id: what to ask for. 1 new, 0 known, -errno.
 */
int symbols__add(struct symbols *s, int fd, const char *path, const struct debug_search *where,
		 struct file_id *id);
/* Use this debug file (say of debuginfod__fetch) from now on. 0, -ENOENT no such file, -ESTALE. */
int symbols__debug(struct symbols *s, const struct file_id *id, int debug_fd);
/* Address of a file offset; 0, -ENOENT no such file, -ERANGE nothing is mapped there. */
int symbols__vaddr(struct symbols *s, const struct file_id *id, uint64_t off, uint64_t *vaddr);
/*
 * The function that holds an address. Ask with return addresses less one: a call
 * may be the last instruction of its function (R30). 0, also when it has no name;
 * -ENOENT no such file, -ESTALE it was written over, -ENOMEM, or why it cannot be read.
 */
int symbols__name(struct symbols *s, const struct file_id *id, uint64_t vaddr,
		  struct symbol_name *out);
/* Descriptors of a file, for lines__open; they stay ours. -ENOENT no such file. */
int symbols__files(struct symbols *s, const struct file_id *id, int *fd, int *debug_fd);
void symbols__stats(const struct symbols *s, struct symbols_stats *out);

/* ---- source lines and inlined calls: opened on demand, closed when done ---- */

struct lines;

struct line_frame {
	const char *function; /* mangled where C++; NULL: not told */
	const char *file; /* NULL: not told */
	unsigned int line; /* 0: not told */
	bool inlined; /* a call that was inlined in the frame given next */
};

typedef int (*line_fn)(void *ctx, const struct line_frame *f);

/*
 * Read the DWARF of a file, or of its debug file (-1: none), and the dwz file it
 * needs, which is looked for as debugfile__find does. 0; -ENOENT: it has none;
 * -ENOLINK: the dwz file is missing; -ESTALE: another build; -EBADMSG: malformed.
 */
int lines__open(int fd, int debug_fd, const struct debug_search *s, struct lines **out);
void lines__close(struct lines *l); /* NULL is fine */
/*
 * fn for each frame at an address, innermost first, until it returns non-zero;
 * returns that. Ask with return addresses less one. -ENOENT: nothing is known.
 */
int lines__find(struct lines *l, uint64_t vaddr, line_fn fn, void *ctx);

/* ---- frames as text ---- */

struct cell_frame {
	const char *module; /* path as the process sees it; NULL: in no file */
	uint64_t pc; /* the address to show: for callers the return address itself */
	uint64_t bias; /* where the module is loaded, less where it was linked */
	const char *name; /* mangled as the vendor's tool has it, or readable; NULL: not known */
	uint64_t start; /* of the function, vaddr */
	const char *file; /* NULL: no source line is wanted or known */
	unsigned int line;
};

/*
 * Append one frame as a line: MODULE(NAME+0xOFF) [0xPC], MODULE(+0xOFF) [0xPC] or
 * [0xPC], exactly as backtrace_symbols of glibc has it; " at FILE:LINE" behind it.
 */
void cell__frame(struct strbuf *sb, const struct cell_frame *f);
/* An inlined call before the frame it is in: MODULE(NAME) [0xPC] at FILE:LINE (inlined). */
void cell__inlined(struct strbuf *sb, const struct cell_frame *f);

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
/* One more that closes it; returns it. Any thread may share and close. NULL is fine. */
struct python *python__share(struct python *py);
/* Its memory does not answer: who has begun to read it may never return. Any thread. */
void python__silence(struct python *py);
bool python__is_silent(const struct python *py);
/* What BPF needs to walk its threads; its `why` is that of python__why. */
const struct mt_py_offsets *python__offsets(const struct python *py);
/* enum mt_py_why; 0: stacks can be walked. */
unsigned int python__why(const struct python *py);
/*
 * Is this address of the process in the interpreter's evaluation loop: a C frame there
 * runs Python frames. has: false if the loop could not be found in its file.
 */
bool python__has_loop(const struct python *py);
bool python__in_loop(const struct python *py, uint64_t addr);
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
	bool own; /* the interpreter's own, which Python does not show: behind __init__, from 3.12
		     on */
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
	uint64_t hits, reads, evicted;
	size_t codes, bytes;
	const uint64_t *why; /* frames without a name, by enum mt_py_why */
};

struct python_counts python__counts(const struct python *py);

#endif
