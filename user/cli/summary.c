// SPDX-License-Identifier: Apache-2.0
/* What a run saw, lost and wrote, as text for people. */
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/host.h"
#include "cli/later.h"
#include "cli/owners.h"

static size_t probes_failed(struct session *s)
{
	const struct probed_file *f;
	size_t i, j, n = 0;

	for (i = 0; (f = prober__file(s->prober, i)); i++)
		for (j = 0; j < f->n_reports; j++)
			n += probe_report__failed(&f->reports[j]);
	return n;
}

void session__collect(struct session *s)
{
	struct mt_site_stat st;
	struct model_counts c;
	struct drain_stats d;
	struct account a;

	model__counts(s->model, &c);
	s->crowded = c.rules[RULE_CROWDED];
	s->probes_failed = probes_failed(s);
	later__settle(s);
	session__reap(s);
	s->host_incomplete = host__incomplete(s);
	if (!site_stat__read(s->stats_fd, 0, &st)) {
		s->life_seen = st.seen;
		s->life_lost = st.lost;
	}
	drain__stats(s->drain, &d);
	s->life_lost += d.life_bad + s->life_bad;
	session__account(s, &a);
	s->inexact = !a.exact;
}

bool session__incomplete(const struct session *s)
{
	return s->inexact || s->crowded || s->lost_total || s->n_gaps || s->n_unseen ||
	       s->mapwatch_lost || s->pool_unseen || s->probes_failed || s->life_lost ||
	       s->functions_unseen || s->host_incomplete;
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
	a->bad = d.nonsense.count + d.no_memory.count + s->undecodable;
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

/* The picture of the peak: what each pool held at most, drawn to one scale. */
static void print_pools(struct session *s, FILE *f)
{
	uint64_t max = 0;
	char dev[16];
	size_t n, i;
	struct pool_state *p = model__pool_list(s->model, &n);

	for (i = 0; i < n; i++)
		max = MT_MAX(max, MT_MAX(p[i].peak, p[i].peak_total));
	if (!max)
		goto out;
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
out:
	free(p);
}

static void print_rows(const struct model_counts *c, FILE *f)
{
	unsigned int i;

	const char *between = "";

	fprintf(f, "  rows: ");
	for (i = 0; i < ROW_TYPE_MAX; i++) {
		if (!c->by_type[i][0] && !c->by_type[i][1])
			continue;
		if (i >= ROW_HAL && i <= ROW_MINDSPORE)
			fprintf(f, "%s%s %" PRIu64 " malloc %" PRIu64 " free", between,
				row_type__name(i), c->by_type[i][0], c->by_type[i][1]);
		else
			fprintf(f, "%s%s %" PRIu64, between, row_type__name(i), c->by_type[i][0]);
		between = "; ";
	}
	fputs(*between ? "\n" : "none\n", f);
}

static void print_losses(struct session *s, FILE *f)
{
	struct loss *list;
	size_t n, i;

	if (session__all_losses(s, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		char dev[16] = "unknown", cpu[16] = "unknown";
		const char *whose = "";

		if (list[i].cpu != NO_CPU)
			snprintf(cpu, sizeof(cpu), "%u", list[i].cpu);

		if (list[i].device >= 0) {
			device_text(list[i].device, dev);
			/* Unlike in rows, where all are as the process sees them. */
			if (loss__is_physical(prober__site_fn(s->prober, list[i].site)))
				whose = " of the driver";
		}
		fprintf(f,
			"  lost %" PRIu64
			": %s, probe %s, device %s%s, cpu %s, from %.3f s to %.3f s\n",
			list[i].count, loss__reason(list[i].reason),
			prober__site_name(s->prober, list[i].site), dev, whose, cpu,
			(double)(int64_t)(list[i].first - s->t_attached) / 1e9,
			(double)(int64_t)(list[i].last - s->t_attached) / 1e9);
	}
	free(list);
}

/* Processes whose records of a probe make no sense, while those of others do. */
static void print_doubted(const struct probed_file *f, const struct pta_side *side, FILE *out)
{
	size_t i;

	for (i = 0; !side->withdrawn && i < side->judge.n; i++)
		if (side->judge.voices[i].wrong)
			fprintf(out,
				"  not believed: what the allocator of pid %u in %s tells: %s; its "
				"tensors are not seen\n",
				side->judge.voices[i].tgid, cli__text(f->path),
				side->judge.voices[i].wrong);
}

static void print_gaps(const struct session *s, FILE *f)
{
	size_t i;

	for (i = 0; i < s->n_gaps; i++) {
		const struct gap *g = &s->gaps[i];

		if (g->kind == GAP_HOST)
			continue; /* in one line of host_summary.c */
		if (g->kind == GAP_LIBRARY && g->never)
			fprintf(f, "  library %s (pid %d): mapped, and never probed\n",
				cli__text(g->path), (int)g->pid);
		else if (g->kind == GAP_FUNCTIONS)
			fprintf(f,
				"  late Python functions of %s (pid %d): %s; calls of the %.1f ms "
				"before they were probed may be missing\n",
				cli__text(g->path), (int)g->pid, g->functions,
				(double)(g->last - g->first) / 1e6);
		else if (g->kind == GAP_PROCESS)
			fprintf(f,
				"  late process (pid %d): %s within %.1f ms; its calls before may "
				"be "
				"missing\n",
				(int)g->pid,
				g->never ? "ended before its name could be looked at,"
					 : "found by its name",
				(double)(g->last - g->first) / 1e6);
		else if (g->kind == GAP_LIBRARY)
			fprintf(f,
				"  late library %s (pid %d): probed %.1f ms after it was mapped\n",
				cli__text(g->path), (int)g->pid,
				(double)(g->last - g->first) / 1e6);
		else
			fprintf(f,
				"  new mappings not watched from %.3f s to %.3f s: calls of "
				"libraries "
				"mapped then may be missing\n",
				(double)(g->first - s->t_attached) / 1e9,
				(double)(g->last - s->t_attached) / 1e9);
	}
}

/* The most that was resident. Not ru_maxrss: that began with what whoever started us had. */
static long most_resident_kib(void)
{
	char line[128];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

double session__cpu_seconds(long *rss_kib)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	*rss_kib = most_resident_kib();
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* How the command of `-- CMD` ended: memtap's own exit status is about the recording. */
static void print_command(const struct session *s, FILE *f)
{
	int st = s->child_status;

	if (!s->opts.cmd)
		return;
	if (s->early)
		fprintf(f, "  the command was not started\n");
	else if (!s->child_done)
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

	if (s->opts.quiet && !session__incomplete(s))
		return;
	session__account(s, &a);
	model__counts(s->model, &c);
	drain__stats(s->drain, &d);
	out__counts(s->out, &rows, &unwritten, &bytes);
	cpu = session__cpu_seconds(&rss);
	fprintf(f, "memtap: %.1f s recorded, %zu probes, attach %.0f ms, detach %.0f ms\n",
		(double)(s->t_stop - s->t_attached) / 1e9, prober__attached(s->prober),
		(double)s->attach_ns / 1e6, (double)s->detach_ns / 1e6);
	fprintf(f,
		"  events seen %" PRIu64 " = rows %" PRIu64 " + without a row by rule %" PRIu64
		" + lost %" PRIu64,
		a.seen, a.rows, a.no_row, a.lost);
	if (a.bad)
		fprintf(f, " + undecodable %" PRIu64, a.bad);
	fprintf(f, "%s\n", a.exact ? "" : "  (DOES NOT ADD UP: a defect, please report)");
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
	if (c.ranges_over)
		fprintf(f,
			"  range starts not remembered, too many ranges are open: %" PRIu64
			"; their ends have no start\n",
			c.ranges_over);
	if (c.gone_over)
		fprintf(f,
			"  blocks freed while nothing was collected that are not remembered, they "
			"are too many: %" PRIu64 "; their shadow rows are missing\n",
			c.gone_over);
	if (c.labels_over + s->labels_lost)
		fprintf(f,
			"  labels of owners not kept, too many of them or of no block whose row "
			"waits: "
			"%" PRIu64 "\n",
			c.labels_over + s->labels_lost);
	print_losses(s, f);
	if (s->life_lost)
		fprintf(f, "  lifecycle events lost: %" PRIu64 " of %" PRIu64 "\n", s->life_lost,
			s->life_seen);
	if (s->probes_failed)
		fprintf(f, "  probes that could not be attached: %zu\n", s->probes_failed);
	if (s->mapwatch_lost)
		fprintf(f, "  mapping notices lost: %" PRIu64 "\n", s->mapwatch_lost);
	print_gaps(s, f);
	later__print(s, f);
	host__print(s, f);
	for (i = 0; i < s->n_unseen; i++)
		fprintf(f, "  calls not seen of %s (pid %d): %s\n", cli__text(s->unseen[i].path),
			(int)s->unseen[i].pid, s->unseen[i].why);
	for (i = 0; (pf = prober__file(s->prober, i)) && i < s->n_checks; i++) {
		print_doubted(pf, &s->checks[i].report, f);
		print_doubted(pf, &s->checks[i].functions, f);
	}
	for (i = 0; (pf = prober__file(s->prober, i)); i++)
		if (pf->withdrawn)
			fprintf(f, "  withdrawn: probe of the allocator in %s: %s; then %s\n",
				cli__text(pf->path), pf->withdraw_why, pf->instead);
		else if (pf->segments)
			fprintf(f, "  no tensors are seen of %s: only the driver's segments\n",
				pf->path);
	if (unwritten)
		fprintf(f, "  rows that could not be written: %" PRIu64 "\n", unwritten);
	if (out__left_out(s->out))
		fprintf(f, "  rows without a trace file, of devices above %d: %" PRIu64 "\n",
			MAX_DEVICES - 1, out__left_out(s->out));
	print_command(s, f);
	print_pools(s, f);
	callstack__print(s, f);
	owners__print(s, f);
	fprintf(f, "  own cost: %.2f s CPU, %s memory, %s waiting at most\n", cpu,
		cli__bytes((uint64_t)rss * 1024), cli__bytes(d.peak_bytes));
	for (i = 0; (path = out__path(s->out, i)); i++)
		fprintf(f, "  wrote %s\n", cli__text(path));
	if (!i)
		fprintf(f, "  wrote nothing: %s\n",
			s->n_targets ? "nothing happened that has a row" : "no process was traced");
}
