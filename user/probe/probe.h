/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to probe: ELF files, derivation of hidden functions, choice of the
 * cheap instruction, the catalogue of symbols, kernel features, attaching.
 *
 * Everything read from a file is hostile: sizes and offsets are checked, a
 * malformed file is an error, never a crash.
 */
#ifndef MEMTAP_PROBE_H
#define MEMTAP_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* ---- an ELF file, mapped read-only ---- */

struct elf_image;

#define BUILD_ID_MAX 32

/*
 * Open by descriptor (kept open by the caller; duplicated inside) or by path.
 * 0 or -errno: -ENOEXEC not an ELF file of this byte order and 64 bits or
 * malformed, -EFBIG too large, -E2BIG made to take long, else what open/mmap say. Free
 * with elf_image__close (NULL is fine).
 */
int elf_image__open(const char *path, struct elf_image **out);
int elf_image__open_fd(int fd, const char *name, struct elf_image **out);
void elf_image__close(struct elf_image *img);

const char *elf_image__name(const struct elf_image *img);
/*
 * The work on a file is bounded. Was it not enough? Then what was found in it is not
 * to be relied on, whatever the functions have returned.
 */
bool elf_image__over(const struct elf_image *img);
/* What an error of opening or reading such a file says; static text. */
const char *elf__why(int err);
int elf_image__machine(const struct elf_image *img); /* EM_X86_64, EM_AARCH64 */
/* Build-id bytes into id; number of bytes, 0 = none. */
size_t elf_image__build_id(const struct elf_image *img, uint8_t id[BUILD_ID_MAX]);
/* DT_SONAME or NULL; DT_NEEDED i or NULL; DT_RUNPATH, else DT_RPATH, or NULL. */
const char *elf_image__soname(const struct elf_image *img);
const char *elf_image__needed(const struct elf_image *img, size_t i);
const char *elf_image__runpath(const struct elf_image *img);
/* Does it name a dynamic linker (PT_INTERP)? A statically linked program does not. */
bool elf_image__interp(const struct elf_image *img);

/*
 * Address of a defined function symbol: .dynsym first, then .symtab; the
 * default version where there are several (R44). 0, or -ENOENT.
 */
int elf_image__symbol(const struct elf_image *img, const char *name, uint64_t *vaddr,
		      uint64_t *size);
/* Call fn for every defined function symbol until it returns non-zero; returns that. */
int elf_image__each_symbol(const struct elf_image *img,
			   int (*fn)(void *ctx, const char *name, uint64_t vaddr, uint64_t size),
			   void *ctx);
/* Exported symbol at or before a file offset: name or NULL, *delta = distance. */
const char *elf_image__name_at(const struct elf_image *img, uint64_t off, uint64_t *delta);
/* Translations through PT_LOAD: 0, or -ERANGE where nothing is mapped. */
int elf_image__offset(const struct elf_image *img, uint64_t vaddr, uint64_t *off);
int elf_image__vaddr(const struct elf_image *img, uint64_t off, uint64_t *vaddr);
/* The executable PT_LOADs, sorted by address; how many there are, `max` of them in seg. */
struct elf_code {
	uint64_t off, vaddr, size; /* size in the file */
};

size_t elf_image__code(const struct elf_image *img, struct elf_code *seg, size_t max);
/* Bytes at an address, `n` of them within one file-backed segment; NULL if not. */
const void *elf_image__at(const struct elf_image *img, uint64_t vaddr, size_t n);
/* NUL-terminated string at an address within the file; NULL if there is none. */
const char *elf_image__string(const struct elf_image *img, uint64_t vaddr);

/* ---- frame descriptions: bounds of functions in stripped files ---- */

struct fde {
	uint64_t start, end; /* vaddr, [start, end) */
};

/* Sorted FDEs from PT_GNU_EH_FRAME/.eh_frame, read once. Owned by img. */
int elf_image__fdes(struct elf_image *img, const struct fde **fdes, size_t *n);
/* The FDE that holds vaddr; NULL if none. */
const struct fde *elf_image__fde_at(struct elf_image *img, uint64_t vaddr);

/* ---- derivation of hidden functions of libtorch_npu.so ---- */

enum pta_generation { PTA_NONE, PTA_C10, PTA_REPORT };
enum pta_layout { PTA_LAYOUT_UNKNOWN, PTA_LAYOUT_A, PTA_LAYOUT_B, PTA_LAYOUT_C };

struct pta_derived {
	enum pta_generation generation;
	enum pta_layout layout;
	uint64_t report, report_size; /* vaddr, 0 = not found */
	uint64_t report_off; /* file offset */
	unsigned int call_sites;
	uint64_t malloc, free; /* DeviceCachingAllocator::malloc, ::free, vaddr or 0 */
	int block_ptr, block_size; /* offsets in Block, -1 = not found */
	/* A FREE record names the block merged with its free neighbours, not the one freed
	 * (6.0.rc2). */
	bool merged;
	size_t fdes;
	bool from_symtab;
	const char *why; /* reason when something was not found; static text */
};

/*
 * spec ascend-abi.md 2.7.3. 0 when the file was understood (look at
 * generation and why), -errno when it is not an ELF file of a known machine, -E2BIG
 * when it takes too long.
 */
int pta__derive(struct elf_image *img, struct pta_derived *out);

/* ---- the statistics of MindSpore's pools ---- */

/* Where a pool object has its statistics, in words of 8 bytes but for `at`; -1 = nowhere. */
struct mspool_stats {
	unsigned int at[2]; /* offsets of pointers to them in the pool, 0 = none */
	int used; /* bytes in use */
	int reserved; /* bytes reserved that are no mapped part of an address range */
	int besides; /* the part of them that is reserved besides such a range */
};

/*
 * From the code of the pool's own TotalUsedMemStatistics and TotalMemStatistics
 * (ascend-abi.md 2.10); `older`: of DynamicMemPoolBestFit. 0; -ENOENT when there
 * are no such functions, -ENOTSUP when their code is not understood.
 */
int mspool__derive(struct elf_image *img, bool older, struct mspool_stats *out);

/*
 * Functions of a Python extension module, found by the names in its method
 * table: a RELATIVE slot that points at the string `method`, the next word is
 * the function (msleaks.md 12.3, ascend-abi.md 2.7.3 step 7). Accepts only
 * slots whose function is an FDE start. 0, -ENOENT the file has no such name,
 * -ENODATA it has, but in no table (code may fill one in later), -EEXIST ambiguous.
 */
int pymethod__find(struct elf_image *img, const char *method, uint64_t *vaddr);

/* ---- ATB ---- */

/* Where a libatb or a libmki has what (ascend-abi.md 2.9); 0: not known, or not of this library. */
struct atb_layout {
	uint16_t operation; /* name of a Runner's operation: offset in it */
	uint16_t kernel; /* name of an Mki::KernelBase */
	uint16_t in, out; /* tensors in Mki::LaunchParam */
	uint16_t stride; /* from one of them to the next */
	bool mstx; /* it tells mstx of its memory */
	const char *why; /* static text: what was not understood */
};

/* From the code of the getters, whose names tell the ABI of std::string too. */
void atb__derive(struct elf_image *img, struct atb_layout *out);

/* ---- the cheap instruction ---- */

enum site_cost { SITE_EMULATED, SITE_STEPPED };

struct site {
	uint64_t vaddr;
	uint64_t off; /* file offset: what a uprobe wants */
	int sp_off; /* sp at the site + sp_off = sp at function entry; fits 16 bits */
	enum site_cost cost;
	bool refused; /* the kernel puts no probe there */
	char insn[24]; /* mnemonic, for reports */
};

/*
 * Instructions this kernel emulates beyond the set that all supported kernels
 * do (push, short/near jumps, 1-byte nop | b, cbz, tbz, adr, adrp, ret).
 */
#define SITE_EMU_MULTINOP 0x1 /* x86: multi-byte nops (found by calibration) */
#define SITE_EMU_NOP 0x2 /* arm64: nop (6.13) */
#define SITE_EMU_ENDBR 0x4 /* x86: endbr64 (no release known; found by calibration) */
#define SITE_EMU_STP 0x8 /* arm64: push of x29, x30 (the same) */

/*
 * Site for an entry probe of the function at vaddr whose argument registers
 * 0..nargs-1 must be unchanged there. Never fails for a decodable function:
 * falls back to vaddr itself (SITE_STEPPED), or, where the kernel refuses that
 * instruction, to the first behind it that it takes. design.md, Probe sites.
 */
int site__entry(struct elf_image *img, uint64_t vaddr, int nargs, unsigned int emu,
		struct site *out);
/*
 * The entry itself, whatever it costs: where a return probe must be set whose
 * return address has to be in its place still. 0, -ERANGE, -EINVAL.
 */
int site__first(struct elf_image *img, uint64_t vaddr, unsigned int emu, struct site *out);
/*
 * All return instructions of the function at vaddr, by decoding control flow
 * from the FDE start (never a byte scan). Returns their number, -ENOSPC if
 * there are more than max, -EOPNOTSUPP if the function can leave by an
 * indirect or outward tail jump (returns would be missed), -ENOTSUP if the kernel
 * puts no probe on one of them, -EINVAL undecodable.
 */
int site__returns(struct elf_image *img, uint64_t vaddr, struct site *out, int max);

/* Where the result of a function is at its end: to be read there. */
enum value_from { VALUE_NONE, VALUE_RC, VALUE_REG, VALUE_MEM };

struct site_value {
	uint8_t from; /* VALUE_RC: in the register for results */
	uint8_t reg; /* x86-64 number: it has the value, or its address less disp */
	int32_t disp;
};

/*
 * One emulated instruction behind all that the function at vaddr does, which every way to one of
 * its `ret`s comes by exactly once; and where its result is there. x86-64 only. 0, or -errno:
 * there is none that is understood, use site__returns.
 */
int site__end(struct elf_image *img, uint64_t vaddr, struct site *out, struct site_value *value);

/* ---- what the kernel can do, found by trying (never by version) ---- */

enum feature {
	FEAT_BTF, /* type information of the kernel: CO-RE */
	FEAT_RINGBUF, /* BPF ring buffer (5.8) */
	FEAT_PERF_UPROBE, /* uprobe PMU (4.17) */
	FEAT_COOKIE, /* bpf_get_attach_cookie and perf links (5.15) */
	FEAT_SLEEPABLE, /* sleepable uprobe programs (6.0) */
	FEAT_MULTI, /* uprobe_multi link (6.6) */
	FEAT_SESSION, /* uprobe session (6.13) */
	FEAT_LOOP, /* bpf_loop (5.17) and task storage (5.11): call stacks */
	FEAT_MAX
};

#define FEATURE_OFF (-ECANCELED) /* switched off by MEMTAP_DISABLE */
#define FEATURE_UNTRIED (-EALREADY) /* a better one works */

struct features {
	int state[FEAT_MAX]; /* 1 works, 0 the kernel says no, -errno not permitted */
	bool emu_known; /* calibration could be made */
	unsigned int emu; /* SITE_EMU_*: what this kernel emulates besides the common set */
};

/* all: also what is not needed beside what works, for a report. */
void features__probe(struct features *f, bool all);
bool features__has(const struct features *f, enum feature x);
const char *feature__name(enum feature x);
/* The words of f->emu, "none" for 0, "not known"; static or in buf. */
const char *features__emulated(const struct features *f, char *buf, size_t n);
/* What carries the probes: "uprobe_multi", …; NULL when nothing can or may be tried. */
const char *features__mechanism(const struct features *f);
/* "yes", "no (kernel)", "not permitted: …", "switched off"; static or in buf. */
const char *feature__text(int state, char *buf, size_t n);

/*
 * Defects that trying would trigger (design.md, principle 5): by release range,
 * with the fixing commit; MEMTAP_KNOWNBAD=ignore overrides.
 */
enum knownbad {
	KNOWNBAD_URETPROBE_SECCOMP, /* return probes kill processes: `ret` sites instead */
	KNOWNBAD_UTASK_RACE, /* another's profiler may panic the kernel: only said */
	KNOWNBAD_MAX
};

/* What the running kernel has of it: text or NULL. */
const char *knownbad__here(enum knownbad which);
/* The same of any kernel, by what uname says of it. */
const char *knownbad__in(enum knownbad which, const char *machine, const char *release,
			 const char *version);

/* ---- BPF programs and maps ---- */

struct progs;

struct progs_opts {
	uint32_t ring_bytes; /* power of two, at least a page */
	uint32_t inflight_max; /* 0 = default */
	bool cgroup; /* programs also filter by cfg.cgroup_id, where the kernel can */
	bool stacks; /* programs that walk call stacks, where the kernel can */
	bool ops; /* room for the operators of torch */
	bool tensors; /* programs of ATB with the tensors: the verifier takes its time with them */
};

/* Loads all that loads; a program that does not is named by progs__why. 0 or -errno
 * with a message when nothing can work (no ring buffer, not permitted). */
int progs__load(const struct progs_opts *opts, const struct features *f, struct progs **out);
void progs__free(struct progs *p);
int progs__map(const struct progs *p, const char *name); /* fd, owned by p */
/* Can they walk call stacks? NULL: yes; else why not (opts.stacks was not given, too). */
const char *progs__no_stacks(const struct progs *p);
/* Why a program is missing: text, NULL if it is there. */
const char *progs__why(struct progs *p, const char *prog);

/*
 * A program ready to attach: a clone with mode bits and site number patched in.
 * attach_type 0 (perf), 48 (uprobe_multi) or 57 (session). fd owned by p, or -errno.
 */
int progs__clone(struct progs *p, const char *prog, uint32_t attach_type, uint32_t site);
/* Attach the lifecycle programs; 0 or -errno. */
int progs__lifecycle(struct progs *p);
void progs__lifecycle_stop(struct progs *p);

/* ---- attaching to sites of one file ---- */

enum attach_kind { ATTACH_ENTRY, ATTACH_RETURN, ATTACH_SESSION };

struct attach_req {
	const char *prog;
	enum attach_kind kind;
	uint64_t off; /* file offset */
	uint32_t site; /* number of the site; ATTACH_SESSION also uses site + 1 */
	unsigned int pair; /* the same for the requests of one function */
	bool is_return;
	unsigned int group; /* for attach__remove; requests of one program share it */
	uint32_t op; /* number of the operator, in the cookie beside the site; 0 = none */
	int err; /* out: 0 or -errno */
};

struct attach;

struct attach *attach__new(struct progs *p, const struct features *f);
/* From here on in this process only, its threads and no children. `prog`: one without a return. */
void attach__in(struct attach *a, pid_t pid, const char *prog);
/*
 * Attach to the file behind fd (stays the caller's). Returns the number of
 * requests that failed. Returns of a function stand before its entry, which is
 * not attached when one of them failed: its calls would stay open.
 */
size_t attach__file(struct attach *a, int fd, struct attach_req *reqs, size_t n);
/* What an error of a request says; static text. */
const char *attach__why(int err);
void attach__remove(struct attach *a, unsigned int group);
/* Detach all: many descriptors, each with its own grace period, closed by parallel threads. */
void attach__detach(struct attach *a);
void attach__free(struct attach *a);
size_t attach__links(const struct attach *a);

/* ---- the catalogue: which symbol serves which event (ascend-abi.md 4.1) ---- */

/* Classes of probes that options switch on. */
#define CLASS_SYSTEM 0x01u /* aclInit, devices, streams: always */
#define CLASS_HAL 0x02u
#define CLASS_POOL 0x04u /* PTA, MindSpore */
#define CLASS_MSTX 0x08u
#define CLASS_LAUNCH 0x10u
#define CLASS_OPS 0x20u /* operators of torch: only when asked for */
#define CLASS_TORCH_MARK 0x40u /* torch_npu.npu.mstx, whose marks no tool inside sees */
#define CLASS_ATB 0x80u /* runners of ATB */
#define CLASS_ATB_KERNEL 0x100u /* and their kernels */
#define CLASS_ALL                                                                      \
	(0x1fu | CLASS_TORCH_MARK | CLASS_ATB | CLASS_ATB_KERNEL) /* but for operators \
								   */

enum probe_kind {
	PROBE_ENTRY, /* entry only */
	PROBE_CALL, /* entry and return: C functions that no exception leaves */
	PROBE_RETS, /* entry and `ret` sites: C++ */
	PROBE_EXITS, /* `ret` sites only: a result is wanted, not the call */
	PROBE_PYTHON, /* Python method: entry, and `ret` sites for the guard */
	PROBE_OPS, /* all operators of a library: each its entry and `ret` sites */
};

struct probe_def {
	const char *lib; /* fnmatch pattern of the file's base name */
	const char *symbol[3]; /* first one present wins; the rest NULL */
	const char *prog; /* program, without _e, _r, _s but for PROBE_ENTRY and PROBE_PYTHON */
	uint8_t kind; /* enum probe_kind */
	uint8_t nargs; /* integer arguments that the site must keep */
	uint8_t name_kind;
	uint16_t klass; /* CLASS_* */
	uint16_t fn; /* enum mt_fn */
	uint16_t flags; /* MT_SITE_* */
	int8_t arg[5];
	uint16_t off[4];
};

const struct probe_def *catalogue__defs(size_t *n);
/* Patterns of base names of all libraries in the catalogue. */
const char *const *catalogue__libs(size_t *n);
const char *catalogue__libs_text(void); /* the same for people */
bool catalogue__wants(const char *base);
/* Libraries of classes beyond CLASS_ALL are wanted only after this. */
void catalogue__use(unsigned int classes);

/* ---- prober: probes in files ---- */

struct prober;

struct prober_opts {
	unsigned int classes; /* CLASS_* */
	bool ret_sites; /* `ret` sites instead of uretprobes everywhere */
	bool stacks; /* events of memory have call stacks (progs__stacks) */
	bool dry_run; /* find everything, attach nothing */
	/* CLASS_OPS */
	const char *ops; /* extended regular expression on names like aten.add.Tensor, NULL: all */
	bool op_rows; /* their starts and ends */
	bool access; /* their tensors */
	bool lists; /* … in lists, too */
	bool atb_access; /* CLASS_ATB: tensors of runners */
	bool kernel_access; /* CLASS_ATB_KERNEL: and of kernels */
};

/* Where the kernel has no uprobe_multi, of operators at most so many are probed. */
#define OPS_WITHOUT_MULTI 200

/* One wanted probe in one file, for reports. */
struct probe_report {
	const struct probe_def *def;
	const char *symbol;
	uint64_t off; /* 0 when not found */
	char insn[24];
	const char *cost; /* "emulated", "stepped", "-" */
	const char
		*returns; /* "session", "uretprobe", "ret sites"; "-" where only entries are seen */
	const char *how; /* "symbol", "derived", "method table" */
	const char *state; /* "attached", "found", "missing", "failed", "withdrawn" */
	bool same; /* "failed", for another probe stands on this code and sees all of it */
	char why[96];
	bool unfilled; /* missing, but named in the file: code may fill its method table in */
	bool sure; /* … by a text of its own: no tail of another that just ends so */
	uint64_t time; /* attached by prober__look: boot time from which on it sees; else 0 */
};

/* One that was to be there and is not: something is not seen. */
bool probe_report__failed(const struct probe_report *r);

struct pymethods;

struct probed_file {
	unsigned int no;
	char *path; /* as first seen */
	uint64_t dev, ino, size;
	struct timespec mtime, ctime;
	bool overlay; /* seen through an overlay file system */
	uint64_t attach_time; /* boot time */
	int pta_layout; /* enum pta_layout */
	int pta_generation;
	struct pta_derived pta; /* of libtorch_npu */
	bool pta_done;
	bool segments; /* libtorch_npu, and nothing shows its tensors: only the driver's segments */
	bool withdrawn; /* a probe of its allocator failed the self-check */
	char withdraw_why[96];
	const char *instead; /* what was probed then */
	uint64_t instead_time; /* and from when on, boot time */
	int fd; /* for a fall-back or prober__look, -1 = neither is wanted */
	size_t unfilled; /* reports of this kind */
	struct pymethods *methods; /* and where their names are */
	struct probe_report *reports;
	size_t n_reports;
	size_t attached;
};

struct prober *prober__new(struct progs *progs, const struct features *f,
			   const struct prober_opts *opts);
void prober__free(struct prober *pr); /* detaches */
/*
 * Probe a file, once per (device, inode). `pid` may be 0; with a process that
 * has it mapped, what is unfilled is looked for there (prober__look).
 * 1 newly probed, 0 known already or nothing wanted in it, -errno.
 */
int prober__add(struct prober *pr, int fd, const char *path, pid_t pid);
/*
 * Python methods of a file that no table in it names (unfilled): find them in the
 * memory of a process that has it mapped and has imported the module, and probe
 * them; where several have it, any will do. Number of methods found, which are
 * then no longer unfilled; 0 the table is not filled yet; -ESRCH the process has
 * gone or has not mapped the file; -errno its memory cannot be read.
 */
int prober__look(struct prober *pr, unsigned int file_no, pid_t pid);
/* What is known of the file behind fd, NULL if it is not probed. */
const struct probed_file *prober__file_of(const struct prober *pr, int fd);
/* The file and definition of a site number; NULL for an unknown one. */
const struct probed_file *prober__site_file(const struct prober *pr, unsigned int site);
const char *prober__site_name(const struct prober *pr, unsigned int site);
unsigned int prober__site_fn(const struct prober *pr, unsigned int site); /* enum mt_fn */
unsigned int prober__sites(const struct prober *pr); /* numbers below this exist */
bool prober__site_is_return(const struct prober *pr, unsigned int site);
/*
 * The probe of a file's allocator failed its self-check: take it away, and attach
 * the next best (ascend-abi.md 4.1). 0, or -ENOENT when only segments are left.
 */
int prober__withdraw(struct prober *pr, unsigned int file_no, const char *why);
/* Name of an operator by its number, "aten.add.Tensor"; NULL for an unknown one. */
const char *prober__op(const struct prober *pr, uint32_t no);
/* Operators of a library that are wanted and not probed for being too many; 0 = none. */
size_t prober__ops_refused(const struct prober *pr);
/* Operators probed, in all libraries. */
size_t prober__ops(const struct prober *pr);
/*
 * Allocators of the host (hostmem.c). Is the file behind fd one? Looked at once; a number above 0,
 * 0 it is none, -errno.
 */
int prober__host_file(struct prober *pr, int fd, const char *path);
/*
 * Can this file, by its name, be one? What takes the place of malloc is the program, preloaded, or
 * has a known name.
 */
bool hostmem__is_likely(const char *path);
/*
 * Its probes, in one process; *a is made when it is NULL, and is the caller's: attach__free. 0, or
 * -errno when none of them could be attached.
 */
int prober__host_attach(struct prober *pr, int file, pid_t pid, struct attach **a);
void prober__detach(struct prober *pr);
const struct probed_file *prober__file(const struct prober *pr, size_t i); /* NULL at the end */
size_t prober__attached(const struct prober *pr);
const char *prober__mechanism(const struct prober *pr); /* as features__mechanism, never NULL */

#endif
