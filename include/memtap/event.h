/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire records: what the BPF programs put into the rings and user space reads.
 *
 * Plain structs of fixed-width integers only: no pointers, bool or enum
 * members, explicit padding, 8-byte alignment. New fields go at the end; a
 * reader skips what it does not know by hdr.size.
 *
 * struct mt_hdr (32 bytes), first in every record:
 *
 *   offset  type  field   meaning
 *        0  u16   size    whole record, header included, multiple of 8
 *        2  u8    type    enum mt_rec
 *        3  u8    flags   MT_F_*
 *        4  u16   cpu     processor the record was written on
 *        6  u16   site    index into the `sites` map: which probe fired
 *        8  u32   tgid    process, in the reader's PID namespace
 *       12  u32   tid     thread, likewise
 *       16  u32   start   start time of the process, ticks of 10 ms since boot
 *                         (field 22 of /proc/PID/stat), low 32 bits
 *       20  u16   fn      enum mt_fn: which traced function
 *       22  u16   strlen  bytes of text behind the fixed part, 0 = none
 *       24  u64   time    ns, boot-time clock; of the return for allocations,
 *                         of the entry for frees, marks and launches
 */
#ifndef MEMTAP_EVENT_H
#define MEMTAP_EVENT_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <linux/types.h>
#endif

enum mt_rec {
	MT_REC_NONE = 0,
	MT_REC_CALL = 1,   /* struct mt_call: one finished call of a C function */
	MT_REC_PTA = 2,    /* struct mt_pta: one allocator report of torch_npu */
	MT_REC_FORK = 3,   /* struct mt_task, lifecycle ring */
	MT_REC_EXEC = 4,
	MT_REC_EXIT = 5,
	/* Stacks, when the reader does not have them yet: not events, of neither ring's account. */
	MT_REC_STACK = 6,  /* struct mt_stack (memtap/unwind.h) */
	MT_REC_PYSTACK = 7, /* struct mt_pywalk (memtap/python.h) */
	MT_REC_COPY = 8,   /* struct mt_copy (memtap/unwind.h): of a stack that was cut */
	MT_REC_COPY_PIECE = 9, /* struct mt_copy_piece */
	MT_REC_ACCESS = 10, /* struct mt_access: a tensor of an operator */
	MT_REC_ATB = 11,   /* struct mt_atb: a runner or a kernel of ATB begins or ends */
	MT_REC_ATB_TENSOR = 12, /* struct mt_atb_tensor: a tensor of one */
};

/* a0 of a HAL call that failed: 1 = out of memory outside of any allocation call of acl or rt. */
#define MT_REFUSED_ALONE 1

/* a4 of a HAL allocation: made inside an acl call that torch_npu makes for a segment. */
#define MT_HAL_SEGMENT (1ULL << 32)
/* and at this bit 1 + the logical device that an aclrtSetDevice around it sets, 0 = none */
#define MT_HAL_SETTING 40
#define MT_HAL_SETTING_MAX 254

/* a3 of MindSpore's records */
#define MT_MS_PART  0x1 /* free: inside a call that may keep parts of what it frees */
#define MT_MS_VMM   0x2 /* alloc: reserved is what is mapped of the address range */
#define MT_MS_LOOSE 0x4 /* the totals were read without the pool's lock: may be younger */

#define MT_F_TRUNC  0x01 /* the text was longer than its room */
#define MT_F_NOTEXT 0x02 /* the text could not be read */
#define MT_F_REFS   0x04 /* struct mt_refs stands at the end of the record */

/*
 * Call stacks of an event: the hashes under which they were sent, 0 = none.
 * The last 16 bytes of a record with MT_F_REFS.
 */
struct mt_refs {
	__u64 c, py;
};

/*
 * Traced functions. One number an event meaning, not a symbol: aliases and
 * generations of one function share it. Order is part of the wire format.
 */
enum mt_fn {
	MT_FN_NONE = 0,
	/* HAL: a0 = address or handle, a1 = size, a2 = flag (alloc) or
	 * side | devid << 32 (create), a3 = module_id | pg_type << 32 (create),
	 * a4 = mem_type (create) | MT_HAL_SEGMENT | MT_HAL_SETTING */
	MT_FN_HAL_ALLOC,
	MT_FN_HAL_FREE,     /* a0 = address */
	MT_FN_HAL_CREATE,
	MT_FN_HAL_RELEASE,  /* a0 = handle */
	MT_FN_HOST_REG,     /* a0 = address, a1 = size, a2 = flag */
	MT_FN_HOST_UNREG,   /* a0 = address */
	/* ACL */
	MT_FN_ACL_INIT,
	MT_FN_ACL_FINI,
	MT_FN_SET_DEVICE,   /* a0 = logical device */
	MT_FN_STREAM_ID,    /* a0 = stream, a1 = id */
	MT_FN_OOM,          /* a0 = size, a1 = flag of the last refused halMemAlloc,
	                     * a2 = refused calls within the enclosing one, a3 = enum mt_fn of
	                     * the refused, a4 = its device or -1 */
	MT_FN_FUNC_NAME,    /* a0 = handle or stub; text = kernel name */
	/* runtime launches: a0 = name source (handle, stub or program),
	 * a1 = stream, a2 = tiling key, a3 = enum mt_name; text = kernel name */
	MT_FN_LAUNCH,
	/* mstx: a0 = stream or range id, a1 = domain, a2 = enum mt_mstx_src,
	 * a4 = 1 when Python raised an exception; text = message */
	MT_FN_MSTX_MARK,
	MT_FN_MSTX_START,   /* ret = range id of the library (0: none) */
	MT_FN_MSTX_END,     /* a0 = range id */
	/* MindSpore's pools; text = type name of the pool. a0 = address, a1 = size,
	 * a2 = bytes in use, a4 = bytes reserved, both as the pool counts them at the
	 * return and plus one (0 = not told), a3 = MT_MS_* | address of the pool << 8 */
	MT_FN_MS_ALLOC,
	MT_FN_MS_FREE,      /* the same without a size; ret = 1: not freed (yet) */
	/* fall-backs of torch_npu: a0 = address, a1 = size, a2 = device,
	 * a3, a4 = bytes allocated, reserved as the allocator counts them: at the
	 * return of malloc, at the entry of free; 0 = not readable */
	MT_FN_PTA_ALLOC,
	MT_FN_PTA_FREE,
	MT_FN_PTA_REPORT,   /* struct mt_pta */
	MT_FN_C10_REPORT,   /* struct mt_pta; see there */
	MT_FN_SEGMENT,      /* a0 = address, a1 = size, a2 = policy */
	/* guards: no record of their own */
	MT_FN_ENCLOSING,    /* acl/rt allocation call around halMemAlloc */
	MT_FN_TASK,         /* lifecycle records */
	/* MindSpore: a part of a block that is kept while the rest is freed, and the end of the
	 * call that does it; as MT_FN_MS_ALLOC */
	MT_FN_MS_KEEP,
	MT_FN_MS_PART,
	MT_FN_MS_VMM,       /* the bytes mapped, at its returns; no record of its own */
	/* Operators of torch: a0 = number of the operator; their tensors: struct mt_access */
	MT_FN_ATEN_START,
	MT_FN_ATEN_END,
	/* A request of the process itself (libmemtap_marks.so): a0 = its value, a1 = enum
	 * mt_ask; text */
	MT_FN_ASK,
	/* ATB: a0 = workspace of an operation, a1 = its bytes, a2 = 1: at its end, a3 = 1: of a
	 * release that tells mstx of it */
	MT_FN_ATB_POOL,
	MT_FN_ATB_RUN,      /* struct mt_atb and mt_atb_tensor */
	MT_FN_ATB_KERNEL,   /* the same */
	MT_FN_ATB_LAUNCH,   /* Mki's part of it: records as of MT_FN_ATB_KERNEL */
	/* The C library's allocator. a0 = address, a1 = size, a2 = enum mt_host_call,
	 * a3 = 1: the block that a realloc has taken back, h.time is when it began */
	MT_FN_HOST_ALLOC,
	MT_FN_HOST_FREE,    /* a0 = address, a2 = enum mt_host_call */
	MT_FN_MAX
};

/* Where the name of a launched kernel comes from (a3 of MT_FN_LAUNCH). */
enum mt_name {
	MT_NAME_NONE = 0,   /* no name source: a0 is 0 */
	MT_NAME_HANDLE = 1, /* function handle; text read from the object behind */
	MT_NAME_STUB = 2,   /* host stub address */
	MT_NAME_PROGRAM = 3,/* program handle + tiling key; text as for HANDLE */
	MT_NAME_STRING = 4, /* text passed by the caller */
};

/*
 * What a process asks for, or who controls memtap from outside. First argument of
 * memtap_mark(), so the numbers are an interface: include/memtap/marks.h has them too.
 */
enum mt_ask {
	MT_ASK_NONE = 0,
	MT_ASK_START = 1,    /* rows from here on; text = "FREE,TOTAL" bytes of the device, or empty */
	MT_ASK_STOP = 2,
	MT_ASK_STEP = 3,     /* a step begins */
	MT_ASK_ENTER = 4,    /* what this thread allocates from here on has the owner `text` */
	MT_ASK_LEAVE = 5,    /* no longer */
	MT_ASK_LABEL = 6,    /* the block at the address `value` has the owner `text`, too */
	MT_ASK_CONFIG = 7,   /* text = "--level=…": of what is traced, only this */
	MT_ASK_SNAPSHOT = 8, /* value = device; text = six numbers and a name */
	MT_ASK_MARK = 9,     /* as a mark of mstx */
	MT_ASK_MAX
};

/* Which function of an allocator: name_kind of its sites. */
enum mt_host_call {
	MT_HOST_OTHER = 0,  /* calloc, realloc, memalign … */
	MT_HOST_MALLOC = 1,
	MT_HOST_CFREE = 2,
	MT_HOST_NEW = 3,    /* operators new and delete of an allocator that has its own */
};

enum mt_mstx_src { MT_MSTX_LIB = 0, MT_MSTX_PY = 1 };

struct mt_hdr {
	__u16 size;
	__u8 type;
	__u8 flags;
	__u16 cpu;
	__u16 site;
	__u32 tgid;
	__u32 tid;
	__u32 start;
	__u16 fn;
	__u16 strlen;
	__u64 time;
};

/*
 * struct mt_call: offset 32 u64 begin (entry time), 40 s64 ret (0 for calls
 * whose return is not probed), 48 u64 a[5], 88 text.
 */
struct mt_call {
	struct mt_hdr h;
	__u64 begin;
	__s64 ret;
	__u64 a[5];
};

#define MT_NAME_LEN 128 /* kernel and type names, NUL included */
#define MT_MSG_LEN  256 /* mstx messages; the vendor prints 254 at most */

struct mt_call_name {
	struct mt_call c;
	char text[MT_NAME_LEN];
};

struct mt_call_msg {
	struct mt_call c;
	char text[MT_MSG_LEN];
};

/*
 * struct mt_pta: the 56 bytes of torch_npu's MemoryUsage as they lie in the
 * target (layouts A, B, C: spec ascend-abi.md 2.7.1). For MT_FN_C10_REPORT the
 * arguments of c10::reportMemoryUsageToProfiler are put in the common fields
 * and byte 0, 1 hold the device type and index, byte 2..4 are 0xff.
 */
struct mt_pta {
	struct mt_hdr h;
	__u8 raw[8];
	__u64 ptr;
	__s64 size;
	__s64 allocated;
	__s64 reserved;
	__s64 active;
	__u64 stream;
};

/*
 * struct mt_access: a tensor of an operator, as it lies in the target. raw: the
 * data type (16 bits) and the six bytes behind it, where its device is.
 */
#define MT_ACCESS_DIMS 8

struct mt_access {
	struct mt_hdr h;
	__u32 op;
	__u8 write;    /* its schema says so, or it is a result */
	__u8 result;
	__u8 arg;      /* which argument or result */
	__u8 dims;     /* of them MT_ACCESS_DIMS are here at most */
	__u64 data;    /* address of its storage */
	__s64 offset, numel;
	__u8 raw[8];
	__s64 sizes[MT_ACCESS_DIMS];
};

/* What a struct mt_atb is about. */
enum mt_atb_what { MT_ATB_START = 0, MT_ATB_END, MT_ATB_KERNEL_START, MT_ATB_KERNEL_END };

#define MT_ATB_NAME 128
#define MT_ATB_DIR 256

/*
 * struct mt_atb: an execution of a runner, or of a kernel by one (ascend-abi.md 2.9). sp tells
 * the calls of a thread apart: those around have a higher one.
 */
struct mt_atb {
	struct mt_hdr h;
	__u64 begin;
	__u64 sp;      /* at the entry of Runner::Execute, or of OpsRunner::RunKernel */
	__u64 runner;  /* its address */
	__u64 workspace, bytes; /* of a runner; bytes with those in between of its kernels */
	__u64 count;   /* executions of this runner before; of a kernel: its number in the runner */
	__s64 id;      /* the last of the runner's numbers */
	__u32 ids;     /* how many it has: one more for each graph around it */
	__s32 ret;     /* of an end */
	__u16 what;    /* enum mt_atb_what */
	__u16 name_len, dir_len; /* NOTEXT of the header: name not readable; TRUNC: one is cut */
	__u16 pad;
	char name[MT_ATB_NAME]; /* of the operation, or of the kernel */
	char dir[MT_ATB_DIR];   /* where the runner's tensors would be saved to */
};

/* struct mt_atb_tensor: behind the record of its start or end. raw: as atb::Tensor lies there. */
struct mt_atb_tensor {
	struct mt_hdr h;
	__u64 sp;      /* of the execution */
	__u8 write;    /* an output */
	__u8 kernel;   /* of a kernel */
	__u16 arg;
	__u32 pad;
	__u8 raw[104]; /* data type, format, 8 sizes, how many, address on device and host, bytes */
};

#define MT_ATB_TENSORS 128 /* of an execution looked at: twice what its vectors hold inline */
#define MT_ATB_TENSORS_OLD 12 /* the same without MT_MODE_LONG: 128 take 5.10's and 6.1's verifier over a million */

/* Lifecycle: tgid/tid of the header are the (new) task's. */
struct mt_task {
	struct mt_hdr h;
	__u32 ptgid;   /* FORK: the parent process */
	__u32 code;    /* EXIT: exit code as in task_struct */
	char comm[16];
};

_Static_assert(sizeof(struct mt_hdr) == 32, "wire header");
_Static_assert(sizeof(struct mt_call) == 88, "wire call");
_Static_assert(sizeof(struct mt_pta) == 88, "wire pta");
_Static_assert(sizeof(struct mt_task) == 56, "wire task");
_Static_assert(sizeof(struct mt_access) == 136, "wire access");
_Static_assert(sizeof(struct mt_atb) == 488, "wire atb");
_Static_assert(sizeof(struct mt_atb_tensor) == 152, "wire atb tensor");

/* ---- maps shared by both sides ---- */

/* Why something seen has no record. Order is part of the file format. */
enum mt_loss {
	MT_LOSS_RING = 0,   /* events ring full */
	MT_LOSS_FAULT,      /* target memory was not readable */
	MT_LOSS_INFLIGHT,   /* no room for in-flight state at the entry */
	MT_LOSS_LENGTH,     /* more blocks in one call than are looked at */
	MT_LOSS_MAX
};

#define MT_LOSS_DEVICES 64 /* losses are told apart by these */

struct mt_loss_key {
	__u16 site;
	__u16 reason;
	__s32 device;  /* as the function counts them: torch_npu's allocator logical ones, all
			* else physical; -1 = unknown, or none of the first MT_LOSS_DEVICES */
};

struct mt_loss_val {
	__u64 count;
	__u64 first;
	__u64 last;
};

/* Per site and CPU. seen = submitted + lost, exactly (design.md, Accounting). */
struct mt_site_stat {
	__u64 entry;     /* entries that passed the filter */
	__u64 seen;      /* finished calls: a record was due */
	__u64 submitted; /* records handed to the ring */
	__u64 lost;      /* sum over reasons */
	__u64 orphan;    /* returns without an entry (began before the attach) */
	__u64 stale;     /* entries that replaced an unfinished one of the same key */
	__u64 nested;    /* calls inside one of the same class: no event by rule */
};

/*
 * One probe site. Index = cookie, or the number patched into the program where
 * the kernel has no cookies (5.15).
 */
struct mt_site {
	__u16 fn;        /* enum mt_fn */
	__u16 flags;     /* MT_SITE_* */
	__u16 pair;      /* same number for the entry and the returns of one function */
	__s16 sp_off;    /* sp at the site + sp_off = sp at function entry */
	__s8 arg[5];     /* indices of the integer arguments a[i] comes from, -1 = none; of
			  * MindSpore 1..3: where its statistics have bytes in use, reserved and
			  * reserved besides, in words of 8 bytes */
	__u8 name_kind;  /* enum mt_name, launches */
	__u16 off[4];    /* offsets in structs of the target, by fn */
	__u16 pad;
};

#define MT_SITE_OFF 0x8000 /* not all probes of its file are attached yet: sees nothing */
#define MT_SITE_RC_ADDR 0x0001 /* allocators: the result is the address itself */
#define MT_SITE_GUARD   0x0004 /* Python marks: the returns are probed, nesting can be told */
#define MT_SITE_SEGMENT 0x0008 /* allocation calls as torch_npu makes them; arg[2] = policy */
#define MT_SITE_BESTFIT 0x0010 /* MindSpore: of its older pool */
#define MT_SITE_STACK   0x0020 /* its events have call stacks, if any are asked for */
#define MT_SITE_ACCESS  0x0040 /* operators: their tensors are asked for */
#define MT_SITE_NO_OPS  0x0080 /* … and nothing else: no starts and ends */
#define MT_SITE_NOTIFY  0x0002 /* h.time is that of the entry, not of the return */

/* How an operator returns tensors: its result is */
enum mt_op_out {
	MT_OUT_NONE = 0,
	MT_OUT_VALUES, /* the address of a tuple, last one first */
	MT_OUT_REF,    /* the address of one of the arguments */
	MT_OUT_REFS,   /* that of a tuple of such, last one first */
	MT_OUT_LIST,   /* of {first, behind the last} */
};

enum mt_op_from {
	MT_FROM_RC = 0, /* the register for results */
	MT_FROM_BX,     /* x86-64: a register that calls keep */
	MT_FROM_R12,
	MT_FROM_R13,
	MT_FROM_R14,
	MT_FROM_R15,
	MT_FROM_BP,
	MT_FROM_FRAME,  /* the word at rbp + disp */
};

#define MT_OP_COMPOSITE  0x01 /* made of other operators by torch */
#define MT_OP_VIEW       0x02 /* a result shares memory with an argument */
#define MT_OP_NO_ACCESS  0x04 /* the vendor's tool has no access of it */
#define MT_OP_NO_INPUTS  0x08 /* … only of its results */
#define MT_OP_REDISPATCH 0x10 /* the function behind the gradients */
#define MT_OP_CUT        0x20 /* not all of its tensors are here */

#define MT_OP_ARGS 12
#define MT_OP_OUTS 8
#define MT_OP_LIST 256 /* tensors of a call looked at */
#define MT_OP_WORDS 24 /* words of arguments */

#define MT_ARG_SURE  0x01 /* no byte says whether there is a tensor */
#define MT_ARG_LIST  0x02 /* the next word is their number */
#define MT_ARG_WRITE 0x04
#define MT_ARG_ILIST 0x08 /* the word is the address of {first, number, kind 0} */

/* An argument: a word that is the address of a tensor, of an optional one, or of several. */
struct mt_op_arg {
	__u8 where;  /* number of the word, registers first */
	__u8 impl;   /* offset of the tensor there, and of the byte */
	__u8 flag;
	__u8 bits;   /* MT_ARG_* */
};

/* An operator. Its number is in the upper half of the cookie, else in off[0] of its site. */
struct mt_op {
	__u64 vaddr;  /* of the instruction that is probed */
	__u16 flags;  /* MT_OP_* */
	__u8 torch;   /* which struct mt_torch */
	__u8 keys;    /* MT_OP_REDISPATCH: number of the word that is the key set */
	__u8 n_args, n_outs;
	__u8 out;     /* enum mt_op_out */
	__u8 from;    /* enum mt_op_from: where the result is at its end */
	__s32 disp;
	__s32 back;   /* where its return address is kept, from the stack pointer at its entry; MT_OP_NO_BACK */
	struct mt_op_arg arg[MT_OP_ARGS];
};

#define MT_OP_NO_BACK 1 /* of struct mt_op: not known */

/* How a library finds what a thread has of its own (ELF Handling For Thread-Local Storage). */
enum mt_tls {
	MT_TLS_INDEX,  /* two words: number of the module, offset in its block */
	MT_TLS_DESC,   /* two words: a function, what it is given */
	MT_TLS_OFFSET, /* one word: from the thread pointer */
};

/* What a libtorch_cpu has where. */
struct mt_torch {
	__u64 tls_slot; /* address of the word or words for the thread's keys, 0 = not known */
	__u64 python;   /* bits of the keys without which no mode sees anything */
	__u16 key_set, place, ndim, storage; /* in TensorImpl; place: offset, numel, data type, device */
	__u16 data;     /* in StorageImpl */
	__u8 autograd;  /* bit of that key, 0 = not known */
	__u8 tls_form;  /* enum mt_tls: what the words are */
	__u8 pad[4];
};

#define MT_MAX_OPS 16384
#define MT_MAX_TORCHES 16

struct mt_cfg {
	__u32 all;          /* 1: every process but self */
	__u32 self;         /* tgid of memtap in its PID namespace */
	__u32 follow;       /* 1: children of targets become targets */
	__u32 pidns_inum;   /* inode of memtap's PID namespace, 0 = the initial one */
	__u64 cgroup_id;    /* 0: no cgroup filter */
	__u32 cgroup_level; /* its depth below the root + 1; 0 until the programs have found it */
	__u32 stopped;      /* 1: the window is over, nothing more is seen */
	__u64 wake_bytes;   /* wake the reader when this much waits in the ring */
	__u32 stacks;       /* MT_STACKS_* */
	__u32 c_frames, py_frames; /* of which so many at most, the innermost */
	__u32 stack_bytes;  /* copied of a stack whose walk is cut; 0: none is */
	__u64 copy_rate;    /* bytes of copies a second of a process, and half of those of all */
	__u64 stack_seed[2]; /* what hashes of stacks begin with */
	/*
	 * Nothing is collected: launches and stacks are not wanted, while the map `starts` holds
	 * one less than this. 0: all is.
	 */
	__u64 pause_at;
	__u32 host;         /* enum mt_host_mode */
	__u32 exact;        /* 1: a process is stopped when such a range opens (--exact-ranges) */
	__u32 stop_uid;     /* only if it is this user's, by its real uid; MT_UID_ANY: anybody's */
	__u32 unused;
};

/* Allocators of the host: when are their calls recorded? */
enum mt_host_mode { MT_HOST_NONE = 0, MT_HOST_RANGES = 1, MT_HOST_ALWAYS = 2 };

/* The text of a range (mstx) within which they are (msleaks.md 10). */
#define MT_HOST_RANGE "report host memory info start"

/* A process inside of such ranges. */
struct mt_host_gate {
	__u64 since;        /* boot time of the first; also tells its ranges from older ones */
	__u32 open;         /* how many are open */
	__u32 pad;
};

/* An open range of this kind: by its id, or without one by its thread. */
struct mt_host_key {
	__u32 tgid;
	__u32 tid;          /* 0: it has an id */
	__u64 id, domain;
};

struct mt_host_range {
	__u64 since;        /* as in the gate */
	__u32 depth;        /* without an id: ranges of the thread that are open, this one too */
	__u32 pad;
};

/* A process that was stopped, and is to be continued by whoever takes this away. */
struct mt_host_stop {
	__u64 time;         /* boot time */
	__u32 start;        /* as in mt_hdr */
	__u32 pad;
};

enum mt_host_what { MT_HOST_OPENED = 1, MT_HOST_CLOSED, MT_HOST_FORKED, MT_HOST_EXECED };

/* Was it stopped for the attach? */
#define MT_UID_ANY (~0U) /* nobody's: (uid_t)-1 */

enum mt_host_stopped {
	MT_STOP_NO = 0,     /* not asked for */
	MT_STOP_SENT,
	MT_STOP_TRACED,     /* no: by ptrace it is another's */
	MT_STOP_OTHERS,     /* no: somebody else stops it just now */
	MT_STOP_FAILED,
	MT_STOP_USER,       /* no: another user's, whom memtap may not continue */
	MT_STOP_BUSY,       /* it is being stopped for another thread's range */
};

/* In the ring `host_notes`: memtap has to do something at once. */
struct mt_host_note {
	__u32 tgid, start;
	__u32 what;         /* enum mt_host_what */
	__u32 stop;         /* enum mt_host_stopped */
	__u64 time;         /* boot time */
};

#define MT_STACKS_C  0x1
#define MT_STACKS_PY 0x2

struct mt_target {
	__u32 start;        /* as in mt_hdr */
	__u32 pad;
};

/* State of an unfinished call. Key: (thread, function, sp at its entry). */
struct mt_inflight_key {
	__u32 tid;
	__u16 pair;
	__u16 pad;
	__u64 sp;
};

struct mt_inflight {
	__u64 begin;
	__u64 a[5];
};

/* Outermost open call of a class on a thread: launches, allocation calls, Python marks. */
enum mt_guard_class { MT_GUARD_LAUNCH = 0, MT_GUARD_ALLOC = 1, MT_GUARD_PYMSTX = 2, MT_GUARD_MS_LIST = 3, MT_GUARD_MS_PART = 4,
	MT_GUARD_MS_VMM = 5, MT_GUARD_OP = 6, MT_GUARD_ATB_POOL = 7, MT_GUARD_ATB_KERNEL = 8, MT_GUARD_ATB_LAUNCH = 9,
	MT_GUARD_ATB_LOOP = 10, MT_GUARD_HOST = 11, MT_GUARD_CALL = 16 /* + enum mt_fn */ };

struct mt_guard_key {
	__u32 tid;
	__u32 class;
};

struct mt_guard {
	__u64 sp;
	__u32 pair;
	__u32 refused;      /* MT_GUARD_ALLOC: halMemAlloc calls that ran out of memory */
	__u64 size, flag;   /* of the last of them; MT_GUARD_MS_VMM: bytes mapped, and when; MT_GUARD_OP: where it returns to */
	__u32 fn;
	__u32 segment;      /* MT_GUARD_ALLOC: as torch_npu calls it for a segment */
	__s32 device;       /* of the last refused call, -1 = unknown; of MT_FN_SET_DEVICE: to be set */
	__s32 place;        /* MT_GUARD_OP: back of struct mt_op */
};

_Static_assert(sizeof(struct mt_site) == 24, "site");
_Static_assert(sizeof(struct mt_op) == 72, "op");
_Static_assert(sizeof(struct mt_torch) == 32, "torch");
_Static_assert(sizeof(struct mt_inflight_key) == 16, "inflight key");

/*
 * Constants that user space patches into a clone of a loaded program: the
 * immediate of `rX = MT_PATCH_*`. MODE bits: what the unpatched base program
 * does must verify on every kernel, so its low bits are 0.
 */
#define MT_PATCH_SITE 0x7e575170
#define MT_PATCH_MODE 0x7e570d00
#define MT_MODE_COOKIE    0x1 /* site number from bpf_get_attach_cookie (5.15) */
#define MT_MODE_CGROUP    0x4 /* filter by cgroup: bpf_get_current_ancestor_cgroup_id (5.15 here) */
#define MT_MODE_CALLED    0x8 /* site number from the map `called`: no cookies, no preemption (below 6.0) */
#define MT_MODE_LONG      0x10 /* loops of over a hundred steps: kernels that have sessions (6.13) */
#define MT_MODE_TENSORS   0x20 /* programs of ATB tell of tensors */
#define MT_MODE_SLEEPABLE 0x2 /* may fault pages in: bpf_copy_from_user (6.0 in uprobes) */

/*
 * A copy of the whole stack takes some 200 numbers. Their statistics are per
 * CPU: 4096 x 56 bytes, 230 KB a processor, 44 MB on a host of 192.
 */
#define MT_MAX_SITES 4096
#define MT_MAX_MAINS 64 /* programs that stubs go on to */
#define MT_CGROUP_DEPTH 32 /* levels of cgroups that are looked at */

#endif
