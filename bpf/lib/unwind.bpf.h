/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One step up a stack, by the rows of memtap/unwind.h.
 *
 * Compiled for BPF and, as it is, for user space, where stored stacks are walked
 * by it (tests/unit/stack_walk.c). Whoever includes it gives the access first:
 *
 *   uw_read(dst, n, addr)                                memory of the target; 0 or negative
 *   uw_peek(dst, n, addr)                                the same, without waiting for a page
 *   uw_map_at, uw_page_at, uw_rule_at, uw_chunk_at(i)    pointer or NULL
 *   uw_replaced(u)                                       1: u->pc is where return probes lead
 *                                                        to, and is now what stood at u->slot
 *                                                        before one took it
 *
 * and UW_ARM64 for stacks of aarch64. There the rows of all functions are kept as
 * on x86-64, not only those of the few that a walk by frame records gets wrong:
 *
 *   - a compiler puts the record at the lower end of the frame (gcc) or anywhere, so
 *     who follows records does not know sp, which the rows of a caller without a
 *     record count from (libc's read, open, nanosleep: x30 saved, x29 not);
 *   - the first frame, and one that a signal interrupted, needs rows at each
 *     instruction of a prologue and an epilogue: two of a function's three;
 *   - they are fewer: libtorch_cpu 2.7.1 has 0.97 million of 4 bytes and builds in
 *     0.6 s, on x86-64 2.65 million and 1.0 s; libtorch_npu 0.21 and 0.47 million.
 *
 * Records are followed where there are no rows. Limits: frames of SVE functions, whose
 * size is no constant (MT_END_RULE; sleef in libtorch_cpu); code above 48 bits, which a
 * program gets only if it asks for such an address; signal handlers without rows
 * (MT_END_REG: sp is needed); the first instruction of the lazy binder, and all of it
 * under LD_AUDIT, which leave out 16 bytes of their own stack.
 */
#ifndef MEMTAP_UNWIND_BPF_H
#define MEMTAP_UNWIND_BPF_H

#include <memtap/unwind.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifdef UW_LOOP
/* said already */
#elif defined(__clang__)
#define UW_LOOP _Pragma("clang loop unroll(disable)")
#else
#define UW_LOOP
#endif

/*
 * Signal frames. x86-64: the handler returns to the restorer with sp at the
 * ucontext (struct rt_sigframe, arch/x86/include/asm/sigframe.h; gregs of
 * uapi/asm/sigcontext.h). arm64: sp at siginfo (128 bytes), then ucontext with
 * its mcontext at 176 (arch/arm64/kernel/signal.c).
 */
#define UC_X86_FP (40 + 80)
#define UC_X86_SP (40 + 120)
#define UC_X86_PC (40 + 128)
#define UC_A64_REGS (128 + 176 + 8)
#define UC_A64_FP (UC_A64_REGS + 29 * 8) /* then lr, sp, pc */

/* Without tag and signature of pointer authentication, which begins at bit 48. */
#if defined(UW_ARM64)
#define UW_CODE(a) ((a) & ((1ULL << 48) - 1))
#else
#define UW_CODE(a) (a)
#endif

/*
 * Have the word at addr in the window, or know that it must be read by itself. All from where
 * the frame begins up to where the last walk of the thread ended is wanted soon: in one read,
 * or if not all of it is there up to the end of the page.
 */
static __always_inline int uw_in_window(struct mt_uw *u, __u64 addr)
{
	__u64 from = u->sp & ~7ULL, size;

	if (addr & 7)
		return 0;
	if (addr - u->window_at < u->window_size)
		return 1;
	if (addr - from >= MT_UW_GUESS)
		from = addr;
	size = (u->top - from) & ~7ULL;
	if (u->top - from > MT_UW_TALL)
		size = MT_UW_GUESS;
	if (addr - from >= size)
		size = addr - from + 8;
	if (size > MT_UW_WINDOW - 8)
		size = MT_UW_WINDOW - 8;
	/* For the verifier of 6.1, which forgets what the compiler has kept elsewhere. */
	__asm__ volatile("" : "+r"(size));
	size &= MT_UW_WINDOW - 1;
	if (uw_peek(u->window, size, from)) {
		if ((from ^ addr) / MT_UW_WINDOW)
			from = addr;
		size = MT_UW_WINDOW - (from & (MT_UW_WINDOW - 1));
		if (uw_peek(u->window, size, from))
			size = 0;
	}
	u->window_at = from;
	u->window_size = size;
	return size != 0;
}

static __always_inline __u64 uw_word(const struct mt_uw *u, __u64 addr)
{
	return u->window[(addr - u->window_at) / 8 & (MT_UW_WINDOW / 8 - 1)];
}

/* By the window: for what most frames want. The verifier goes through it at each place. */
static __always_inline int uw_near(struct mt_uw *u, __u64 addr, __u64 *v)
{
	if (uw_in_window(u, addr)) {
		*v = uw_word(u, addr);
		return 0;
	}
	*v = 0;
	return uw_read(v, sizeof(*v), addr);
}

static __always_inline int uw_u64(__u64 addr, __u64 *v)
{
	*v = 0;
	return uw_read(v, sizeof(*v), addr);
}

/* The mapping that holds an address; NULL if none. */
static __always_inline struct mt_uw_map *uw_find_map(struct mt_uw *u, __u64 pc)
{
	__u32 lo = 0, hi = u->n, i;
	struct mt_uw_map *m;

	if (u->map) { /* mostly the same as for the frame before */
		m = uw_map_at(u->map - 1);
		if (m && pc >= m->start && pc < m->end)
			return m;
	}
	UW_LOOP
	for (i = 0; i <= MT_UW_MAPS_SHIFT; i++) {
		__u32 mid;

		if (lo >= hi)
			break;
		mid = lo + (hi - lo) / 2;
		m = uw_map_at(u->first + mid);
		if (!m)
			return 0;
		if (pc < m->start) {
			hi = mid;
		} else if (pc >= m->end) {
			lo = mid + 1;
		} else {
			u->map = u->first + mid + 1;
			return m;
		}
	}
	return 0;
}

/* Index of the rule for an address in a file. */
static __always_inline int uw_find_rule(struct mt_uw_map *m, __u64 vaddr, __u32 *rule)
{
	__u64 no = (vaddr >> MT_UW_PAGE_SHIFT) - m->page_no;
	__u32 pc = vaddr & (MT_UW_PAGE - 1), lo, hi, end, i;
	struct mt_uw_chunk *c;
	struct mt_uw_page *p;

	*rule = 0;
	if (no >= m->pages)
		return MT_END_NOROW;
	p = uw_page_at(m->page + (__u32)no);
	if (!p || !p->n)
		return MT_END_NOROW;
	c = uw_chunk_at(p->chunk);
	if (!c)
		return MT_END_NOTABLE; /* taken away just now */
	lo = p->first;
	hi = end = lo + p->n;
	/* The last row at or before pc: lo - 1 when lo and hi have met. */
	UW_LOOP
	for (i = 0; i <= MT_UW_CHUNK_SHIFT; i++) {
		struct mt_uw_row *row;
		__u32 mid;

		if (lo >= hi)
			break;
		mid = (lo + hi) / 2;
		row = &c->rows[mid & (MT_UW_CHUNK - 1)];
		if (row->pc <= pc) {
			*rule = row->rule;
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	/*
	 * No call ends there, and the next byte is a function's first: somebody has put its
	 * address on a new stack, for the last function there to return to (makecontext).
	 */
	if (!*rule && lo < end && c->rows[lo & (MT_UW_CHUNK - 1)].pc == pc + 1)
		return MT_END_ENTRY;
	return MT_END_NOT;
}

/*
 * Code without rows: by its frame record, if that leads further up. On x86-64 the
 * caller's sp is what lies above it; on aarch64 it is not known from then on.
 */
static __always_inline int uw_by_record(struct mt_uw *u, int end)
{
	__u64 rec[2] = {};

	if (u->fp_lost || u->fp < u->sp || (u->fp & 7) || uw_read(rec, sizeof(rec), u->fp) ||
	    UW_CODE(rec[1]) < 4096 || (rec[0] && rec[0] <= u->fp))
		return end;
	u->sp = u->fp + 16;
	u->fp = rec[0];
	u->pc = UW_CODE(rec[1]);
	u->slot = 0;
#if defined(UW_ARM64)
	u->sp_lost = 1;
#endif
	u->exact = u->regs_known = 0;
	if (u->rec.guessed < 255)
		u->rec.guessed++;
	return MT_END_NOT;
}

/* Past a signal frame: the interrupted state. */
static __always_inline int uw_by_signal(struct mt_uw *u)
{
	__u64 at = u->sp;

#if defined(UW_ARM64)
	__u64 r[4] = {};

	if (u->sp_lost)
		return MT_END_REG;
	if (uw_read(r, sizeof(r), at + UC_A64_FP))
		return MT_END_FAULT;
	u->fp = r[0];
	u->lr = r[1];
	u->sp = r[2];
	u->pc = r[3];
#else
	if (uw_u64(at + UC_X86_FP, &u->fp) || uw_u64(at + UC_X86_SP, &u->sp) ||
	    uw_u64(at + UC_X86_PC, &u->pc))
		return MT_END_FAULT;
#endif
	u->exact = 1;
	u->regs_known = u->fp_lost = 0;
	return MT_END_NOT;
}

#if defined(UW_ARM64)
/*
 * Is it what a signal handler returns to? The vdso describes all of itself but that
 * (arch/arm64/kernel/vdso/sigreturn.S says why), so others look at the code too.
 */
static __always_inline int uw_at_sigreturn(__u64 pc)
{
	__u64 code = 0;

	/* mov x8, #139 (__NR_rt_sigreturn); svc #0 */
	return !uw_read(&code, sizeof(code), pc) && code == 0xd4000001d2801168ULL;
}

/*
 * Behind a frame record only a lower bound of sp is known. A function that keeps a
 * record itself says with it where its frame is: x29 points to it at each call.
 */
static __always_inline int uw_cfa_of_record(struct mt_uw *u, const struct mt_uw_rule *r, __u64 *cfa)
{
	if (r->cfa != MT_CFA_SP || r->ra != MT_RA_CFA || r->fp != MT_FP_CFA ||
	    r->fp_off != r->ra_off - 8 || u->fp_lost || u->fp < u->sp || (u->fp & 7))
		return MT_END_REG;
	*cfa = u->fp - (__s64)r->fp_off;
	return MT_END_NOT;
}
#endif

static __always_inline int uw_cfa(struct mt_uw *u, const struct mt_uw_rule *r, __u64 *cfa)
{
#if defined(UW_ARM64)
	if (u->sp_lost && (r->cfa == MT_CFA_SP || r->cfa == MT_CFA_SP_DEREF))
		return uw_cfa_of_record(u, r, cfa);
#endif
	/* Nearly all are of this kind: before the comparisons that a switch becomes. */
	if (r->cfa == MT_CFA_SP) {
		*cfa = u->sp + (__s64)r->off;
		return MT_END_NOT;
	}
	switch (r->cfa) {
	case MT_CFA_FP:
		*cfa = u->fp + (__s64)r->off;
		return u->fp_lost ? MT_END_REG : MT_END_NOT;
	case MT_CFA_REG:
		if (!u->regs_known || r->reg > 16)
			return MT_END_REG;
		*cfa = u->regs[r->reg] + (__s64)r->off;
		return MT_END_NOT;
	case MT_CFA_SP_DEREF:
	case MT_CFA_FP_DEREF:
		if (r->cfa == MT_CFA_FP_DEREF && u->fp_lost)
			return MT_END_REG;
		if (uw_u64((r->cfa == MT_CFA_FP_DEREF ? u->fp : u->sp) + (__s64)r->off, cfa))
			return MT_END_FAULT;
		*cfa += (__s64)r->add;
		return MT_END_NOT;
	case MT_CFA_PLT:
		*cfa = u->sp + (__s64)r->off + ((u->pc & 15) >= (__u32)r->add ? 8 : 0);
		return MT_END_NOT;
	case MT_CFA_END:
		return MT_END_ROOT;
	case MT_CFA_NONE:
		return MT_END_NOROW;
	}
	return MT_END_RULE;
}

/* The caller's state by a rule. */
static __always_inline int uw_by_rule(struct mt_uw *u, const struct mt_uw_rule *r)
{
	__u64 cfa = 0, fp = u->fp, pc = 0;
	int end;

	if (r->cfa == MT_CFA_SIGNAL)
		return uw_by_signal(u);
	end = uw_cfa(u, r, &cfa);
	if (end)
		return end;
	if (r->ra == MT_RA_LR) {
		if (!u->exact)
			return MT_END_REG; /* a call of abort() by a function without a frame */
		pc = u->lr;
	} else if (uw_near(u, cfa + (__s64)r->ra_off, &pc)) {
		return MT_END_FAULT;
	}
	if (r->fp == MT_FP_CFA)
		u->fp_lost = uw_near(u, cfa + (__s64)r->fp_off, &fp) != 0;
	else if (r->fp == MT_FP_DEREF)
		u->fp_lost = u->fp_lost || uw_u64(u->fp + (__s64)r->fp_off, &fp);
	else if (r->fp == MT_FP_OTHER)
		u->fp_lost = 1;
	pc = UW_CODE(pc);
#if defined(UW_ARM64)
	u->slot = cfa; /* sp at the entry, where the link register was taken over */
	/* The processor faults on a use of sp that is not a multiple of 16. */
	if (cfa < u->sp || (cfa == u->sp && !u->exact) || (cfa & 15))
		return MT_END_LOOP;
	u->sp_lost = 0;
#else
	u->slot = cfa + (__s64)r->ra_off;
	if (cfa <= u->sp)
		return MT_END_LOOP;
#endif
	if (!pc)
		return MT_END_ZERO;
	u->sp = cfa;
	u->fp = fp;
	u->pc = pc;
	u->exact = u->regs_known = 0;
	return MT_END_NOT;
}

/* Two hashes, a frame at a time (constants of MurmurHash3's finalisers). */
static __always_inline void uw_hash_two(__u64 *a, __u64 *b, __u64 frame)
{
	*a = (*a ^ frame) * 0xff51afd7ed558ccdULL;
	*a ^= *a >> 29;
	*b = (*b + frame) * 0xc4ceb9fe1a85ec53ULL;
	*b ^= *b >> 31;
}

static __always_inline void uw_hash(struct mt_uw *u, __u64 frame)
{
	uw_hash_two(&u->rec.hash[0], &u->rec.hash[1], frame);
}

/* Where what is found for an address is remembered: an offset in u->memo. Fibonacci hashing. */
static __always_inline __u32 uw_memo_place(__u64 key)
{
	return (__u32)(key * 0x9e3779b97f4a7c15ULL >> (64 - MT_UW_MEMO_SHIFT)) *
	       sizeof(struct mt_uw_memo);
}

static __always_inline struct mt_uw_memo *uw_memo(struct mt_uw *u, __u32 place)
{
	return (void *)u->memo + (place & ((MT_UW_MEMO - 1) * sizeof(struct mt_uw_memo)));
}

/* It has been looked whether there are so many, but the verifier does not see it. */
static __always_inline __u64 *uw_frame_at(struct mt_uw *u, __u32 depth)
{
	__asm__ volatile("" : "+r"(depth));
	return &u->frames[depth & (MT_UW_MAX_FRAMES - 1)];
}

/* Note the frame. */
static __always_inline void uw_note(struct mt_uw *u, __u64 frame)
{
	__u32 depth = u->rec.n;

	*uw_frame_at(u, depth) = frame;
	u->rec.n = depth + 1;
	uw_hash(u, frame);
}

/* Not by a rule, but u->pc is another already. */
#define UW_GONE_ON (-1)

/* A frame that is not remembered: note it, find its rule. UW_GONE_ON, or why the stack ends. */
static __always_inline int uw_search(struct mt_uw *u, struct mt_uw_memo *memo, __u64 key)
{
	__u64 at = u->pc - !u->exact, frame;
	struct mt_uw_rule *r;
	struct mt_uw_map *m;
	__u32 rule = 0;
	int end;

	m = uw_find_map(u, at);
	if ((!m || !m->file) && !u->exact && uw_replaced(u))
		return UW_GONE_ON;
	if (m && m->file)
		frame = (__u64)m->file << MT_FRAME_FILE_SHIFT | ((u->pc - m->bias) & MT_FRAME_ADDR);
	else
		frame = MT_FRAME_RAW | (u->pc & ((1ULL << 56) - 1));
	if (u->exact)
		frame |= MT_FRAME_EXACT;
	uw_note(u, frame);
	if (!m)
		return MT_END_NOMAP;
	if (!m->pages) {
		end = m->file ? MT_END_NOTABLE : MT_END_ANON;
#if defined(UW_ARM64)
		if (uw_at_sigreturn(u->pc))
			return uw_by_signal(u) ?: UW_GONE_ON;
#endif
		return uw_by_record(u, end) ?: UW_GONE_ON;
	}
	end = uw_find_rule(m, at - m->bias, &rule);
	if (end == MT_END_ENTRY && u->exact)
		end = MT_END_NOROW;
#if defined(UW_ARM64)
	if ((end || !rule) && uw_at_sigreturn(u->pc))
		return uw_by_signal(u) ?: UW_GONE_ON;
#endif
	if (end)
		return end;
	r = uw_rule_at(rule);
	if (!r)
		return MT_END_RULE;
	memo->pc = key;
	memo->frame = frame;
	memo->gen = rule ? u->gen : 0;
	memo->rule = *r;
	return MT_END_NOT;
}

/*
 * Note the frame at u->pc and go to its caller. Returns rec.end: why the stack
 * ends here, or MT_END_NOT.
 */
static __always_inline int uw_step(struct mt_uw *u)
{
	__u32 depth = u->rec.n;
	struct mt_uw_memo *memo;
	__u64 key;
	int end;

	if (depth >= MT_UW_MAX_FRAMES || (u->limit && depth >= u->limit))
		return u->rec.end = MT_END_DEEP;
	key = u->pc | (u->exact ? MT_UW_MEMO_EXACT : 0);
	memo = uw_memo(u, uw_memo_place(key));
	if (u->gen && memo->gen == u->gen && memo->pc == key) {
		uw_note(u, memo->frame);
	} else {
		end = uw_search(u, memo, key);
		if (end)
			return u->rec.end = end == UW_GONE_ON ? MT_END_NOT : end;
	}
	return u->rec.end = uw_by_rule(u, &memo->rule);
}

#define UW_RUN 32 /* frames at most: the verifier looks at each */

#if defined(UW_ARM64)
#define UW_ASKEW 15 /* as in uw_by_rule */
#else
#define UW_ASKEW 0
#endif

/*
 * Go up frames whose rules are remembered and of the kind that nearly all are, as uw_step
 * would, but with all that changes in registers: a third of the time. Stops before the
 * first frame that is not so, and has done nothing of it.
 */
static __always_inline void uw_run(struct mt_uw *u)
{
	__u64 pc = u->pc, sp = u->sp, fp = u->fp;
	__u64 h0 = u->rec.hash[0], h1 = u->rec.hash[1];
	__u32 n = u->rec.n, i;
	struct mt_uw_memo *m;

	if (u->exact || u->fp_lost || u->sp_lost || !u->gen)
		return;
	m = uw_memo(u, uw_memo_place(pc));
	UW_LOOP
	for (i = 0; i < UW_RUN; i++) {
		struct mt_uw_memo *up;
		__u64 cfa, slot, at, next;

		if (m->pc != pc || m->gen != u->gen || m->rule.ra != MT_RA_CFA)
			break;
		if (m->rule.cfa == MT_CFA_SP)
			cfa = sp;
		else if (m->rule.cfa == MT_CFA_FP)
			cfa = fp;
		else
			break;
		cfa += (__s64)m->rule.off;
		slot = cfa + (__s64)m->rule.ra_off;
		at = slot - u->window_at;
		if (cfa <= sp || (cfa & UW_ASKEW) || at >= u->window_size || (at & 7))
			break;
		next = UW_CODE(u->window[at / 8 & (MT_UW_WINDOW / 8 - 1)]);
		if (!next || n >= MT_UW_MAX_FRAMES || n == u->limit)
			break;
		if (m->rule.fp == MT_FP_CFA) {
			at = cfa + (__s64)m->rule.fp_off - u->window_at;
			if (at >= u->window_size || (at & 7))
				break;
			fp = u->window[at / 8 & (MT_UW_WINDOW / 8 - 1)];
		} else if (m->rule.fp != MT_FP_SAME) {
			break;
		}
		*uw_frame_at(u, n++) = m->frame;
		uw_hash_two(&h0, &h1, m->frame);
		/* Hashing the address first would be half of the time that a frame takes. */
		up = uw_memo(u, m->next);
		if (up->pc != next) {
			m->next = uw_memo_place(next);
			up = uw_memo(u, m->next);
		}
		m = up;
		pc = next;
		sp = cfa;
#if defined(UW_ARM64)
		u->slot = cfa;
#else
		u->slot = slot;
#endif
	}
	if (!i)
		return;
	u->pc = pc;
	u->sp = sp;
	u->fp = fp;
	u->rec.n = n;
	u->rec.hash[0] = h0;
	u->rec.hash[1] = h1;
	u->regs_known = 0;
}

#endif
