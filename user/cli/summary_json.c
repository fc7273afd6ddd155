// SPDX-License-Identifier: Apache-2.0
/* What a run saw, lost and wrote, as JSON for programs. */
#include "cli/session.h"

#include <cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/host.h"
#include "cli/owners.h"

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

	if (session__all_losses(s, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "reason", loss__reason(list[i].reason));
		cJSON_AddStringToObject(o, "probe", prober__site_name(s->prober, list[i].site));
		cJSON_AddNumberToObject(o, "device", list[i].device);
		/* The driver's number, or the process's own. */
		cJSON_AddBoolToObject(o, "physical",
				      loss__is_physical(prober__site_fn(s->prober, list[i].site)));
		if (list[i].cpu == NO_CPU)
			cJSON_AddNullToObject(o, "cpu");
		else
			cJSON_AddNumberToObject(o, "cpu", list[i].cpu);
		add_u64(o, "count", list[i].count);
		add_u64(o, "first_boot_ns", list[i].first);
		add_u64(o, "last_boot_ns", list[i].last);
		cJSON_AddItemToArray(arr, o);
	}
	free(list);
}

/* Processes whose records of a probe make no sense, while those of others do. */
static void json_doubted(const struct pta_side *side, cJSON *list)
{
	size_t i;

	for (i = 0; !side->withdrawn && i < side->judge.n; i++) {
		const struct pta_voice *v = &side->judge.voices[i];
		cJSON *o;

		if (!v->wrong)
			continue;
		o = cJSON_CreateObject();
		cJSON_AddNumberToObject(o, "pid", v->tgid);
		cJSON_AddStringToObject(o, "why", v->wrong);
		cJSON_AddItemToArray(list, o);
	}
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
		list = cJSON_AddArrayToObject(o, "doubted");
		if (i < s->n_checks) {
			json_doubted(&s->checks[i].report, list);
			json_doubted(&s->checks[i].functions, list);
		}
		list = cJSON_AddArrayToObject(o, "failed");
		for (j = 0; j < f->n_reports; j++) {
			if (!probe_report__failed(&f->reports[j]))
				continue;
			cJSON *r = cJSON_CreateObject();

			cJSON_AddStringToObject(r, "symbol", f->reports[j].symbol);
			cJSON_AddStringToObject(r, "why", f->reports[j].why);
			cJSON_AddItemToArray(list, r);
		}
		cJSON_AddItemToArray(arr, o);
	}
}

static void json_gaps(struct session *s, cJSON *top)
{
	cJSON *late = cJSON_AddArrayToObject(top, "late_libraries");
	cJSON *functions = cJSON_AddArrayToObject(top, "late_functions");
	cJSON *processes = cJSON_AddArrayToObject(top, "late_processes");
	cJSON *unwatched = cJSON_AddArrayToObject(top, "mappings_unwatched");
	size_t i;

	for (i = 0; i < s->n_gaps; i++) {
		const struct gap *g = &s->gaps[i];
		cJSON *o;

		if (g->kind == GAP_HOST)
			continue; /* sums of them: host_memory */
		o = cJSON_CreateObject();
		if (g->kind != GAP_NOTICES) {
			cJSON_AddNumberToObject(o, "pid", g->pid);
			add_u64(o, "gap_ns", g->last - g->first);
		}
		if (g->path) {
			cJSON_AddStringToObject(o, "path", cli__text(g->path));
			cJSON_AddBoolToObject(o, "probed", !g->never);
		}
		add_u64(o, "first_boot_ns", g->first);
		add_u64(o, "last_boot_ns", g->last);
		if (g->functions)
			cJSON_AddStringToObject(o, "functions", g->functions);
		cJSON_AddItemToArray(g->kind == GAP_FUNCTIONS ? functions
				     : g->kind == GAP_LIBRARY ? late
				     : g->kind == GAP_PROCESS ? processes
							      : unwatched,
				     o);
	}
	late = cJSON_AddArrayToObject(top, "unseen_libraries");
	for (i = 0; i < s->n_unseen; i++) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "path", cli__text(s->unseen[i].path));
		cJSON_AddNumberToObject(o, "pid", s->unseen[i].pid);
		cJSON_AddStringToObject(o, "why", s->unseen[i].why);
		cJSON_AddItemToArray(late, o);
	}
}

static void json_pools(struct session *s, cJSON *top)
{
	cJSON *arr = cJSON_AddArrayToObject(top, "pools");
	size_t n, i;
	struct pool_state *p = model__pool_list(s->model, &n);

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
	free(p);
}

/* A file that is not there is made and removed: no other way tells all that may be in its way. */
static int try_file(const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd >= 0) {
		close(fd);
		return unlink(path) ? -errno : 0;
	}
	if (errno != EEXIST || lstat(path, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	/* Opening a pipe would wait for its reader, or end him. */
	if (!S_ISREG(st.st_mode))
		return access(path, W_OK) ? -errno : 0;
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void cannot_write(const char *path, int err)
{
	pr_err("--summary-json %s: %s; name a file that can be written, or - for standard output",
	       path, err == -ELOOP ? "is a symbolic link, which is not followed" : strerror(-err));
}

int summary_json__check(const char *path)
{
	int err = strcmp(path, "-") == 0 ? 0 : try_file(path);

	if (err)
		cannot_write(path, err);
	return err;
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
	add_u64(top, "rows_without_trace_file", out__left_out(s->out));
	add_u64(top, "frees_preattach", c.preattach);
	add_u64(top, "frees_missed", c.residual);
	add_u64(top, "failed_allocations", c.failures[0]);
	add_u64(top, "failed_other", c.failures[1]);
	add_u64(top, "ranges_not_remembered", c.ranges_over);
	add_u64(top, "shadows_not_kept", c.gone_over);
	add_u64(top, "labels_not_kept", c.labels_over + s->labels_lost);
	add_u64(top, "oom", c.oom);
	add_u64(top, "late", d.late);
	add_u64(top, "live_blocks", c.live_blocks);
	o = cJSON_AddObjectToObject(top, "lifecycle");
	add_u64(o, "seen", s->life_seen);
	add_u64(o, "lost", s->life_lost);
	add_u64(top, "mapwatch_lost", s->mapwatch_lost);
	add_u64(top, "probes_failed", s->probes_failed);
	add_u64(top, "functions_unseen", s->functions_unseen);
	json_losses(s, top);
	json_pools(s, top);
	json_probes(s, top);
	json_gaps(s, top);
	host__json(s, top);
	callstack__json(s, top);
	owners__json(s, top);
	o = cJSON_AddArrayToObject(top, "files");
	for (i = 0; out__path(s->out, i); i++)
		cJSON_AddItemToArray(o, cJSON_CreateString(cli__text(out__path(s->out, i))));
	cJSON_AddNumberToObject(top, "cpu_seconds", session__cpu_seconds(&rss));
	cJSON_AddNumberToObject(top, "memory_kib", (double)rss);
	text = cJSON_Print(top);
	cJSON_Delete(top);
	if (!text)
		return -ENOMEM;
	if (strcmp(path, "-") == 0) {
		err = puts(text) < 0 || fflush(stdout) ? -errno : 0;
		free(text);
		clearerr(stdout); /* said here */
		if (err)
			cannot_write(path, err);
		return err;
	}
	/* A named file of the user's: replaced, but never through a link. */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	err = fd < 0 ? -errno : fd__write_all(fd, text, strlen(text));
	if (!err)
		err = fd__write_all(fd, "\n", 1);
	/* Of some file systems only this tells that there was no room. */
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	free(text);
	if (err)
		cannot_write(path, err);
	return err;
}
