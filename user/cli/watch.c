// SPDX-License-Identifier: Apache-2.0
/* memtap watch: what happened to chosen blocks of a dump, from their MALLOC to their FREE. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/offline.h"

enum { OPT_ADDRESS = 256, OPT_ID, OPT_SIZE, OPT_OWNER, OPT_OP, OPT_PID, OPT_DEVICE, OPT_MAX };

static const struct option longs[] = { { "address", required_argument, NULL, OPT_ADDRESS },
				       { "id", required_argument, NULL, OPT_ID },
				       { "size", required_argument, NULL, OPT_SIZE },
				       { "owner", required_argument, NULL, OPT_OWNER },
				       { "op", required_argument, NULL, OPT_OP },
				       { "pid", required_argument, NULL, OPT_PID },
				       { "device", required_argument, NULL, OPT_DEVICE },
				       { "max-blocks", required_argument, NULL, OPT_MAX },
				       { "format", required_argument, NULL, OFFLINE_FORMAT },
				       { "stacks", no_argument, NULL, OFFLINE_STACKS },
				       { "strict", no_argument, NULL, OFFLINE_STRICT },
				       { "help", no_argument, NULL, 'h' },
				       { 0 } };

static struct {
	struct offline_common common;
	struct watch_opts w;
	char *op; /* malloced: start and end are in it */
} o = { .w.max_blocks = 100 };

static void help(void)
{
	puts("Usage: memtap watch OPTIONS DIR|FILE...\n"
	     "\n"
	     "Print what happened to blocks of a dump: which operators read and wrote them, which\n"
	     "operators and kernels ran between, and who freed them. At least one of the first\n"
	     "five options chooses blocks; all that are given must hold.\n"
	     "\n"
	     "      --address=ADDR    that hold this address, decimal or 0x...\n"
	     "      --id=N            with this allocation_id\n"
	     "      --size=SIZE       of this size, or from LEAST-MOST: 4096, 64K, 1M-2M\n"
	     "      --owner=TEXT      with this in their owner\n"
	     "      --op=START[:OUTPUT],END\n"
	     "                        that the first run of operator START writes (or its OUTPUT,\n"
	     "                        from 0), from its end to the end of END\n"
	     "      --pid=PID         of this process\n"
	     "      --device=N        of this device\n"
	     "      --max-blocks=N    at most so many blocks (100)\n"
	     "      --format=FORMAT   text, or csv: one row an event\n"
	     "      --stacks          text: with the call stacks of MALLOC and FREE\n"
	     "      --strict          exit with 3 when rows are missing in the files\n"
	     "  -h, --help            this text");
}

struct printing {
	const struct texts *t;
	uint64_t n;
};

static const char *what(const struct watch_event *e)
{
	return e->event == ROW_ACCESS ? row_type__name((enum row_type)e->type)
				      : row_event__name((enum row_event)e->event);
}

/* A name of a file, without what a terminal would act on. */
static const char *name_of(const struct printing *p, uint32_t text)
{
	return cli__text(texts__get(p->t, text, NULL));
}

static void print_ran(const struct printing *p, const struct watch_ran *r, const char *one)
{
	uint32_t i;

	if (!r->n)
		return;
	printf("%17s %llu %s%s: %s", "", (unsigned long long)r->n, one, r->n == 1 ? "" : "s",
	       r->n > r->n_names ? "... " : "");
	for (i = 0; i < r->n_names; i++)
		printf("%s%s", i ? ", " : "", r->name[i] ? name_of(p, r->name[i]) : "?");
	putchar('\n');
}

static void print_event(const struct printing *p, const struct watch_block *b,
			const struct watch_event *e)
{
	double ms = ((double)e->time - (double)b->born) / 1e6;

	print_ran(p, &e->ops, "operator");
	print_ran(p, &e->kernels, "kernel");
	printf("%13.3f ms %-7s thread %u", ms, what(e), e->tid);
	if (e->event == ROW_ACCESS) {
		printf(" by %s", e->name ? name_of(p, e->name) : "?");
		if (e->detail)
			printf(", %s", name_of(p, e->detail));
		if (e->ptr != b->ptr)
			printf(", from byte %lld", (long long)(e->ptr - b->ptr));
	} else if (e->op) {
		printf(" in %s", name_of(p, e->op));
	}
	putchar('\n');
	if (o.common.stacks && e->event != ROW_ACCESS)
		offline__stacks(p->t, e->stack_py, e->stack_c);
}

static void print_text(const struct printing *p, const struct watch_block *b)
{
	size_t i;

	printf("%s block of %f Mb(s) at 0x%llx on device %s of process %u, allocation_id %llu",
	       row_type__name(b->type), (double)b->size / 1048576, (unsigned long long)b->ptr,
	       offline__device(b->device), b->pid, (unsigned long long)b->alloc);
	if (b->owner)
		printf(", owner %s", name_of(p, b->owner));
	putchar('\n');
	if (o.w.start)
		printf("%13.3f ms MALLOC  thread %u%s%s\n", 0.0, b->tid, b->op ? " in " : "",
		       b->op ? name_of(p, b->op) : "");
	for (i = 0; i < b->n_events; i++) {
		if (b->more && b->events[i].event == ROW_FREE)
			printf("%17s %llu more accesses\n", "", (unsigned long long)b->more);
		print_event(p, b, &b->events[i]);
	}
	printf("%17s %llu read(s), %llu write(s); ", "", (unsigned long long)b->n_reads,
	       (unsigned long long)b->n_writes);
	if (b->freed)
		printf("freed after %.3f ms by thread %u%s\n",
		       ((double)b->freed - (double)b->born) / 1e6, b->freed_by,
		       b->freed_by == b->tid ? "" : ", not the one that allocated it");
	else
		printf("not freed %s\n", o.w.start ? "while it was watched" : "in the dump");
}

static void csv_names(const struct printing *p, const struct watch_ran *r)
{
	uint32_t i;
	char *s = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&s, &n);

	if (!f)
		return;
	for (i = 0; i < r->n_names; i++)
		fprintf(f, "%s%s", i ? " " : "", texts__get(p->t, r->name[i], NULL));
	fclose(f);
	offline__csv_text(stdout, s, n);
	free(s);
}

static void csv_text(const struct printing *p, uint32_t text)
{
	size_t n;
	const char *s = texts__get(p->t, text, &n);

	putchar(',');
	offline__csv_text(stdout, s, n);
}

static void print_csv(const struct printing *p, const struct watch_block *b)
{
	size_t i;

	for (i = 0; i < b->n_events; i++) {
		const struct watch_event *e = &b->events[i];

		printf("%u,%s,%s,%llu,%llu,%lld,%llu,%u,%s", b->pid, offline__device(b->device),
		       row_type__name(b->type), (unsigned long long)b->alloc,
		       (unsigned long long)e->ptr, (long long)e->size, (unsigned long long)e->time,
		       e->tid, what(e));
		csv_text(p, e->event == ROW_ACCESS ? e->name : e->op);
		csv_text(p, e->detail);
		printf(",%llu,%llu,", (unsigned long long)e->ops.n,
		       (unsigned long long)e->kernels.n);
		csv_names(p, &e->kernels);
		putchar('\n');
	}
}

static int on_block(void *ctx, const struct watch_block *b)
{
	struct printing *p = ctx;

	if (!p->n++ && o.common.csv)
		puts("Process Id,Device Id,Pool,allocation_id,Ptr,Size(byte),Timestamp(ns),Thread "
		     "Id,"
		     "Event,Operator,Tensor,Operators before,Kernels before,Kernels");
	if (o.common.csv)
		print_csv(p, b);
	else
		print_text(p, b);
	return 0;
}

static int on_item(void *ctx, const struct item *it)
{
	return watch__item(ctx, it);
}

static void tell(const char *path, const struct watch_counts *c)
{
	if (c->chosen > o.w.max_blocks)
		pr_warn("%s: %llu blocks are chosen, the first %llu were printed (--max-blocks)",
			cli__text(path), (unsigned long long)c->chosen,
			(unsigned long long)o.w.max_blocks);
	else if (!c->chosen && o.w.start && !c->begun)
		pr_warn("%s: no operator %s has run in it: record with --events=alloc,free,launch,"
			"access, and name it as the dump does (torch._ops.aten.add.Tensor)",
			cli__text(path), cli__text(o.w.start));
	else if (!c->chosen)
		pr_warn("%s: none of %llu blocks is chosen", cli__text(path),
			(unsigned long long)c->blocks);
	else if (!c->accesses)
		pr_info("%s: has no ACCESS rows, so who touches a block cannot be told: record "
			"with "
			"--events=alloc,free,launch,access",
			cli__text(path));
}

static int one(const char *path, bool *incomplete)
{
	const struct in_want want = { .events = 1u << ROW_MALLOC | 1u << ROW_FREE |
						1u << ROW_ACCESS | 1u << ROW_OP_LAUNCH |
						1u << ROW_KERNEL_LAUNCH,
				      .stacks = o.common.stacks,
				      .details = true };
	struct texts *texts = texts__new(OFFLINE_TEXTS);
	struct printing p = { .t = texts };
	struct watch_opts w = o.w;
	struct watch *x;
	struct watch_counts c;
	int err;

	w.block = on_block;
	w.ctx = &p;
	x = texts ? watch__new(&w, texts) : NULL;
	err = x ? offline__read(path, &want, texts, on_item, x, incomplete) : -ENOMEM;
	if (!err)
		err = watch__finish(x);
	if (!err) {
		watch__counts(x, &c);
		tell(path, &c);
	}
	watch__free(x);
	texts__free(texts);
	return err;
}

static int read_size(const char *text)
{
	static const char wanted[] = "a size such as 4096, 64K or 2M, or two of them, LEAST-MOST,";
	const char *dash = strchr(text, '-');
	uint64_t least, most;
	char first[32];

	if (dash) {
		if ((size_t)(dash - text) >= sizeof(first))
			return offline__wrong("watch", "--size", text, wanted);
		memcpy(first, text, (size_t)(dash - text));
		first[dash - text] = '\0';
	}
	if (cli__size(dash ? first : text, &least) || cli__size(dash ? dash + 1 : text, &most) ||
	    most > INT64_MAX || least > most)
		return offline__wrong("watch", "--size", text, wanted);
	o.w.has_size = true;
	o.w.least = (int64_t)least;
	o.w.most = (int64_t)most;
	return 0;
}

/* START[:OUTPUT],END: names hold no colons and commas. */
static int read_op(const char *text)
{
	static const char wanted[] = "START[:OUTPUT],END, names of operators as the dump has them,";
	char *comma, *colon, *end;
	unsigned long v;

	free(o.op);
	o.op = strdup(text);
	comma = o.op ? strchr(o.op, ',') : NULL;
	if (!comma || comma == o.op || !comma[1] || strchr(comma + 1, ','))
		return offline__wrong("watch", "--op", text, wanted);
	*comma = '\0';
	o.w.start = o.op;
	o.w.end = comma + 1;
	colon = strchr(o.op, ':');
	o.w.has_output = colon;
	if (!colon)
		return 0;
	*colon = '\0';
	errno = 0;
	v = strtoul(colon + 1, &end, 10);
	if (errno || colon[1] < '0' || colon[1] > '9' || *end || v >= WATCH_OUTPUTS)
		return offline__wrong("watch", "--op", text, "an OUTPUT from 0 to 63");
	o.w.output = (uint32_t)v;
	return 0;
}

static int read_option(int opt)
{
	uint64_t v = 0;
	int status;

	switch (opt) {
	case OPT_ADDRESS:
		o.w.has_address = true;
		return offline__address("watch", "--address", optarg, &o.w.address);
	case OPT_ID:
		return offline__number("watch", "--id", optarg, 1, UINT64_MAX, &o.w.alloc);
	case OPT_SIZE:
		return read_size(optarg);
	case OPT_OWNER:
		o.w.owner = optarg;
		return *optarg ? 0
			       : offline__wrong("watch", "--owner", optarg, "a part of an owner");
	case OPT_OP:
		return read_op(optarg);
	case OPT_PID:
		status = offline__number("watch", "--pid", optarg, 1, INT32_MAX, &v);
		o.w.pid = (uint32_t)v;
		return status;
	case OPT_DEVICE:
		status = offline__number("watch", "--device", optarg, 0, INT32_MAX, &v);
		o.w.has_device = true;
		o.w.device = (int32_t)v;
		return status;
	default:
		return offline__number("watch", "--max-blocks", optarg, 1, UINT64_MAX,
				       &o.w.max_blocks);
	}
}

static int ready(void)
{
	if (o.w.has_address || o.w.alloc || o.w.has_size || o.w.owner || o.w.start)
		return 0;
	pr_err("nothing says which blocks: --address, --id, --size, --owner or --op");
	return cli__usage_error("watch");
}

int cmd_watch(int argc, char **argv)
{
	static const struct offline_cmd cmd = { .name = "watch",
						.longs = longs,
						.common = &o.common,
						.help = help,
						.option = read_option,
						.ready = ready,
						.one = one };
	int status = offline__run(&cmd, argc, argv);

	free(o.op);
	o.op = NULL;
	return status;
}
