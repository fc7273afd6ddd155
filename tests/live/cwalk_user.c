// SPDX-License-Identifier: Apache-2.0
/* The unwinder in user space on a stopped process, and what it read as a stored stack. */
#include "cwalk_user.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>

#define UW_NO_PEEK /* what a walk reads is stored */
#include "../unit/unwind_test.h"
#include "../unit/stack_words.h"

#define ROOM (64 << 10) /* of a stored stack */
#define MAX_READS 4096

static pid_t target;
static struct unwind_store *store;
static struct {
	uint64_t addr;
	uint32_t n;
} reads[MAX_READS];
static uint32_t n_reads;
static uint64_t looked[MT_UW_MAX_FRAMES]; /* addresses that rows were sought for */
static uint32_t n_looked;

/* What is above sp, read at once: an emulated machine takes its time for each call. */
static struct {
	uint64_t from;
	size_t n;
	char bytes[4096];
} ahead;

static void read_ahead(uint64_t sp)
{
	struct iovec l = { ahead.bytes, sizeof(ahead.bytes) };
	struct iovec r = { (void *)(uintptr_t)sp, sizeof(ahead.bytes) };
	ssize_t n = process_vm_readv(target, &l, 1, &r, 1, 0);

	ahead.from = sp;
	ahead.n = n < 0 ? 0 : (size_t)n;
}

static int read_target(void *dst, uint32_t n, uint64_t addr)
{
	struct iovec l = { dst, n }, r = { (void *)(uintptr_t)addr, n };

	if (n_reads < MAX_READS) {
		reads[n_reads].addr = addr;
		reads[n_reads++].n = n;
	}
	if (addr >= ahead.from && addr + n <= ahead.from + ahead.n) {
		memcpy(dst, ahead.bytes + (addr - ahead.from), n);
		return 0;
	}
	return process_vm_readv(target, &l, 1, &r, 1, 0) == (ssize_t)n ? 0 : -EFAULT;
}

int cwalk_user__read(void *dst, uint32_t n, uint64_t addr)
{
	return read_target(dst, n, addr);
}

int cwalk_user__open(pid_t pid)
{
	int err;

	target = pid;
	arrays__init();
	read_memory = read_target;
	err = unwind_store__new(&to_arrays, 0, -1, &store);
	return err ? err : unwind_store__process(store, pid);
}

void cwalk_user__close(void)
{
	unwind_store__free(store);
	arrays__fini();
}

int cwalk_user__regs(pid_t tid, struct cwalk_regs *out)
{
	struct user_regs_struct r;
	struct iovec v = { &r, sizeof(r) };

	if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &v))
		return -errno;
	memset(out, 0, sizeof(*out));
#if defined(__x86_64__)
	out->pc = r.rip;
	out->sp = r.rsp;
	out->fp = r.rbp;
	memcpy(out->more,
	       (uint64_t[]){ r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9,
			     r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip },
	       sizeof(out->more));
#else
	out->pc = r.pc;
	out->sp = r.sp;
	out->fp = r.regs[29];
	out->lr = r.regs[30];
#endif
	return 0;
}

void cwalk_user__walk(const struct cwalk_regs *r, struct cwalk_frames *f)
{
	static struct mt_uw u;

	memset(&u, 0, sizeof(u));
	u.pc = r->pc;
	u.sp = r->sp;
	u.fp = r->fp;
	u.lr = r->lr;
	memcpy(u.regs, r->more, sizeof(r->more));
#if !defined(UW_ARM64)
	u.regs_known = 1;
#endif
	u.exact = 1;
	u.first = kernel.proc.first;
	u.n = kernel.proc.n;
	u.gen = kernel.proc.gen;
	f->n = n_reads = n_looked = 0;
	read_ahead(r->sp);
	do {
		if (n_looked < MT_UW_MAX_FRAMES)
			looked[n_looked++] = u.pc - !u.exact;
		f->pc[f->n++] = u.pc;
	} while (!uw_step(&u) && f->n <= MT_UW_MAX_FRAMES);
	f->end = u.rec.end;
	f->guessed = u.rec.guessed;
	ahead.n = 0;
}

/* ---- as a file ---- */

static const struct mt_uw_map *map_of(uint64_t pc)
{
	uint32_t i;

	for (i = 0; i < kernel.proc.n; i++) {
		const struct mt_uw_map *m = &kernel.maps[kernel.proc.first + i];

		if (pc >= m->start && pc < m->end)
			return m;
	}
	return NULL;
}

uint64_t cwalk_user__place(uint64_t pc, const char **path)
{
	const struct mt_uw_map *m = map_of(pc);

	*path = m ? unwind_store__path(store, m->file) : NULL;
	if (!*path)
		*path = "-";
	return m ? pc - m->bias : pc;
}

/* The row of an address and its neighbours. Returns how many there are in all. */
static uint32_t rows_at(const struct mt_uw_map *m, uint64_t vaddr, struct mt_uw_row out[3])
{
	const struct mt_uw_page *p;
	const struct mt_uw_row *rows;
	uint64_t no = (vaddr >> MT_UW_PAGE_SHIFT) - m->page_no;
	uint32_t i, k, n = 0;

	if (no >= m->pages)
		return 0;
	p = &kernel.pages[m->page + no];
	if (!p->n)
		return 0;
	rows = kernel.chunks[p->chunk]->rows + p->first;
	for (i = 0; i < p->n && rows[i].pc <= (uint16_t)vaddr; i++)
		;
	for (k = i > 1 ? i - 2 : 0; k < p->n && k < i + 1; k++)
		out[n++] = rows[k];
	return n;
}

static void put_rules_of(FILE *f, bool used[MT_UW_MAX_RULES], const struct mt_uw_row *rows,
			 uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct mt_uw_rule *r = &kernel.rules[rows[i].rule];

		if (!used[rows[i].rule])
			fprintf(f, "rule %u %s %d %d %u fp %s %d ra %s %d\n", rows[i].rule,
				cfa_words[r->cfa], r->off, r->add, r->reg, fp_words[r->fp],
				r->fp_off, ra_words[r->ra], r->ra_off);
		used[rows[i].rule] = true;
	}
}

static void put_maps_of(FILE *f)
{
	static bool rule_used[MT_UW_MAX_RULES];
	static bool map_used[MT_UW_MAX_MAPS];
	struct mt_uw_row rows[3];
	uint32_t i, k, n;

	memset(rule_used, 0, sizeof(rule_used));
	memset(map_used, 0, sizeof(map_used));
	rule_used[0] = true; /* is the same everywhere */
	for (i = 0; i < n_looked; i++) {
		const struct mt_uw_map *m = map_of(looked[i]);
		const char *name, *slash;
		uint64_t vaddr;

		if (!m)
			continue;
		k = (uint32_t)(m - kernel.maps);
		name = unwind_store__path(store, m->file);
		slash = name ? strrchr(name, '/') : NULL;
		if (!map_used[k])
			fprintf(f, "map %u %#jx %#jx %#jx %s\n", k, (uintmax_t)m->start,
				(uintmax_t)m->end, (uintmax_t)m->bias,
				slash  ? slash + 1
				: name ? name
				       : "-");
		map_used[k] = true;
		vaddr = looked[i] - m->bias;
		n = rows_at(m, vaddr, rows);
		put_rules_of(f, rule_used, rows, n);
		while (n--)
			fprintf(f, "row %u %#jx %u\n", k,
				(uintmax_t)((vaddr & ~(uint64_t)(MT_UW_PAGE - 1)) | rows[n].pc),
				rows[n].rule);
	}
}

static void put_memory(FILE *f, uint64_t from, uint64_t to)
{
	static char buf[ROOM + 32];
	struct iovec l = { buf, 0 }, r = { 0 };
	ssize_t n, i, k, m;

	r.iov_base = (void *)(uintptr_t)from;
	r.iov_len = l.iov_len = to - from > ROOM ? ROOM : to - from;
	n = process_vm_readv(target, &l, 1, &r, 1, 0);
	for (i = 0; i < n; i += 32) {
		static const char zeros[32];

		m = n - i < 32 ? n - i : 32;
		if (m == 32 && memcmp(buf + i, zeros, 32) == 0) {
			for (k = i; k + 32 <= n && memcmp(buf + k, zeros, 32) == 0; k += 32)
				;
			fprintf(f, "zeros %#jx %zd\n", (uintmax_t)from + (uintmax_t)i, k - i);
			i = k - 32;
			continue;
		}
		fprintf(f, "bytes %#jx ", (uintmax_t)from + (uintmax_t)i);
		for (k = 0; k < m; k++)
			fprintf(f, "%02x", (unsigned char)buf[i + k]);
		putc('\n', f);
	}
}

/* The stack as far as it was read, from sp on, and what was read elsewhere. */
static void put_all_memory(FILE *f, uint64_t sp)
{
	uint64_t top = sp;
	uint32_t i;

	for (i = 0; i < n_reads; i++)
		if (reads[i].addr >= sp && reads[i].addr + reads[i].n <= sp + ROOM &&
		    reads[i].addr + reads[i].n > top)
			top = reads[i].addr + reads[i].n;
	put_memory(f, sp, top);
	for (i = 0; i < n_reads; i++)
		if (reads[i].addr < sp || reads[i].addr >= top)
			put_memory(f, reads[i].addr, reads[i].addr + reads[i].n);
}

int cwalk_user__store(const char *path, const char *what, const struct cwalk_regs *r,
		      const struct cwalk_note *n)
{
	FILE *f = fopen(path, "we");
	struct utsname host;
	int i;

	if (!f)
		return -errno;
	uname(&host);
	fprintf(f, "memtap-stack 1\narch %s\nwhat %s\n", host.machine, what);
	fprintf(f, "regs pc=%#jx sp=%#jx fp=%#jx lr=%#jx\n", (uintmax_t)r->pc, (uintmax_t)r->sp,
		(uintmax_t)r->fp, (uintmax_t)r->lr);
#if !defined(UW_ARM64)
	fprintf(f, "more");
	for (i = 0; i < 17; i++)
		fprintf(f, " %#jx", (uintmax_t)r->more[i]);
	putc('\n', f);
#endif
	put_maps_of(f);
	put_all_memory(f, r->sp);
	fprintf(f, "frame %#jx\nframe any\n", (uintmax_t)r->pc);
	for (i = 1; i < n->n; i++) {
		if (n->pc[i] == CWALK_ANY)
			fprintf(f, "frame any\n");
		else
			fprintf(f, "frame %#jx\n", (uintmax_t)n->pc[i]);
	}
	fprintf(f, "end %s\nguessed %d\n", end_words[n->end], n->guessed);
	return fclose(f) ? -errno : 0;
}
