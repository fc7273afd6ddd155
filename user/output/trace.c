// SPDX-License-Identifier: Apache-2.0
/*
 * trace/npu<D>_trace_*.json and trace/cpu_trace_*.json: which events a row
 * gives (the vendor's catalogue) and in which file.
 *
 * Beyond the vendor, unless opts.vendor: on the real axis the counter
 * "hal memory", names of processes, the anchor to wall-clock time and the name
 * of a kernel; on both axes LOST and OOM rows as instant events.
 */
#include "output/trace.h"

#include <errno.h>
#include <stdlib.h>

/* Threads of the picture that bars of blocks are laid on: those of a thread must not overlap. */
#define LANES 256u

struct file {
	int32_t device; /* DEV_CPU: cpu_trace */
	struct sink s;
	struct hmap pids; /* pid -> PID_* */
	int64_t lanes[LANES]; /* ends of the last bars of blocks on them */
};

#define PID_COUNTER 1u /* has counters: gets a sort index */
#define PID_NAMED 2u /* has a process_name */

struct trace {
	struct outdir *dir;
	struct out_opts opts;
	struct file *files;
	size_t n_files;
	uint64_t host_sum;
	uint64_t left_out; /* rows of devices that have no file */
	int err;
};

int trace__open(struct outdir *dir, const struct out_opts *opts, struct trace **out)
{
	struct trace *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->dir = dir;
	t->opts = *opts;
	*out = t;
	return 0;
}

static bool is_extended(const struct trace *t)
{
	return !t->opts.vendor;
}

static bool is_real(const struct trace *t)
{
	return t->opts.timeline == OUT_TIMELINE_REAL;
}

static struct file *make_file(struct trace *t, int32_t device)
{
	struct file *f = realloc(t->files, (t->n_files + 1) * sizeof(*f));
	char stem[32], ts[16], name[80];
	unsigned int i;
	int fd;

	if (!f) {
		t->err = -ENOMEM;
		return NULL;
	}
	t->files = f;
	f += t->n_files;
	memset(f, 0, sizeof(*f));
	for (i = 0; i < LANES; i++)
		f->lanes[i] = INT64_MIN;
	f->device = device;
	if (device == DEV_CPU)
		strcpy(stem, "cpu_trace_");
	else
		snprintf(stem, sizeof(stem), "npu%d_trace_", device);
	fd = outdir__create(t->dir, "trace", stem, ".json", NULL, ts);
	if (fd < 0) {
		t->err = fd;
		return NULL;
	}
	t->err = sink__init(&f->s, fd, 0);
	if (t->err)
		return NULL;
	t->n_files++;
	snprintf(name, sizeof(name), "%s%s.json", stem, ts);
	t->err = outdir__note(t->dir, "trace", name);
	trace_event__begin_file(&f->s);
	if (is_real(t) && is_extended(t))
		trace_event__anchor(&f->s, t->opts.start_real);
	return f;
}

/* NULL: an error, see t->err, or a number that only a target made up: each would be a file. */
static struct file *file_of(struct trace *t, int32_t device)
{
	size_t i;

	if (device >= MAX_DEVICES) {
		t->left_out++;
		return NULL;
	}
	for (i = 0; i < t->n_files; i++) {
		if (t->files[i].device == device)
			return &t->files[i];
	}
	return make_file(t, device);
}

/* Remember that f has events of this pid; name the process on its first. */
static void see_pid(struct trace *t, struct file *f, uint32_t pid, uint64_t flag)
{
	uint64_t *v = hmap__put(&f->pids, (struct hkey){ .a = pid }, NULL);

	if (!v) {
		t->err = -ENOMEM;
		return;
	}
	*v |= flag;
	if (!(*v & PID_NAMED) && is_real(t) && is_extended(t)) {
		*v |= PID_NAMED;
		trace_event__process(&f->s, pid);
	}
}

static struct stamp stamp_of(const struct trace *t, uint64_t time, uint64_t kernel)
{
	struct stamp s = { .real = is_real(t) };

	s.v = s.real ? (int64_t)(time - t->opts.start_real) : (int64_t)kernel;
	return s;
}

static struct stamp now_of(const struct trace *t, const struct row *r)
{
	return stamp_of(t, r->time, r->kernel_index);
}

static struct stamp since(const struct trace *t, const struct row *r)
{
	struct stamp a = now_of(t, r), b = stamp_of(t, r->begin_time, r->begin_kernel);

	a.v = a.v > b.v ? a.v - b.v : 0;
	return a;
}

static void counter(struct trace *t, struct file *f, const struct row *r, const char *name,
		    uint64_t size)
{
	see_pid(t, f, r->pid, PID_COUNTER);
	trace_event__counter(&f->s, name, r->pid, r->tid, now_of(t, r), size);
}

/* Of a block that was seen from its allocation on, so that a sum of such is changed by it. */
static bool is_whole(const struct row *r)
{
	return r->size >= 0 && !(r->attrs & ATTR_PREATTACH) &&
	       (r->event == ROW_MALLOC || r->allocation_id);
}

static void block_sum(struct trace *t, const struct row *r, int32_t file, const char *name)
{
	struct file *f = is_whole(r) && !r->uncounted ? file_of(t, file) : NULL;

	if (f)
		counter(t, f, r, name, r->held);
}

/*
 * A lane that is free from `begin` on; bars come in the order of their ends. Perfetto drops one
 * that overlaps another of its thread. The vendor lays all of them on thread 0.
 */
static uint32_t lane_of(const struct trace *t, struct file *f, int64_t begin, int64_t end)
{
	uint32_t i;

	if (!is_extended(t))
		return 0;
	for (i = 0; i < LANES - 1 && f->lanes[i] > begin; i++)
		;
	f->lanes[i] = end;
	return i;
}

/* The bar of a block that lived through two step starts or more. */
static void leak_bar(struct trace *t, struct file *f, const struct row *r)
{
	struct stamp begin;

	if (r->event != ROW_FREE || r->born_step <= 1 || r->steps_lived < 2 ||
	    r->type == ROW_PTA_WORKSPACE || r->attrs & ATTR_PREATTACH)
		return;
	begin = stamp_of(t, r->begin_time, r->begin_kernel);
	trace_event__leak(&f->s, lane_of(t, f, begin.v, now_of(t, r).v), r->ptr, r->size, begin,
			  since(t, r));
}

static void pool_row(struct trace *t, const struct row *r)
{
	const char *reserved = NULL, *allocated = NULL;
	struct file *f;

	if (r->device < 0)
		return;
	if (r->type == ROW_PTA) {
		reserved = "torch reserved memory";
		allocated = "torch allocated memory";
	} else if (r->type == ROW_MINDSPORE) {
		reserved = "mindspore reserved memory";
		allocated = "mindspore allocated memory";
	} else if (r->event == ROW_MALLOC || r->born_step <= 1 || r->steps_lived < 2) {
		return; /* ATB: no counters, so no file either */
	}
	f = file_of(t, r->device);
	if (!f)
		return;
	if (reserved && r->attrs & ATTR_POOL) {
		counter(t, f, r, reserved, r->total);
		counter(t, f, r, allocated, r->used);
	}
	leak_bar(t, f, r);
}

static void block_row(struct trace *t, const struct row *r)
{
	struct file *f;

	switch (r->type) {
	case ROW_PTA:
	case ROW_ATB:
	case ROW_MINDSPORE:
		pool_row(t, r);
		break;
	case ROW_HAL:
		if (r->device == DEV_HOST || r->device == DEV_CPU)
			block_sum(t, r, DEV_CPU, "pin memory");
		else if (r->device >= 0 && is_real(t) && is_extended(t))
			block_sum(t, r, r->device, "hal memory");
		break;
	case ROW_HOST_PINNED:
		block_sum(t, r, DEV_CPU, "pin memory");
		break;
	case ROW_HOST:
		if (!is_whole(r))
			break;
		if (r->event == ROW_MALLOC)
			t->host_sum += (uint64_t)r->size;
		else
			t->host_sum -= MT_MIN(t->host_sum, (uint64_t)r->size);
		f = file_of(t, DEV_CPU);
		if (f)
			counter(t, f, r, "memory", t->opts.vendor ? t->host_sum : r->held);
		break;
	default:
		break;
	}
}

static void mstx_row(struct trace *t, const struct row *r)
{
	struct file *f;
	char name[64], tmp[48];
	size_t len;
	const char *msg = row__name(r, &len, tmp);
	bool step = r->step_id != 0;
	unsigned long long id = step ? r->step_id : r->range_id;

	if (r->device < 0)
		return;
	f = file_of(t, r->device);
	if (!f)
		return;
	/* The vendor empties such messages at their source. */
	if (t->opts.vendor && text__is_formula(msg, len))
		len = 0;
	switch (r->type) {
	case ROW_MARK:
		strcpy(name, "mstx_mark");
		break;
	case ROW_RANGE_START:
		snprintf(name, sizeof(name), "mstx_%s%llu_start", step ? "step" : "range", id);
		break;
	case ROW_RANGE_END:
		if (step) {
			snprintf(name, sizeof(name), "step %llu", id);
			trace_event__slice(&f->s, name, 0, r->tid,
					   stamp_of(t, r->begin_time, r->begin_kernel),
					   since(t, r));
		}
		snprintf(name, sizeof(name), "mstx_%s%llu_end", step ? "step" : "range", id);
		break;
	default:
		return;
	}
	trace_event__instant(&f->s, name, 0, r->tid, now_of(t, r), "message", msg, len);
}

static void kernel_row(struct trace *t, const struct row *r)
{
	bool named = is_real(t) && is_extended(t) && r->name;
	int32_t where[2] = { r->device, DEV_CPU };
	char name[64];
	int i;

	if (r->device < 0)
		return;
	snprintf(name, sizeof(name), "kernel_%llu", (unsigned long long)r->kernel_index);
	for (i = 0; i < 2; i++) {
		struct file *f = file_of(t, where[i]);

		if (!f)
			continue;
		see_pid(t, f, r->pid, 0);
		trace_event__instant(&f->s, name, r->pid, r->tid, now_of(t, r), "kernel",
				     named ? r->name : NULL, r->name_len);
	}
}

/* A count of 0: what was lost is told on another row, and its device is unknown. */
static void put_loss(struct strbuf *sb, const struct row *r)
{
	if (r->lost_count == LOST_UNKNOWN)
		strbuf__puts(sb, "an unknown number of events lost");
	else if (!r->lost_count)
		strbuf__puts(sb, "events lost, perhaps of this device");
	else
		strbuf__printf(sb, "%llu events lost", (unsigned long long)r->lost_count);
	strbuf__printf(sb, ": %s, %s", r->lost_reason ? r->lost_reason : "?",
		       r->lost_probe ? r->lost_probe : "?");
	if (r->lost_library)
		strbuf__printf(sb, ", %s", r->lost_library);
}

/* Losses and failed allocations belong on the picture too. */
static void notice_row(struct trace *t, const struct row *r)
{
	struct strbuf sb = { 0 };
	struct file *f;

	if (r->device == DEV_NA || !is_extended(t))
		return;
	f = file_of(t, r->device >= 0 ? r->device : DEV_CPU);
	if (!f)
		return;
	if (r->event == ROW_OOM_DETAIL)
		strbuf__printf(&sb, "%s of %llu bytes failed", r->oom_func ? r->oom_func : "?",
			       (unsigned long long)r->oom_size);
	else
		put_loss(&sb, r);
	see_pid(t, f, r->pid, 0);
	trace_event__instant(&f->s, r->event == ROW_OOM_DETAIL ? "oom" : "lost", r->pid, r->tid,
			     now_of(t, r), "message", sb.data ? sb.data : "", sb.len);
	strbuf__free(&sb);
}

static int first_error(struct trace *t)
{
	size_t i;

	for (i = 0; i < t->n_files && !t->err; i++)
		t->err = t->files[i].s.err;
	return t->err;
}

int trace__row(struct trace *t, const struct row *r)
{
	if (t->err)
		return t->err;
	switch (r->event) {
	case ROW_MALLOC:
	case ROW_FREE:
		block_row(t, r);
		break;
	case ROW_MSTX:
		mstx_row(t, r);
		break;
	case ROW_KERNEL_LAUNCH:
		kernel_row(t, r);
		break;
	case ROW_OOM_DETAIL:
		notice_row(t, r);
		break;
	case ROW_SYSTEM:
		if (r->type == ROW_LOST)
			notice_row(t, r);
		break;
	default:
		break;
	}
	return t->err;
}

int trace__flush(struct trace *t)
{
	size_t i;

	for (i = 0; i < t->n_files; i++)
		sink__flush(&t->files[i].s);
	return first_error(t);
}

static int close_file(struct file *f)
{
	size_t pos = 0, n = 0;
	struct hkey k;
	uint32_t *pids;
	uint64_t v;
	int err;

	pids = calloc(f->pids.n + 1, sizeof(*pids));
	while (pids && hmap__next(&f->pids, &pos, &k, &v)) {
		if (v & PID_COUNTER)
			pids[n++] = (uint32_t)k.a;
	}
	err = trace_event__end_file(&f->s, pids, n);
	free(pids);
	hmap__free(&f->pids);
	return err;
}

int trace__close(struct trace *t)
{
	int err = first_error(t), e;
	size_t i;

	for (i = 0; i < t->n_files; i++) {
		e = close_file(&t->files[i]);
		if (!err)
			err = e;
	}
	free(t->files);
	free(t);
	return err;
}

uint64_t trace__left_out(const struct trace *t)
{
	return t->left_out;
}

uint64_t trace__bytes(const struct trace *t)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < t->n_files; i++)
		n += t->files[i].s.size + t->files[i].s.len;
	return n;
}
