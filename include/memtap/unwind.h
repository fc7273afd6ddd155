/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwind rows as the BPF programs read them: plain structs, shared by both sides.
 *
 * The address space of a file (its virtual addresses) is cut into pages of 64 KiB.
 * A page has rows sorted by the low 16 bits of the address from which they hold;
 * a row names a rule. Rules are few (2.2 to 2.7 thousand distinct ones in a whole
 * process with torch, spec ascend-abi.md 5), so a row takes 4 bytes.
 *
 *   address -> mapping of the process -> page of the file -> row -> rule
 */
#ifndef MEMTAP_UNWIND_H
#define MEMTAP_UNWIND_H

#include <memtap/event.h>

#define MT_UW_PAGE_SHIFT 16
#define MT_UW_PAGE (1U << MT_UW_PAGE_SHIFT)

struct mt_uw_row {
	__u16 pc; /* low bits of the first address */
	__u16 rule; /* index of a rule */
};

/* Rows are stored in chunks; those of a page lie in one chunk. */
#define MT_UW_CHUNK_SHIFT 14
#define MT_UW_CHUNK (1U << MT_UW_CHUNK_SHIFT)

struct mt_uw_chunk {
	struct mt_uw_row rows[MT_UW_CHUNK];
};

struct mt_uw_page {
	__u16 chunk;
	__u16 first; /* its first row in the chunk */
	__u32 n; /* rows; 0 = no code that is described */
};

/* How the canonical frame address is computed. */
enum mt_uw_cfa {
	MT_CFA_NONE = 0, /* not described: the stack is cut here */
	MT_CFA_SP, /* sp + off */
	MT_CFA_FP, /* rbp, x29 + off */
	MT_CFA_REG, /* another register + off: known in the first frame only */
	MT_CFA_SP_DEREF, /* *(sp + off) + add */
	MT_CFA_FP_DEREF, /* *(fp + off) + add */
	MT_CFA_PLT, /* sp + off, and 8 more from byte `add` of each 16 on (x86-64 .plt) */
	MT_CFA_SIGNAL, /* the kernel's signal frame at sp */
	MT_CFA_END, /* the outermost frame: its return address is undefined */
	MT_CFA_OTHER, /* described by what is not understood here */
};

/* Where the caller's rbp, x29 is. */
enum mt_uw_fp {
	MT_FP_SAME = 0,
	MT_FP_CFA, /* *(CFA + fp_off) */
	MT_FP_DEREF, /* *(fp + fp_off) */
	MT_FP_OTHER, /* lost: fatal only if it is needed further up */
};

/* Where the return address is. */
enum mt_uw_ra {
	MT_RA_CFA = 0, /* *(CFA + ra_off) */
	MT_RA_LR, /* in the link register: the first frame only */
	MT_RA_OTHER,
};

struct mt_uw_rule {
	__u8 cfa, fp, ra; /* enum mt_uw_cfa, _fp, _ra */
	__u8 reg; /* MT_CFA_REG: its DWARF number */
	__s32 off, add;
	__s32 fp_off, ra_off;
};

/* Index 0 stands for MT_CFA_NONE in every table. */
#define MT_UW_RULE_OTHER 1 /* of the common table: MT_CFA_OTHER */
#define MT_UW_MAX_RULES 16384
#define MT_UW_MAX_PAGES (1U << 17) /* 8 GiB of code in all files together */
#define MT_UW_MAX_CHUNKS 4096 /* of 64 KiB: 256 MiB; how many there may be is an option */
#define MT_UW_MAX_MAPS (1U << 16) /* mappings of all processes together */

/*
 * An executable mapping of a process. Those of a process lie side by side in the
 * map `uw_maps`, sorted by address.
 */
struct mt_uw_map {
	__u64 start, end;
	__u64 bias; /* address in the process - bias = address in the file */
	__u32 file; /* its number, below 1 << MT_FRAME_FILE_BITS; 0 = none */
	__u32 page; /* index of its first page in `uw_pages` */
	__u32 page_no; /* address >> MT_UW_PAGE_SHIFT of that page in the file */
	__u32 pages; /* 0 = no rows (yet) */
};

/* Where the mappings of a process are. Key: tgid in the initial namespace. */
struct mt_uw_proc {
	__u32 first, n;
	__u32 gen; /* of what was read of a process: never the same twice; 0: partly old */
	__u32 owner; /* of the mappings: the process, or the parent whose child it is */
};

#define MT_UW_MAPS_SHIFT 12 /* mappings of a process that are looked at: 4096 */

/*
 * A frame of a stack: number of the file << MT_FRAME_FILE_SHIFT | address in the file, so that
 * it means the same in each process and after its end. The address is a return address,
 * unless MT_FRAME_EXACT says that it is the instruction itself.
 */
#define MT_FRAME_FILE_SHIFT 40
#define MT_FRAME_FILE_BITS 22
#define MT_FRAME_ADDR ((1ULL << MT_FRAME_FILE_SHIFT) - 1)
#define MT_FRAME_EXACT (1ULL << 62)
#define MT_FRAME_RAW (1ULL << 63) /* no file: the address in the process, 56 bits */

#define MT_UW_MAX_FRAMES 256 /* 162 were seen at the import of torch's optimizers */

/* Why a stack ends. MT_END_ROOT to _ENTRY are complete ones. Order is part of the wire format. */
enum mt_uw_end {
	MT_END_NOT = 0, /* not yet */
	MT_END_ROOT, /* its outermost frame says that it is that */
	MT_END_ZERO, /* the return address is 0 */
	MT_END_ENTRY, /* it is the beginning of a function: the stack was made so */
	MT_END_DEEP, /* more frames than have room */
	MT_END_NOMAP, /* an address in no mapping that is known */
	MT_END_ANON, /* code without a file, and no frame record that leads out of it */
	MT_END_NOTABLE, /* the rows of a file are not there (yet) */
	MT_END_NOROW, /* no row for an address of a file that has rows */
	MT_END_RULE, /* a rule that is not understood */
	MT_END_REG, /* a rule on a register whose value is not known any more */
	MT_END_FAULT, /* stack that cannot be read */
	MT_END_LOOP, /* a frame that does not lie above the one before, or askew (aarch64) */
	MT_END_NOPROC, /* the mappings of the process are not there (yet) */
	MT_END_ROOM, /* no place to walk it: no storage for the thread */
	MT_END_GO, /* as MT_END_NOROW, in a file of Go: only user space tells */
	MT_END_MAX
};

/*
 * The copy of a stack that is cut (bpf/lib/stack_copy.bpf.h), behind its definition: the
 * registers of the first frame, and which return addresses a return probe has replaced;
 * then pages of the stack, one a record, from the one with the stack pointer upwards.
 */
#define MT_COPY_PIECE 4096
#define MT_COPY_MAX 65536 /* bytes, and one page more */
#define MT_COPY_RETURNS 16
#define MT_COPY_WORDS 16
#define MT_UW_REGS 33 /* x86-64: 17 by DWARF number, the last one is pc; aarch64: x0 to x30, sp, pc */

struct mt_copy {
	struct mt_hdr h;
	__u64 hash[2]; /* of the stack */
	__u64 trampoline; /* of return probes; 0 = none is open */
	__u64 regs[MT_UW_REGS];
	struct {
		__u64 slot, orig; /* stack pointer at the entry, return address */
	} returns[MT_COPY_RETURNS]; /* the innermost first */
};

struct mt_copy_piece {
	struct mt_hdr h;
	__u64 hash[2];
	__u64 addr; /* of the first byte, a multiple of MT_COPY_PIECE */
	__u8 bytes[MT_COPY_PIECE];
};

/* What became of stacks that could be copied. */
enum mt_copy_count {
	MT_COPY_TAKEN = 0,
	MT_COPY_BUDGET, /* more than a process, or all, may have */
	MT_COPY_RING, /* too much waits in the ring, or it is full */
	MT_COPY_COUNTS
};

/*
 * A stack on the wire, with its frames behind it if the reader does not have them
 * yet. It belongs to the event of the same thread that began at h.time.
 */
struct mt_stack {
	struct mt_hdr h;
	__u64 hash[2]; /* of the frames; the first is the key, the second verifies it */
	__u16 n; /* frames */
	__u8 end; /* enum mt_uw_end */
	__u8 guessed; /* frames that came from frame records, without rows; at most 255 */
	__u32 with; /* 1: the frames follow */
};

/* Programs that one of an event goes on to (kernels without bpf_loop): places in `uw_steps`. */
enum mt_uw_step { MT_UW_STEP_WALK = 0, MT_UW_STEPS };

/*
 * What was found for an address by the last walks of a thread: a walk meets mostly
 * the callers of the one before, and two searches a frame cost twice what reading
 * it does.
 */
#define MT_UW_MEMO 128
#define MT_UW_MEMO_SHIFT 7

struct mt_uw_memo {
	__u64 pc; /* with MT_UW_MEMO_EXACT */
	__u64 frame;
	__u32 gen; /* mt_uw_proc.gen of then */
	struct mt_uw_rule rule;
	__u32 next; /* offset of what is remembered of the caller, if it is the last one again */
	__u32 pad[5];
};
#define MT_UW_MEMO_EXACT (1ULL << 63)

/*
 * The stack is read some KiB at a time: a read costs 100 ns of checks whatever its size,
 * each KiB 45 ns, and frames lie side by side.
 */
#define MT_UW_WINDOW 4096U /* at most; also what a page has at least */
#define MT_UW_GUESS 1024U /* where it is not known how much there is */
#define MT_UW_TALL (1U << 20) /* no stack is taken to be higher */

/* The walk of one stack. */
struct mt_uw {
	__u64 pc, sp, fp, lr;
	__u64 regs[MT_UW_REGS]; /* of the first frame */
	__u32 first, n; /* mappings of the process */
	__u32 map; /* index of the one met last, + 1 */
	__u32 limit; /* frames asked for, 0 = all */
	__u8 exact; /* pc is the instruction, not what follows a call */
	__u8 regs_known; /* regs are those of this frame */
	__u8 fp_lost;
	__u8 always; /* a record also for a stack that the reader has */
	__u8 sp_lost; /* aarch64: sp is a lower bound */
	__u8 copy; /* its stack is copied */
	__u8 once; /* no other event has this stack */
	__u8 pad;
	__u32 gen; /* 0: nothing is remembered */
	__u32 pad2;
	__u64 slot; /* where pc was read from: the stack (x86-64), sp at the entry (aarch64) */
	__u64 words[MT_COPY_WORDS]; /* above the last frame */
	__u64 top; /* where the last walk ended: mostly that of the same thread */
	__u64 window_at; /* address of the first word in the window */
	__u64 window_size; /* bytes; 0: it is empty */
	__u64 window[MT_UW_WINDOW / 8];
	struct mt_stack rec; /* what is sent: with the frames right behind it */
	__u64 frames[MT_UW_MAX_FRAMES];
	struct mt_uw_memo memo[MT_UW_MEMO];
};

_Static_assert(sizeof(struct mt_stack) == 56, "wire stack");
_Static_assert(sizeof(struct mt_copy) == 576, "wire copy");
_Static_assert(sizeof(struct mt_copy_piece) == 4152, "wire copy piece");
_Static_assert(sizeof(struct mt_uw_row) == 4, "row");
_Static_assert(sizeof(struct mt_uw_page) == 8, "page");
_Static_assert(sizeof(struct mt_uw_rule) == 20, "rule");
_Static_assert(sizeof(struct mt_uw_map) == 40, "map");
_Static_assert(sizeof(struct mt_uw_memo) == 64, "memo");

#endif
