// SPDX-License-Identifier: Apache-2.0
/* Room for mappings and tables: waited for, made, not taken from who still has it. */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/unwind_store.h"
#include "target/target.h"
#include "unwind_test.h"

#define MS 1000000ULL
#define QUARANTINE_US 250000

static unsigned int maps_put;
static bool untouched = true;
static struct mt_uw_proc child; /* n 0: there is none */

static int count_maps(void *ctx, uint32_t first, const struct mt_uw_map *m, uint32_t n)
{
	maps_put++;
	return put_maps(ctx, first, m, n);
}

static bool has(void *ctx, pid_t pid, const struct mt_uw_proc *p, const struct mt_uw_map *m)
{
	return untouched;
}

static void owners(void *ctx, void (*fn)(void *to, const struct mt_uw_proc *p), void *to)
{
	fn(to, &kernel.proc);
	if (child.n)
		fn(to, &child);
}

static struct unwind_store *open_store(void)
{
	struct unwind_sink sink = to_arrays;
	struct unwind_store *s;

	sink.maps = count_maps;
	sink.has = has;
	sink.owners = owners;
	arrays__init();
	cr_assert_eq(unwind_store__new(&sink, 0, -1, &s), 0);
	return s;
}

static void close_store(struct unwind_store *s)
{
	unwind_store__free(s);
	arrays__fini();
}

/* All rows are there: what is read from then on is one thing. */
static void read_whole(struct unwind_store *s)
{
	cr_assert_eq(unwind_store__process(s, getpid()), 0);
	maps_put = 0;
}

/* One more mapping of code. */
static void *map_code(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	cr_assert(p != MAP_FAILED);
	close(fd);
	return p;
}

Test(stack_room, mappings_wait)
{
	struct unwind_store *s = open_store();
	struct unwind_stats st;
	uint32_t first, n = MT_UW_MAX_MAPS - 2;
	uint64_t again, now;

	/* All tables are there: nothing else is to be waited for. */
	read_whole(s);
	unwind_store__forget(s, getpid());
	kernel.has_proc = false;
	memset(&kernel.proc, 0, sizeof(kernel.proc));
	usleep(QUARANTINE_US);
	unwind_store__settle(s);
	cr_assert_eq(spans__take(&s->maps, n, &first), 0);
	cr_expect_eq(unwind_store__look(s, getpid(), &again), -ENOSPC);
	unwind_store__stats(s, &st);
	cr_expect_eq(st.procs_lost, 1);
	cr_expect_eq(st.maps_waited, 1);
	cr_expect(!kernel.has_proc && again > 1, "it is not looked at again");
	/* Now some is given back, which is free a moment later. */
	unwind_store__give(s, HELD_MAPS, (struct span){ first, n });
	now = clock__boot();
	cr_expect_eq(unwind_store__look(s, getpid(), &again), -ENOSPC);
	cr_expect(again > now && again < now + 300 * MS);
	usleep(QUARANTINE_US);
	cr_expect_eq(unwind_store__look(s, getpid(), &again), 0);
	unwind_store__stats(s, &st);
	cr_expect(kernel.has_proc && st.procs_lost == 0, "%u", st.procs_lost);
	/* When there is none for what it has now, what it had stays. */
	cr_assert_eq(spans__take(&s->maps, s->maps.free[s->maps.n - 1].n, &first), 0);
	while (s->maps.n)
		cr_assert_eq(spans__take(&s->maps, s->maps.free[0].n, &first), 0);
	munmap(map_code(), 4096);
	map_code();
	cr_expect_eq(unwind_store__look(s, getpid(), &again), -ENOSPC);
	cr_expect(kernel.has_proc && again);
	close_store(s);
}

Test(stack_room, identical_ones)
{
	struct unwind_store *s = open_store();
	uint64_t again;
	size_t held;
	uint32_t gen;
	void *p;
	int i;

	read_whole(s);
	held = s->n_held;
	gen = kernel.proc.gen;
	for (i = 0; i < 50; i++)
		cr_assert_eq(unwind_store__look(s, getpid(), &again), 0);
	cr_expect_eq(maps_put, 0);
	cr_expect_eq(s->n_held, held, "nothing is given back");
	cr_expect_eq(kernel.proc.gen, gen);
	p = map_code();
	cr_assert_eq(unwind_store__look(s, getpid(), &again), 0);
	cr_expect_eq(maps_put, 1);
	cr_expect(kernel.proc.gen != gen);
	munmap(p, 4096);
	cr_assert_eq(unwind_store__look(s, getpid(), &again), 0);
	cr_expect_eq(maps_put, 2);
	/* The programs have taken something away. */
	untouched = false;
	cr_assert_eq(unwind_store__look(s, getpid(), &again), 0);
	cr_expect_eq(maps_put, 3);
	close_store(s);
}

static bool is_free(const struct unwind_store *s, uint32_t i)
{
	uint32_t k;

	for (k = 0; k < s->maps.n; k++)
		if (i >= s->maps.free[k].first && i < s->maps.free[k].first + s->maps.free[k].n)
			return true;
	return false;
}

Test(stack_room, of_a_child)
{
	struct unwind_store *s = open_store();
	struct mt_uw_map before;
	uint32_t first, n;
	uint64_t again;
	struct ufile *f;

	read_whole(s);
	/* Born now, and not read for a while; the parent maps something, and ends. */
	child = kernel.proc;
	first = child.first;
	before = kernel.maps[first];
	f = s->files[before.file - 1];
	map_code();
	cr_assert_eq(unwind_store__look(s, getpid(), &again), 0);
	cr_assert(kernel.proc.first != first);
	usleep(QUARANTINE_US);
	unwind_store__settle(s);
	cr_expect(!is_free(s, first), "others may have it now");
	unwind_store__forget(s, getpid());
	memset(&kernel.proc, 0, sizeof(kernel.proc));
	usleep(QUARANTINE_US);
	unwind_store__settle(s);
	cr_expect(!is_free(s, first));
	/* Its tables stay as well. */
	s->since = s->clock;
	cr_expect_gt(f->procs, 0);
	cr_expect_eq(unwind_room__make(s, (struct room){ MT_UW_MAX_PAGES, 1 }),
		     unwind_store__next(s, HELD_MAPS));
	cr_expect(f->n_pages > 0);
	/* Until it is read, or has ended. */
	n = child.n;
	child.n = 0;
	usleep(QUARANTINE_US);
	unwind_store__settle(s);
	cr_expect(is_free(s, first) && is_free(s, first + n - 1));
	cr_expect_eq(f->procs, 0);
	close_store(s);
}

/* ---- tables ---- */

struct lib {
	struct ufile *f;
	int fd;
};

static struct lib libs[64];
static size_t n_libs;

static int open_lib(void *ctx, const struct mapping *m)
{
	struct unwind_store *s = ctx;
	int fd = mapping__open(getpid(), m);
	struct ufile *f = fd < 0 ? NULL : unwind_store__file(s, fd, m->path);
	size_t i;

	for (i = 0; i < n_libs; i++)
		if (libs[i].f == f)
			f = NULL;
	if (f && n_libs < 64 && ufile__waits(f)) {
		unwind_store__build(s, f, fd);
		if (f->n_pages)
			libs[n_libs++] = (struct lib){ f, fd };
	}
	return 0;
}

/* Tables of nobody, and no page that is free. */
static struct ufile *fill(struct unwind_store *s, int *fd)
{
	struct ufile *f;
	uint32_t first;

	cr_assert_eq(proc__each_mapping(getpid(), open_lib, s), 0);
	cr_assert(n_libs >= 4);
	while (s->pages.n)
		cr_assert_eq(spans__take(&s->pages, s->pages.free[0].n, &first), 0);
	*fd = open(STACKER, O_RDONLY | O_CLOEXEC);
	f = unwind_store__file(s, *fd, STACKER);
	cr_assert(f && f->n_code);
	s->since = s->clock;
	return f;
}

static size_t with_table(void)
{
	size_t i, n = 0;

	for (i = 0; i < n_libs; i++)
		n += libs[i].f->n_pages > 0;
	return n;
}

Test(stack_room, tables_go)
{
	struct unwind_store *s = open_store();
	uint64_t again = 0, now;
	int fd;
	struct ufile *f = fill(s, &fd), *old = libs[0].f;
	size_t i;

	for (i = 0; i < n_libs; i++)
		if (libs[i].f->used < old->used)
			old = libs[i].f;
	cr_assert(unwind_store__may_build(s, f, &again), "nobody knows what it takes");
	unwind_store__build(s, f, fd);
	cr_assert_eq(f->err, -ENOSPC);
	cr_assert(ufile__waits(f), "it is not tried again");
	cr_expect_eq(with_table(), n_libs);
	cr_assert_leq(f->need.pages, old->n_pages);
	now = clock__boot();
	cr_expect(!unwind_store__may_build(s, f, &again));
	/* One is enough, the oldest: the others stay. */
	cr_expect_eq(with_table(), n_libs - 1, "%zu of %zu", with_table(), n_libs);
	cr_expect(!old->n_pages && old->evicted);
	cr_expect(again > now && again < now + 300 * MS);
	cr_expect_eq(s->stats.no_room, 0);
	/* Not before nobody reads it any more, and then without another one going. */
	cr_expect(!unwind_store__may_build(s, f, &again));
	usleep(QUARANTINE_US);
	cr_assert(unwind_store__may_build(s, f, &again));
	unwind_store__build(s, f, fd);
	cr_expect_eq(f->err, 0);
	cr_expect(f->n_pages > 0 && !ufile__waits(f));
	cr_expect_eq(with_table(), n_libs - 1);
	cr_expect_eq(s->stats.evicted, 1);
	close_store(s);
}

Test(stack_room, tables_stay)
{
	struct unwind_store *s = open_store();
	uint64_t again = 0, now = clock__boot();
	int fd;
	struct ufile *f = fill(s, &fd);
	size_t i;

	for (i = 0; i < n_libs; i++)
		libs[i].f->procs++;
	unwind_store__build(s, f, fd);
	cr_expect(!unwind_store__may_build(s, f, &again));
	cr_expect_eq(with_table(), n_libs);
	cr_expect_eq(s->stats.no_room, 1);
	cr_expect(again > now + 1000 * MS);
	/* It is tried again, and counted once. */
	f->retry = 0;
	cr_expect(!unwind_store__may_build(s, f, &again));
	cr_expect_eq(s->stats.no_room, 1);
	for (i = 0; i < n_libs; i++)
		libs[i].f->procs--;
	f->retry = 0;
	cr_expect(!unwind_store__may_build(s, f, &again));
	usleep(QUARANTINE_US);
	cr_assert(unwind_store__may_build(s, f, &again));
	unwind_store__build(s, f, fd);
	cr_expect_eq(f->err, 0);
	cr_expect_eq(s->stats.no_room, 0);
	close_store(s);
}

/* A file with code at both ends of an address space takes no room from others. */
Test(stack_room, of_one_file)
{
	struct unwind_store *s = open_store();
	const uint32_t pages = MT_UW_MAX_PAGES / 8;
	struct unwind_table t = { .n_pages = pages, .pages = calloc(pages + 1, sizeof(*t.pages)) };
	struct room r = unwind_room__of(s, &t);

	cr_expect(r.pages == pages && r.chunks == 1);
	cr_expect(!unwind_room__too_large(s, r));
	t.n_pages++;
	cr_expect(unwind_room__too_large(s, unwind_room__of(s, &t)));
	/* Rows of a page lie in one chunk. */
	t.n_pages = 3;
	t.pages[0].n = t.pages[1].n = t.pages[2].n = MT_UW_CHUNK / 2 + 1;
	cr_expect_eq(unwind_room__of(s, &t).chunks, 3);
	t.pages[0].n = t.pages[1].n = MT_UW_CHUNK / 2;
	cr_expect_eq(unwind_room__of(s, &t).chunks, 2);
	cr_expect(unwind_room__too_large(s, (struct room){ 1, MT_UW_MAX_CHUNKS / 4 + 1 }));
	free(t.pages);
	close_store(s);
}

/* ---- the place of a process in the map of the programs ---- */

static int procs_map(uint32_t n)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "procs", 4, sizeof(struct mt_uw_proc), n, NULL);

	cr_assert(fd >= 0, "needs root and BPF: %s", strerror(errno));
	return fd;
}

Test(stack_room, exec_in_between)
{
	struct unwind_maps m = { .procs = procs_map(16) };
	struct unwind_sink to = unwind_maps__sink(&m);
	struct mt_uw_proc p = { .first = 5, .n = 3, .gen = 9, .owner = 7 }, got;
	uint32_t key = 7;

	to.look(to.ctx, 7);
	cr_assert_eq(bpf_map_lookup_elem(m.procs, &key, &got), 0);
	cr_expect_eq(got.n, 0, "nothing is known yet");
	cr_expect_eq(to.proc(to.ctx, 7, &p), 0);
	cr_expect(to.has(to.ctx, 7, &p, NULL));
	/* What a child has of its parent stays until it is read. */
	to.look(to.ctx, 7);
	cr_expect(to.has(to.ctx, 7, &p, NULL));
	/* Another program, from after its mappings were read on: they are not its. */
	to.look(to.ctx, 7);
	bpf_map_delete_elem(m.procs, &key);
	cr_expect_eq(to.proc(to.ctx, 7, &p), -ENOENT);
	cr_expect(bpf_map_lookup_elem(m.procs, &key, &got), "of the program before");
	cr_expect(!to.has(to.ctx, 7, &p, NULL));
	close(m.procs);
}

static void count(void *to, const struct mt_uw_proc *p)
{
	++*(unsigned int *)to;
}

Test(stack_room, many_processes)
{
	struct unwind_maps m = { .procs = procs_map(4) };
	struct unwind_sink to = unwind_maps__sink(&m);
	struct mt_uw_proc p = { .n = 1, .owner = 1 };
	unsigned int n = 0;
	pid_t i;

	for (i = 1; i <= 4; i++)
		to.look(to.ctx, i);
	to.owners(to.ctx, count, &n);
	cr_expect_eq(n, 4);
	/* No place is no exec. */
	to.look(to.ctx, 5);
	cr_expect_eq(to.proc(to.ctx, 5, &p), -E2BIG);
	close(m.procs);
}
