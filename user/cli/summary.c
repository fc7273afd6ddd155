// SPDX-License-Identifier: Apache-2.0
/* What a run saw, lost and wrote: text for people, JSON for programs. */
#include "cli/session.h"

#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/* One that was to be there and is not: the code is not seen by another one. */
bool probe__failed(const struct probe_report *r)
{
	return strcmp(r->state, "failed") == 0 && strncmp(r->why, "the same code", 13) != 0;
}

static size_t probes_failed(struct session *s)
{
	const struct probed_file *f;
	size_t i, j, n = 0;

	for (i = 0; (f = prober__file(s->prober, i)); i++)
		for (j = 0; j < f->n_reports; j++)
			n += probe__failed(&f->reports[j]);
	return n;
}

/* What stands in the summary and decides about --strict: the parts are gone later. */
static void collect(struct session *s)
{
	struct mt_site_stat st;

	s->probes_failed = probes_failed(s);
	if (!site_stat__read(s->stats_fd, 0, &st)) {
		s->life_seen = st.seen;
		s->life_lost = st.lost;
	}
}

void session__account(struct session *s, struct account *a)
{
	struct model_counts c;
	struct drain_stats d;
	unsigned int i;

	memset(a, 0, sizeof(*a));
	for (i = 1; i < prober__sites(s->prober); i++) {
		struct mt_site_stat st;

		if (site_stat__read(s->stats_fd, i, &st))
			continue;
		a->seen += st.seen;
		a->submitted += st.submitted;
		a->lost += st.lost;
		a->entry += st.entry;
		a->orphan += st.orphan;
		a->stale += st.stale;
		a->nested += st.nested;
	}
	a->stale += s->swept;
	drain__stats(s->drain, &d);
	model__counts(s->model, &c);
	a->received = d.received;
	a->bad = d.bad + s->rows_unknown;
	a->rows = c.rows_events;
	for (i = 0; i < RULE_MAX; i++)
		if (i != RULE_LIFECYCLE)
			a->no_row += c.rules[i];
	/* Entries that passed the filter and never came to an end inside the window. */
	a->unfinished = a->entry > a->seen + a->stale ? a->entry - a->seen - a->stale : 0;
	a->exact = a->seen == a->submitted + a->lost && a->submitted == a->received &&
		   a->received == a->rows + a->no_row + a->bad;
}

static void bar(FILE *f, uint64_t v, uint64_t max)
{
	int n = max ? (int)((double)v / (double)max * 30 + 0.5) : 0, i;

	for (i = 0; i < 30; i++)
		fputs(i < n ? "\xe2\x96\x88" : "\xc2\xb7", f);
}

static const char *device_text(int32_t d, char buf[16])
{
	if (d >= 0)
		snprintf(buf, 16, "npu %d", (int)d);
	else
		snprintf(buf, 16, "%s", d == DEV_HOST ? "host" : d == DEV_CPU ? "cpu" : "N/A");
	return buf;
}

#define SHOWN_POOLS 16

/* Largest first; of equal ones the order of processes and pools is kept apart by PID. */
static int by_peak(const void *a, const void *b)
{
	const struct pool_state *x = a, *y = b;

	if (x->peak != y->peak)
		return x->peak < y->peak ? 1 : -1;
	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

/* The picture of the peak: what each pool held at most, drawn to one scale. */
static void print_pools(struct session *s, FILE *f)
{
	struct pool_state p[256];
	size_t n = model__pools(s->model, p, MT_ARRAY_SIZE(p)), i;
	uint64_t max = 0;
	char dev[16];

	for (i = 0; i < n; i++)
		max = MT_MAX(max, MT_MAX(p[i].peak, p[i].peak_total));
	if (!max)
		return;
	qsort(p, n, sizeof(*p), by_peak);
	fprintf(f,
		"  peak of each pool (sums marked * count what was allocated since the attach):\n");
	for (i = 0; i < n && i < SHOWN_POOLS; i++) {
		fprintf(f, "    %-13s %-6s pid %-8u ", row_type__name(p[i].type),
			device_text(p[i].device, dev), p[i].tgid);
		bar(f, p[i].peak, max);
		fprintf(f, " %s%s", cli__bytes(p[i].peak), p[i].partial ? "*" : "");
		if (p[i].peak_total)
			fprintf(f, " of %s reserved", cli__bytes(p[i].peak_total));
		fprintf(f, ", at %.1f s\n",
			p[i].peak_time > s->t_attached
				? (double)(p[i].peak_time - s->t_attached) / 1e9
				: 0.0);
	}
	if (n > SHOWN_POOLS)
		fprintf(f, "    ... and %zu smaller ones\n", n - SHOWN_POOLS);
}

static void print_rows(const struct model_counts *c, FILE *f)
{
	unsigned int i;

	fprintf(f, "  rows:");
	for (i = 0; i < ROW_TYPE_MAX; i++) {
		if (!c->by_type[i][0] && !c->by_type[i][1])
			continue;
		if (i >= ROW_HAL && i <= ROW_MINDSPORE)
			fprintf(f, " %s %" PRIu64 " malloc %" PRIu64 " free;", row_type__name(i),
				c->by_type[i][0], c->by_type[i][1]);
		else
			fprintf(f, " %s %" PRIu64 ";", row_type__name(i), c->by_type[i][0]);
	}
	fputc('\n', f);
}

static void print_losses(struct session *s, FILE *f)
{
	struct loss *list;
	size_t n, i;

	if (losses__read(s->losses_fd, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		char dev[16] = "unknown";

		if (list[i].device >= 0)
			device_text(list[i].device, dev);
		fprintf(f,
			"  lost %" PRIu64
			": %s, probe %s, device %s, cpu %u, from %.3f s to %.3f s\n",
			list[i].count, loss__reason(list[i].reason),
			prober__site_name(s->prober, list[i].site), dev, list[i].cpu,
			(double)(int64_t)(list[i].first - s->t_attached) / 1e9,
			(double)(int64_t)(list[i].last - s->t_attached) / 1e9);
	}
	free(list);
}

static double cpu_seconds(long *rss_kib)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	*rss_kib = u.ru_maxrss;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* How the command of `-- CMD` ended: memtap's own exit status is about the recording. */
static void print_command(const struct session *s, FILE *f)
{
	int st = s->child_status;

	if (!s->opts.cmd)
		return;
	if (!s->child_done)
		fprintf(f, "  the command still runs: pid %d\n", (int)s->child);
	else if (WIFSIGNALED(st))
		fprintf(f, "  the command was ended by signal %d\n", WTERMSIG(st));
	else if (WEXITSTATUS(st))
		fprintf(f, "  the command ended with status %d\n", WEXITSTATUS(st));
}

void session__summary(struct session *s)
{
	struct model_counts c;
	struct drain_stats d;
	const struct probed_file *pf;
	struct account a;
	uint64_t rows, unwritten, bytes;
	const char *path;
	unsigned int i;
	FILE *f = stderr;
	double cpu;
	long rss;

	collect(s);
	if (s->opts.quiet && !s->lost_total && !s->pool_unseen && !s->life_lost && !s->n_unseen)
		return;
	session__account(s, &a);
	model__counts(s->model, &c);
	drain__stats(s->drain, &d);
	out__counts(s->out, &rows, &unwritten, &bytes);
	cpu = cpu_seconds(&rss);
	fprintf(f, "memtap: %.1f s recorded, %zu probes, attach %.0f ms, detach %.0f ms\n",
		(double)(s->t_stop - s->t_attached) / 1e9, prober__attached(s->prober),
		(double)s->attach_ns / 1e6, (double)s->detach_ns / 1e6);
	fprintf(f,
		"  events seen %" PRIu64 " = rows %" PRIu64 " + without a row by rule %" PRIu64
		" + lost %" PRIu64 "%s\n",
		a.seen, a.rows, a.no_row, a.lost,
		a.exact ? "" : "  (DOES NOT ADD UP: a defect, please report)");
	for (i = 0; i < RULE_MAX; i++)
		if (c.rules[i] && i != RULE_LIFECYCLE)
			fprintf(f, "    %s: %" PRIu64 "\n", rule__name(i), c.rules[i]);
	if (c.rules[RULE_LIFECYCLE])
		fprintf(f, "  births and ends of processes, not counted above: %" PRIu64 "\n",
			c.rules[RULE_LIFECYCLE]);
	if (a.unfinished || a.orphan || a.nested || a.stale)
		fprintf(f,
			"  calls across the edges: %" PRIu64 " not returned, %" PRIu64
			" begun before; nested %" PRIu64 ", abandoned %" PRIu64 "\n",
			a.unfinished, a.orphan, a.nested, a.stale);
	print_rows(&c, f);
	if (c.preattach || c.residual || c.oom || c.unpaired_ranges || d.late)
		fprintf(f,
			"  frees of earlier blocks %" PRIu64 ", frees missed %" PRIu64
			", out of memory %" PRIu64 ", range ends without start %" PRIu64
			", late %" PRIu64 "\n",
			c.preattach, c.residual, c.oom, c.unpaired_ranges, d.late);
	print_losses(s, f);
	if (s->life_lost)
		fprintf(f, "  lifecycle events lost: %" PRIu64 " of %" PRIu64 "\n", s->life_lost,
			s->life_seen);
	if (s->probes_failed)
		fprintf(f, "  probes that could not be attached: %zu\n", s->probes_failed);
	if (s->mapwatch_lost)
		fprintf(f,
			"  mapping notices lost: %" PRIu64
			" (a late library may have been missed)\n",
			s->mapwatch_lost);
	for (i = 0; i < s->n_late; i++)
		fprintf(f, "  late library %s (pid %d): probed %.1f ms after it was mapped\n",
			cli__text(s->late[i].path), (int)s->late[i].pid,
			(double)s->late[i].gap_ns / 1e6);
	for (i = 0; i < s->n_unseen; i++)
		fprintf(f, "  calls not seen of %s (pid %d): %s\n", cli__text(s->unseen[i].path),
			(int)s->unseen[i].pid, s->unseen[i].why);
	for (i = 0; (pf = prober__file(s->prober, i)); i++)
		if (pf->withdrawn)
			fprintf(f, "  withdrawn: probe of the allocator in %s: %s; then %s\n",
				cli__text(pf->path), pf->withdraw_why, pf->instead);
		else if (pf->segments)
			fprintf(f, "  no tensors are seen of %s: only the driver's segments\n",
				pf->path);
	if (unwritten)
		fprintf(f, "  rows that could not be written: %" PRIu64 "\n", unwritten);
	print_command(s, f);
	print_pools(s, f);
	fprintf(f, "  stacks: none asked for\n");
	fprintf(f, "  own cost: %.2f s CPU, %s memory, %s waiting at most\n", cpu,
		cli__bytes((uint64_t)rss * 1024), cli__bytes(d.peak_bytes));
	for (i = 0; (path = out__path(s->out, i)); i++)
		fprintf(f, "  wrote %s\n", cli__text(path));
}

static void add_u64(cJSON *o, const char *name, uint64_t v)
{
	char buf[24];

	/* Numbers above 2^53 would be rounded (tracers.md 3.4). */
	snprintf(buf, sizeof(buf), "%" PRIu64, v);
	cJSON_AddRawToObject(o, name, buf);
}

static void json_losses(struct session *s, cJSON *top)
{
	cJSON *arr = cJSON_AddArrayToObject(top, "losses");
	struct loss *list;
	size_t n, i;

	if (losses__read(s->losses_fd, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "reason", loss__reason(list[i].reason));
		cJSON_AddStringToObject(o, "probe", prober__site_name(s->prober, list[i].site));
		cJSON_AddNumberToObject(o, "device", list[i].device);
		cJSON_AddNumberToObject(o, "cpu", list[i].cpu);
		add_u64(o, "count", list[i].count);
		add_u64(o, "first_boot_ns", list[i].first);
		add_u64(o, "last_boot_ns", list[i].last);
		cJSON_AddItemToArray(arr, o);
	}
	free(list);
}

static void json_probes(struct session *s, cJSON *top)
{
	cJSON *arr = cJSON_AddArrayToObject(top, "files_probed");
	const struct probed_file *f;
	size_t i, j;

	for (i = 0; (f = prober__file(s->prober, i)); i++) {
		cJSON *o = cJSON_CreateObject(), *list;

		cJSON_AddStringToObject(o, "path", cli__text(f->path));
		cJSON_AddNumberToObject(o, "attached", (double)f->attached);
		cJSON_AddBoolToObject(o, "withdrawn", f->withdrawn);
		if (f->withdrawn) {
			cJSON_AddStringToObject(o, "why", f->withdraw_why);
			cJSON_AddStringToObject(o, "instead", f->instead);
			add_u64(o, "instead_boot_ns", f->instead_time);
		}
		cJSON_AddBoolToObject(o, "segments_only", f->segments);
		list = cJSON_AddArrayToObject(o, "failed");
		for (j = 0; j < f->n_reports; j++) {
			if (!probe__failed(&f->reports[j]))
				continue;
			cJSON *r = cJSON_CreateObject();

			cJSON_AddStringToObject(r, "symbol", f->reports[j].symbol);
			cJSON_AddStringToObject(r, "why", f->reports[j].why);
			cJSON_AddItemToArray(list, r);
		}
		cJSON_AddItemToArray(arr, o);
	}
	arr = cJSON_AddArrayToObject(top, "late_libraries");
	for (i = 0; i < s->n_late; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "path", cli__text(s->late[i].path));
		cJSON_AddNumberToObject(o, "pid", s->late[i].pid);
		add_u64(o, "gap_ns", s->late[i].gap_ns);
		cJSON_AddItemToArray(arr, o);
	}
	arr = cJSON_AddArrayToObject(top, "unseen_libraries");
	for (i = 0; i < s->n_unseen; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "path", cli__text(s->unseen[i].path));
		cJSON_AddNumberToObject(o, "pid", s->unseen[i].pid);
		cJSON_AddStringToObject(o, "why", s->unseen[i].why);
		cJSON_AddItemToArray(arr, o);
	}
}

static void json_pools(struct session *s, cJSON *top)
{
	cJSON *arr = cJSON_AddArrayToObject(top, "pools");
	struct pool_state p[256];
	size_t n = model__pools(s->model, p, MT_ARRAY_SIZE(p)), i;

	for (i = 0; i < n; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "type", row_type__name(p[i].type));
		cJSON_AddNumberToObject(o, "pid", p[i].tgid);
		cJSON_AddNumberToObject(o, "device", p[i].device);
		add_u64(o, "used", p[i].used);
		add_u64(o, "peak", p[i].peak);
		add_u64(o, "total", p[i].total);
		add_u64(o, "peak_total", p[i].peak_total);
		cJSON_AddBoolToObject(o, "since_attach_only", p[i].partial);
		cJSON_AddItemToArray(arr, o);
	}
}

int session__summary_json(struct session *s, const char *path)
{
	cJSON *top = cJSON_CreateObject(), *o;
	struct model_counts c;
	struct drain_stats d;
	struct account a;
	uint64_t rows, unwritten, bytes;
	unsigned int i;
	char *text = NULL;
	int fd, err;
	long rss;

	collect(s);
	session__account(s, &a);
	model__counts(s->model, &c);
	drain__stats(s->drain, &d);
	out__counts(s->out, &rows, &unwritten, &bytes);
	cJSON_AddNumberToObject(top, "schema", 1);
	cJSON_AddStringToObject(top, "version", MEMTAP_VERSION);
	cJSON_AddStringToObject(top, "mechanism", prober__mechanism(s->prober));
	add_u64(top, "attached_boot_ns", s->t_attached);
	add_u64(top, "stopped_boot_ns", s->t_stop);
	add_u64(top, "boot_to_real_ns", (uint64_t)s->boot_to_real);
	cJSON_AddNumberToObject(top, "attach_ms", (double)s->attach_ns / 1e6);
	cJSON_AddNumberToObject(top, "detach_ms", (double)s->detach_ns / 1e6);
	cJSON_AddNumberToObject(top, "probes", (double)prober__attached(s->prober));
	if (s->opts.cmd && s->child_done)
		cJSON_AddNumberToObject(top, "command_status",
					WIFSIGNALED(s->child_status)
						? 128 + WTERMSIG(s->child_status)
						: WEXITSTATUS(s->child_status));
	o = cJSON_AddObjectToObject(top, "accounting");
	add_u64(o, "seen", a.seen);
	add_u64(o, "submitted", a.submitted);
	add_u64(o, "received", a.received);
	add_u64(o, "rows", a.rows);
	add_u64(o, "without_row", a.no_row);
	add_u64(o, "lost", a.lost);
	add_u64(o, "undecodable", a.bad);
	cJSON_AddBoolToObject(o, "exact", a.exact);
	add_u64(o, "not_returned", a.unfinished);
	add_u64(o, "begun_before", a.orphan);
	add_u64(o, "nested", a.nested);
	add_u64(o, "abandoned", a.stale);
	o = cJSON_AddObjectToObject(top, "without_row");
	for (i = 0; i < RULE_MAX; i++)
		add_u64(o, rule__name(i), c.rules[i]);
	add_u64(top, "rows_extra", c.rows_extra);
	add_u64(top, "rows_written", rows);
	add_u64(top, "rows_unwritten", unwritten);
	add_u64(top, "frees_preattach", c.preattach);
	add_u64(top, "frees_missed", c.residual);
	add_u64(top, "failed_allocations", c.failures[0]);
	add_u64(top, "failed_other", c.failures[1]);
	add_u64(top, "oom", c.oom);
	add_u64(top, "late", d.late);
	add_u64(top, "live_blocks", c.live_blocks);
	o = cJSON_AddObjectToObject(top, "lifecycle");
	add_u64(o, "seen", s->life_seen);
	add_u64(o, "lost", s->life_lost);
	add_u64(top, "mapwatch_lost", s->mapwatch_lost);
	add_u64(top, "probes_failed", s->probes_failed);
	json_losses(s, top);
	json_pools(s, top);
	json_probes(s, top);
	o = cJSON_AddArrayToObject(top, "files");
	for (i = 0; out__path(s->out, i); i++)
		cJSON_AddItemToArray(o, cJSON_CreateString(cli__text(out__path(s->out, i))));
	cJSON_AddNumberToObject(top, "cpu_seconds", cpu_seconds(&rss));
	cJSON_AddNumberToObject(top, "memory_kib", (double)rss);
	text = cJSON_Print(top);
	cJSON_Delete(top);
	if (!text)
		return -ENOMEM;
	if (strcmp(path, "-") == 0) {
		puts(text);
		free(text);
		return 0;
	}
	/* A named file of the user's: replaced, but never through a link. */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : fd__write_all(fd, text, strlen(text));
	if (fd >= 0) {
		(void)fd__write_all(fd, "\n", 1);
		close(fd);
	}
	free(text);
	return err;
}
