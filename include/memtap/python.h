/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Python frames of a thread as BPF walks them: what a walker must know of an
 * interpreter, what it leaves. Shared by BPF and user space.
 *
 * Sources: CPython 3.8 to 3.15, Include/internal/pycore_{runtime,pystate,frame,
 * interpframe_structs,debug_offsets}.h; spec ascend-abi.md 3.
 */
#ifndef MEMTAP_PYTHON_H
#define MEMTAP_PYTHON_H

#include <memtap/event.h>

#define MT_PY_DEPTH 128 /* frames of one stack */
/* Frames looked at: those that C calls put between (shims) are not kept. */
#define MT_PY_STEPS 192
/* Threads looked at where the interpreter's list has to be walked. */
#define MT_PY_THREADS 256
#define MT_PY_NONE 0xff /* no such member: of the one-byte offsets */

/*
 * A call of the interpreter's evaluation loop by C (an activation) runs one Python
 * frame or several. The highest byte of mt_py_frame.code, which is no part of an
 * address, is how many activations begin between the frame and the one before it,
 * which it has called: 0 = the same activation runs both. What begins further out than
 * the last frame, which is at least that frame's own if it was walked to, is in
 * mt_py_stack.begins. More than one: activations that run no frame just now (from 3.12
 * on, while what a function leaves is freed).
 */
#define MT_PY_BEGINS_SHIFT 56
#define MT_PY_CODE ((1ULL << MT_PY_BEGINS_SHIFT) - 1)

/* Why a stack is missing or short, or a frame has no name. */
enum mt_py_why {
	MT_PY_OK, /* walked to its outermost frame; named */
	/* of a process: nothing can be walked */
	MT_PY_NO_INTERPRETER, /* it runs no Python */
	MT_PY_NOT_READY, /* the interpreter is not initialised (yet) */
	MT_PY_UNKNOWN_VERSION, /* a release whose layout is not known */
	MT_PY_FREE_THREADED, /* a build without the lock whose layout is not known */
	MT_PY_UNVERIFIED, /* what the layout says is not what the memory holds */
	/* of a stack */
	MT_PY_NO_THREAD, /* the interpreter does not know this thread */
	MT_PY_OTHER_THREAD, /* the state that was found is another thread's */
	MT_PY_MANY_THREADS, /* not among the first MT_PY_THREADS of the list */
	MT_PY_NO_FRAMES, /* it runs no Python function */
	MT_PY_UNREADABLE, /* a page was not there: what follows is missing */
	MT_PY_TOO_DEEP, /* more frames than asked for, or than MT_PY_DEPTH */
	/* of a frame: it has no name */
	MT_PY_CODE_GONE, /* another object is there by now, or none */
	MT_PY_UNCHECKED, /* the walker could not read what tells it from others at its address */
	MT_PY_NOT_CODE, /* it never was a code object: a C function with a frame */
	MT_PY_BAD_CODE, /* its strings or its line table cannot be understood */
	MT_PY_PROCESS_GONE, /* it ended before the code was seen for the first time */
	MT_PY_WHY_MAX,
};

/* How a thread's state is found. */
enum mt_py_find {
	MT_PY_FIND_SLOT, /* *(tp + slot) */
	MT_PY_FIND_BLOCK, /* *(*(tp + slot) + block): keys of glibc from 32 on, musl */
	MT_PY_FIND_LIST, /* the interpreters' lists of threads, by thread id */
};

/* Code and frame members lie within 255 bytes of a base, so that one read gets them. */
struct mt_py_offsets {
	__u8 why; /* enum mt_py_why: only with MT_PY_OK is the rest valid */
	__u8 find; /* enum mt_py_find */
	__u8 shim; /* owners from here on are shims; MT_PY_NONE: there are none */
	__u8 tag; /* low bits of a reference that are no address */

	__s32 slot; /* from the thread pointer */
	__u32 block;
	__s32 self; /* pthread_self() = thread pointer + self */

	__u64 interp_head; /* address of the list of interpreters */
	__u64 none; /* address of None: 3.13 has shims that run it; 0 = not known */
	/* 3.8 to 3.11: where the state is that holds the lock. There a thread keeps that of its
	 * first interpreter, whichever it is in; 0 = it keeps the one it is in. */
	__u64 current;
	__u16 interp_next, threads_head; /* in an interpreter */
	__u16 thread_next, thread_id, native_id; /* in a thread; native_id 0: before 3.11 */
	__u16 frame; /* in a thread: its frame, or (cframe) what points to it */
	__u16 cframe; /* 1: 3.11, 3.12 */
	__u16 cframe_frame;

	/* What is read of a frame, and members from there on. */
	__u8 frame_base, frame_size;
	__u8 frame_code, frame_prev, frame_instr, frame_owner;
	__u8 frame_tlbc; /* free-threaded: which copy of the code runs */
	/* 3.11: is an activation's first, by the bits of a mask; before, with `each`, all are;
	 * later shims tell. */
	__u8 frame_entry, entry_mask, each;
	__u8 base; /* from 3.15 on: the outermost shim is the thread's, counted, and no activation
		    */
	/* Of a code object. */
	__u8 code_base, code_size;
	__u8 code_first, code_name, code_table, code_file;
	__u8 code_version; /* a number that no other code object has (from 3.12), or MT_PY_NONE */
	/* Of a str: length, hash and state, side by side; the text, of ASCII and of others. */
	__u8 str_length, str_ascii, str_compact;

	__u8 lasti; /* 1: the instruction is a number, of units of 1 << lasti_shift bytes */
	__u8 lasti_shift;
	__u16 code_start; /* the code in a code object, where instructions are addresses */
	__u16 code_tlbc; /* free-threaded: the copies of the code */
	__u32 version; /* PY_VERSION_HEX; of 3.8 to 3.10 the minor only */
};

/* Each frame is 16 bytes: equal ones are the same place in the same code. */
struct mt_py_frame {
	__u64 code; /* and MT_PY_BEGINS_SHIFT */
	__u32 check; /* of members of the code object; 0 = they could not be read */
	__s32 at; /* offset of the instruction, bytes; negative = not begun */
};

/* Large: for a map or a ring buffer, not for a stack of BPF. */
struct mt_py_stack {
	__u32 n;
	__u16 why; /* enum mt_py_why */
	__u16 begins; /* activations, behind the last frame */
	__u64 thread; /* address of the thread state */
	__u64 next; /* of MT_PY_UNREADABLE and MT_PY_TOO_DEEP: the frame that is missing */
	struct mt_py_frame frame[MT_PY_DEPTH]; /* innermost first */
	/* The walker's own; what follows need not be sent. Any one-byte offset stays inside. */
	__u8 scratch[256 + 8];
};

/*
 * What the walk that is under way knows already: the check of code objects, what file names
 * are. Its own frames hold them, so that they stay what they are as long as it lasts.
 */
#define MT_PY_MEMO_SHIFT 4

struct mt_py_memo {
	__u64 walk; /* its number */
	struct mt_py_known {
		__u64 key, walk, value;
	} code[1 << MT_PY_MEMO_SHIFT], file[1 << MT_PY_MEMO_SHIFT];
};

/* The walk of one stack; a record of it ends behind the last frame. */
struct mt_pywalk {
	struct mt_hdr h;
	__u64 hash[2]; /* of process and frames; the first is the key, the second verifies it */
	struct mt_py_stack s;
	struct mt_py_memo memo;
};

/*
 * Fits in 32 bits what tells code objects apart that have the same address one after the
 * other. Their strings may have the same addresses too, so `id` is of what these are.
 */
static inline __attribute__((always_inline)) __u32 mt_py_check(__u64 name, __u64 table, __u32 first,
							       __u64 id)
{
	__u64 h = name * 0x9e3779b97f4a7c15ULL;

	h = (h ^ table) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ first) * 0x94d049bb133111ebULL;
	h = (h ^ h >> 32 ^ id) * 0x9e3779b97f4a7c15ULL;
	return (__u32)(h >> 32) | 1;
}

#endif
