// SPDX-License-Identifier: Apache-2.0
/* ATB: where its objects have what, by getters compiled here; its records; rows and their paths. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "model_test.h"
#include "probe/probe.h"

static const char *const compilers[] = { "c++", "aarch64-linux-gnu-g++" };

static int built_fd = -1; /* of the last one */

/* NULL when there is no such compiler. */
static struct elf_image *build(const char *cxx, const char *flags)
{
	char dir[] = "/tmp/memtap-atb-XXXXXX", out[64], cmd[2 * PATH_MAX];
	const char *src = getenv("SRCDIR");
	struct elf_image *img = NULL;

	cr_assert(mkdtemp(dir));
	snprintf(out, sizeof(out), "%s/atb.so", dir);
	snprintf(cmd, sizeof(cmd),
		 "%s -std=gnu++17 -O2 -fPIC -shared -nostdlib -s %s -o %s "
		 "%s/tests/unit/data-derive/fake_atb.cc 2>/dev/null",
		 cxx, flags, out, src ? src : ".");
	if (!system(cmd)) {
		cr_assert_eq(elf_image__open(out, &img), 0);
		if (built_fd >= 0)
			close(built_fd);
		built_fd = open(out, O_RDONLY | O_CLOEXEC);
	}
	unlink(out);
	rmdir(dir);
	return img;
}

Test(atb, where_things_are)
{
	static const struct {
		const char *flags;
		unsigned int operation, kernel, stride;
		bool mstx;
	} forms[] = {
		{ "-D_GLIBCXX_USE_CXX11_ABI=0", 88, 256, 464, false },
		{ "-D_GLIBCXX_USE_CXX11_ABI=1", 160, 256, 464, false },
		{ "-D_GLIBCXX_USE_CXX11_ABI=0 -DVECTOR -DOLD", 112, 256, 432, true },
		{ "-D_GLIBCXX_USE_CXX11_ABI=1 -DVECTOR -fno-omit-frame-pointer", 184, 256, 464, true },
		/* Another distance than that of known tensors: none are read. */
		{ "-D_GLIBCXX_USE_CXX11_ABI=1 -DVECTOR -DODD -O1", 184, 256, 0, true },
	};
	unsigned int i, j, n = 0;

	for (i = 0; i < MT_ARRAY_SIZE(compilers); i++)
		for (j = 0; j < MT_ARRAY_SIZE(forms); j++) {
			struct elf_image *img = build(compilers[i], forms[j].flags);
			struct atb_layout l;

			if (!img)
				continue;
			n++;
			atb__derive(img, &l);
			cr_expect_eq(l.operation, forms[j].operation, "%s %s: %u", compilers[i], forms[j].flags,
				     l.operation);
			cr_expect_eq(l.kernel, forms[j].kernel, "%s %s: %u", compilers[i], forms[j].flags, l.kernel);
			cr_expect_eq(l.stride, forms[j].stride, "%s %s: %u", compilers[i], forms[j].flags, l.stride);
			cr_expect_eq(l.mstx, forms[j].mstx);
			cr_expect_eq(l.in, forms[j].stride ? 16 : 0);
			cr_expect_eq(l.out, forms[j].stride ? 16 + 49 * forms[j].stride + 8 : 0);
			cr_expect_null(l.why);
			elf_image__close(img);
		}
	if (!n)
		cr_skip("no C++ compiler on this machine");
}

Test(atb, not_understood)
{
	struct elf_image *img = build(compilers[0], "-DHIDDEN");
	struct atb_layout l;

	if (!img)
		cr_skip("no C++ compiler on this machine");
	atb__derive(img, &l);
	cr_expect(!l.operation && !l.kernel && l.why);
	elf_image__close(img);
}

/* A library whose layout is not understood is reported, and only what is understood is probed. */
Test(atb, reported)
{
	static const struct {
		const char *file, *flags, *symbol, *state;
	} cases[] = {
		{ "libatb.so", "", "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE", "found" },
		{ "libatb.so", "-DHIDDEN", "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE", "failed" },
		{ "libmki.so", "", "_ZN3Mki10KernelBase3RunERKNS_11LaunchParamERNS_7RunInfoE", "found" },
		{ "libmki.so", "-DHIDDEN", "_ZN3Mki10KernelBase3RunERKNS_11LaunchParamERNS_7RunInfoE", "failed" },
	};
	struct prober_opts opts = { .classes = CLASS_ALL, .dry_run = true };
	struct features f = { 0 };
	unsigned int i, j;

	for (i = 0; i < MT_ARRAY_SIZE(cases); i++) {
		struct prober *pr = prober__new(NULL, &f, &opts);
		struct elf_image *img = build(compilers[0], cases[i].flags);
		const struct probed_file *file;
		bool seen = false;

		if (!img)
			cr_skip("no C++ compiler on this machine");
		cr_assert_eq(prober__add(pr, built_fd, cases[i].file, 0), 1);
		file = prober__file(pr, 0);
		for (j = 0; j < file->n_reports; j++) {
			const struct probe_report *rep = &file->reports[j];

			if (strcmp(rep->symbol, cases[i].symbol))
				continue;
			seen = true;
			cr_expect_str_eq(rep->state, cases[i].state, "%s %s: %s", cases[i].file, cases[i].flags,
					 rep->why);
			cr_expect_eq(probe_report__failed(rep), !strcmp(cases[i].state, "failed"));
			cr_expect_eq(!*rep->why, !strcmp(cases[i].state, "found"));
		}
		cr_expect(seen);
		prober__free(pr);
		elf_image__close(img);
	}
}

/* ---- records ---- */

static struct mt_atb record(unsigned int what, uint64_t sp, const char *name, const char *dir)
{
	struct mt_atb r = { .sp = sp, .what = (__u16)what, .runner = sp + 1, .ids = 1 };

	now += 10;
	r.h = (struct mt_hdr){ .size = sizeof(r),
			       .type = MT_REC_ATB,
			       .tgid = PID,
			       .tid = PID + 1,
			       .start = START,
			       .time = now };
	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.dir, sizeof(r.dir), "%s", dir);
	r.name_len = (__u16)strlen(r.name);
	r.dir_len = (__u16)strlen(r.dir);
	return r;
}

static struct mt_atb_tensor tensor(uint64_t sp, uint64_t addr, uint64_t size)
{
	struct mt_atb_tensor r = { .sp = sp };
	int32_t types[2] = { 1, 2 };
	uint64_t dims[3] = { 2, 3, 4 }, n = 3;

	now += 10;
	r.h = (struct mt_hdr){ .size = sizeof(r),
			       .type = MT_REC_ATB_TENSOR,
			       .tgid = PID,
			       .tid = PID + 1,
			       .start = START,
			       .time = now };
	memcpy(r.raw, types, sizeof(types));
	memcpy(r.raw + 8, dims, sizeof(dims));
	memcpy(r.raw + 72, &n, 8);
	memcpy(r.raw + 80, &addr, 8);
	memcpy(r.raw + 96, &size, 8);
	return r;
}

static int decode(const void *r, size_t size, struct event *e)
{
	return event__decode(r, size, PTA_LAYOUT_UNKNOWN, e);
}

Test(atb, bad_records)
{
	struct mt_atb r = record(MT_ATB_START, 1, "A", "B");
	struct mt_atb_tensor t = tensor(1, 2, 3);
	struct event e;
	uint64_t n;

	cr_assert_eq(decode(&r, sizeof(r), &e), 0);
	cr_assert_eq(decode(&r, sizeof(r) - 8, &e), -EBADMSG);
	r.what = 4;
	cr_assert_eq(decode(&r, sizeof(r), &e), -EBADMSG);
	r = record(MT_ATB_END, 1, "A", "B");
	r.name_len = sizeof(r.name);
	cr_assert_eq(decode(&r, sizeof(r), &e), -EBADMSG);
	r = record(MT_ATB_END, 1, "A", "B");
	r.dir_len = sizeof(r.dir);
	cr_assert_eq(decode(&r, sizeof(r), &e), -EBADMSG);
	r = record(MT_ATB_END, 1, "A", "B");
	r.h.size -= 8; /* cut by whoever wrote it */
	cr_assert_eq(decode(&r, sizeof(r), &e), -EBADMSG);

	cr_assert_eq(decode(&t, sizeof(t), &e), 0);
	cr_expect_str_eq(e.access.dtype, "ACL_FLOAT16");
	cr_expect_str_eq(e.access.format, "ACL_FORMAT_ND");
	cr_assert_eq(decode(&t, sizeof(t) - 8, &e), -EBADMSG);
	n = 9;
	memcpy(t.raw + 72, &n, 8); /* no more than 8 in ATB, 48 in Mki, of which 8 are here */
	cr_assert_eq(decode(&t, sizeof(t), &e), -EBADMSG);
	t.kernel = 1;
	cr_assert_eq(decode(&t, sizeof(t), &e), 0);
	cr_expect(e.access.cut && e.access.n_dims == 8);
	cr_expect_str_eq(e.access.dtype, "TENSOR_DTYPE_FLOAT16");
	n = 49;
	memcpy(t.raw + 72, &n, 8);
	cr_assert_eq(decode(&t, sizeof(t), &e), -EBADMSG);
	t = tensor(1, 2, UINT64_MAX);
	cr_assert_eq(decode(&t, sizeof(t), &e), -EBADMSG);
	t = tensor(1, 2, 3);
	memset(t.raw, 0x55, 8); /* types nobody knows */
	cr_assert_eq(decode(&t, sizeof(t), &e), 0);
	cr_expect_str_eq(e.access.dtype, "ACL_DT_UNDEFINED");
	cr_expect_str_eq(e.access.format, "ACL_FORMAT_UNDEFINED");
}

/* ---- rows ---- */

#define EVERYTHING                                                \
	((struct model_opts){ .level = LEVEL_OP | LEVEL_KERNEL,   \
			      .events = EVENTS_ALLOC | EVENTS_LAUNCH | EVENTS_ACCESS })

static const struct row *row_for(const void *r, size_t size)
{
	struct event e;

	cr_assert_eq(decode(r, size, &e), 0);
	return row_of(e);
}

static void expect(struct mt_atb r, enum row_type type, const char *name, const char *path)
{
	const struct row *row = row_for(&r, sizeof(r));

	cr_expect_eq(row->type, type);
	cr_expect_str_eq(row->name, name);
	cr_expect_str_eq(row_paths[n_rows - 1], path, "%s: %s", name, row_paths[n_rows - 1]);
}

static struct mt_atb nested(struct mt_atb r, unsigned int ids, int64_t id, uint64_t count)
{
	r.ids = ids;
	r.id = id;
	r.count = count;
	return r;
}

static struct mt_atb kernel(unsigned int what, uint64_t sp, uint64_t runner, uint64_t no, const char *name)
{
	struct mt_atb r = record(what, sp, name, "Runner");

	r.runner = runner;
	r.count = no;
	return r;
}

Test(atb, paths)
{
	begin_opts(EVERYTHING);
	put(set_device(PID + 1, 3));
	expect(nested(record(MT_ATB_START, 900, "Graph", "GraphRunner"), 1, 7, 5), ROW_ATB_START, "Graph",
	       "3_100/5/7_Graph");
	expect(nested(record(MT_ATB_START, 800, "Add", "AddRunner"), 2, 0, 2), ROW_ATB_START, "Add",
	       "3_100/5/7_Graph/0_Add");
	expect(kernel(MT_ATB_KERNEL_START, 700, 801, 1, "K"), ROW_KERNEL_START, "1_K",
	       "3_100/5/7_Graph/0_Add/1_K/before");
	expect(kernel(MT_ATB_KERNEL_END, 700, 801, 1, "K"), ROW_KERNEL_END, "1_K", "3_100/5/7_Graph/0_Add/1_K/after");
	/* An end is counted already, and has the path of its start. */
	expect(nested(record(MT_ATB_END, 800, "Add", "AddRunner"), 2, 0, 3), ROW_ATB_END, "Add",
	       "3_100/5/7_Graph/0_Add");
	/* The next node, at the same place. */
	expect(nested(record(MT_ATB_START, 800, "Mul", "MulRunner"), 2, 1, 0), ROW_ATB_START, "Mul",
	       "3_100/5/7_Graph/1_Mul");
	/* Its end is lost, the graph's comes. */
	expect(nested(record(MT_ATB_END, 900, "Graph", "GraphRunner"), 1, 7, 6), ROW_ATB_END, "Graph",
	       "3_100/5/7_Graph");
	/* Its start was lost: of the end alone. */
	expect(nested(record(MT_ATB_END, 950, "Lost", "LostRunner"), 1, 8, 1), ROW_ATB_END, "Lost", "3_100/0/8_Lost");
	/* ATB's own dump says where. */
	expect(record(MT_ATB_START, 900, "Own", "0_1/2/3_Own"), ROW_ATB_START, "Own", "0_1/2/3_Own");
	end();
}

Test(atb, outer_not_seen)
{
	begin_opts(EVERYTHING);
	/* A node whose graph began before the attach: no path, and none of its kernels'. */
	expect(nested(record(MT_ATB_START, 800, "Add", "AddRunner"), 2, 0, 2), ROW_ATB_START, "Add", "");
	expect(kernel(MT_ATB_KERNEL_START, 700, 801, 0, "K"), ROW_KERNEL_START, "0_K", "");
	/* No device was told. */
	expect(nested(record(MT_ATB_START, 900, "Top", "TopRunner"), 1, 1, 0), ROW_ATB_START, "Top", "?_100/0/1_Top");
	/* One that stands beside another is in none. */
	expect(nested(record(MT_ATB_START, 950, "Node", "NodeRunner"), 2, 1, 0), ROW_ATB_START, "Node", "");
	end();
}

Test(atb, bounded)
{
	unsigned int i;

	begin_opts(EVERYTHING);
	/* Deeper than graphs are, more threads than there are, a name as long as can be. */
	for (i = 0; i < 100; i++) {
		struct mt_atb r = nested(record(MT_ATB_START, 100000 - i * 10, "", "Runner"), i + 1, i, 0);

		memset(r.name, 'x', sizeof(r.name) - 1);
		r.name_len = sizeof(r.name) - 1;
		row_for(&r, sizeof(r));
	}
	cr_expect_gt(strlen(row_paths[n_rows - 99]), 200u);
	cr_expect_str_eq(row_paths[n_rows - 1], "");
	for (i = 0; i < 2000; i++) {
		struct mt_atb r = nested(record(MT_ATB_START, 900, "Op", "Runner"), 1, 1, 0);

		r.h.tid = 10000 + i;
		row_for(&r, sizeof(r));
		cr_expect_str_eq(row_paths[n_rows - 1], "?_100/0/1_Op");
	}
	end();
}

/* A thread for each request: kernels have their path in the two thousandth, too. */
Test(atb, threads_that_come_and_go)
{
	unsigned int i;

	begin_opts(EVERYTHING);
	for (i = 0; i < 2000; i++) {
		struct mt_atb r[] = { nested(record(MT_ATB_START, 900, "Op", "Runner"), 1, 1, 0),
				      kernel(MT_ATB_KERNEL_START, 800, 901, 0, "K"),
				      kernel(MT_ATB_KERNEL_END, 800, 901, 0, "K"),
				      nested(record(MT_ATB_END, 900, "Op", "Runner"), 1, 1, 1) };
		unsigned int j;

		for (j = 0; j < MT_ARRAY_SIZE(r); j++) {
			r[j].h.tid = 10000 + i;
			row_for(&r[j], sizeof(r[j]));
		}
		cr_assert_str_eq(row_paths[n_rows - 2], "?_100/0/1_Op/0_K/after", "thread %u: %s", i,
				 row_paths[n_rows - 2]);
		n_rows = 0;
	}
	end();
}

Test(atb, failures)
{
	struct mt_atb r;
	struct event e;

	begin_opts(EVERYTHING);
	r = nested(record(MT_ATB_START, 900, "Op", "Runner"), 1, 1, 0);
	row_for(&r, sizeof(r));
	r = kernel(MT_ATB_KERNEL_START, 700, 901, 0, "K");
	row_for(&r, sizeof(r));
	r = kernel(MT_ATB_KERNEL_END, 700, 901, 0, "K");
	r.ret = 6;
	cr_assert_eq(decode(&r, sizeof(r), &e), 0);
	ruled_out(e, RULE_FAILED);
	r = nested(record(MT_ATB_END, 900, "Op", "Runner"), 1, 1, 1);
	r.ret = 6;
	cr_expect(row_for(&r, sizeof(r))->attrs & ATTR_NOTE);
	end();
}

Test(atb, chosen)
{
	struct mt_atb r = nested(record(MT_ATB_START, 900, "Op", "Runner"), 1, 1, 0);
	struct mt_atb k = kernel(MT_ATB_KERNEL_START, 700, 901, 0, "K");
	struct mt_atb_tensor t = tensor(900, 0x1000, 48), u = tensor(700, 0x1000, 48);
	struct event e;

	u.kernel = 1;
	begin_opts((struct model_opts){ .level = LEVEL_KERNEL, .events = EVENTS_LAUNCH });
	cr_assert_eq(decode(&r, sizeof(r), &e), 0);
	ruled_out(e, RULE_FILTERED);
	/* and yet its kernels know where they are */
	expect(k, ROW_KERNEL_START, "0_K", "?_100/0/1_Op/0_K/before");
	cr_assert_eq(decode(&u, sizeof(u), &e), 0);
	ruled_out(e, RULE_FILTERED);
	end();
	begin_opts((struct model_opts){ .level = LEVEL_OP, .events = EVENTS_ACCESS });
	cr_assert_eq(decode(&r, sizeof(r), &e), 0);
	ruled_out(e, RULE_FILTERED);
	cr_expect_str_eq(row_for(&t, sizeof(t))->name, "Op");
	cr_assert_eq(decode(&u, sizeof(u), &e), 0);
	ruled_out(e, RULE_FILTERED);
	end();
}

static struct event workspace(enum event_kind kind, uint64_t addr, int64_t size, bool mstx)
{
	struct event e = ev(kind);

	e.addr = addr;
	e.size = size;
	e.key = mstx;
	return e;
}

Test(atb, tensors_and_pools)
{
	struct mt_atb r = nested(record(MT_ATB_START, 900, "Op", "Runner"), 1, 1, 0);
	struct mt_atb_tensor t;
	const struct row *row;
	uint64_t block;

	begin_opts(EVERYTHING);
	put(set_device(PID + 1, 0));
	put(pta(EV_PTA_MALLOC, 0x10000, 512, 0));
	row = row_of(workspace(EV_ATB_MALLOC, 0x20000, 4096, false));
	cr_expect(row->type == ROW_ATB && row->used == 4096 && row->total == 4096 && row->device == 0);
	block = row->allocation_id;
	row_for(&r, sizeof(r));
	t = tensor(900, 0x20100, 48); /* in the workspace */
	row = row_for(&t, sizeof(t));
	cr_expect(row->type == ROW_UNKNOWN && row->pool == ROW_ATB && row->allocation_id == block);
	cr_expect(row->block_ptr == 0x20000 && row->ptr == 0x20100 && row->size == 48);
	t = tensor(900, 0x10100, 48); /* of torch_npu */
	t.write = 1;
	row = row_for(&t, sizeof(t));
	cr_expect(row->type == ROW_WRITE && row->pool == ROW_PTA && row->block_ptr == 0x10000);
	t = tensor(900, 0x90000, 48); /* of nobody, each time the same */
	row = row_for(&t, sizeof(t));
	cr_expect(row->pool == ROW_ATB && !row->block_ptr);
	block = row->allocation_id;
	t = tensor(900, 0x90000, 48);
	cr_expect_eq(row_for(&t, sizeof(t))->allocation_id, block);
	t = tensor(900, 0x20fff, 48); /* over its end */
	cr_expect(!row_for(&t, sizeof(t))->block_ptr);
	row = row_of(workspace(EV_ATB_FREE, 0x20000, 4096, false));
	cr_expect(row->event == ROW_FREE && row->used == 0 && row->total == 0 && row->size == 4096);
	cr_expect_eq(pool_used(ROW_ATB, 0), 0);
	/* Two at once, one of them twice: the FREE of the first was missed. */
	row_of(workspace(EV_ATB_MALLOC, 0x20000, 4096, false));
	row_of(workspace(EV_ATB_MALLOC, 0x30000, 100, false));
	cr_expect_eq(row_of(workspace(EV_ATB_MALLOC, 0x20000, 50, false))->used, 150);
	cr_expect_eq(counts().residual, 1);
	end();
}

Test(atb, as_the_vendor_has_it)
{
	struct model_opts o = EVERYTHING;
	struct mt_atb_tensor t = tensor(900, 0x10100, 48);
	const struct row *row;

	o.vendor = o.owners = true;
	begin_opts(o);
	put(ev(EV_ACL_INIT));
	put(set_device(PID + 1, 0));
	put(pta(EV_PTA_MALLOC, 0x10000, 512, 0));
	/* It looks into ATB's pool alone. */
	row = row_for(&t, sizeof(t));
	cr_expect(row->pool == ROW_ATB && !row->block_ptr);
	/* A release that tells mstx nothing has no blocks. */
	ruled_out(workspace(EV_ATB_MALLOC, 0x20000, 4096, false), RULE_FILTERED);
	ruled_out(workspace(EV_ATB_FREE, 0x20000, 4096, false), RULE_FILTERED);
	/* Each registration adds to the total. */
	row = row_of(workspace(EV_ATB_MALLOC, 0x20000, 4096, true));
	cr_expect(row->total == 4096 && row->used == 4096);
	cr_expect_str_eq(row->owner, "ATB");
	row_of(workspace(EV_ATB_FREE, 0x20000, 4096, true));
	row = row_of(workspace(EV_ATB_MALLOC, 0x20000, 4096, true));
	cr_expect(row->total == 8192 && row->used == 4096);
	end();
}
