/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of user/output share: folders, files, rows of the golden csv. */
#ifndef MEMTAP_OUT_TEST_H
#define MEMTAP_OUT_TEST_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"
#include "output/output.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static char *tmp_dir(void)
{
	char *d = strdup("/tmp/memtap-out-XXXXXX");

	cr_assert(mkdtemp(d));
	return d;
}

static int rm_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

static void rm_dir(char *d)
{
	nftw(d, rm_one, 8, FTW_DEPTH | FTW_PHYS);
	free(d);
}

/* First file of dir/sub whose name starts and ends so; NULL if none. */
static char *find_file(const char *dir, const char *sub, const char *start, const char *end)
{
	char *found = NULL, *path;
	struct dirent *e;
	size_t n;
	DIR *h;

	cr_assert(asprintf(&path, "%s/%s", dir, sub) > 0);
	h = opendir(path);
	while (h && (e = readdir(h))) {
		n = strlen(e->d_name);
		if (strncmp(e->d_name, start, strlen(start)) || n < strlen(end) ||
		    strcmp(e->d_name + n - strlen(end), end) || found)
			continue;
		cr_assert(asprintf(&found, "%s/%s", path, e->d_name) > 0);
	}
	if (h)
		closedir(h);
	free(path);
	return found;
}

static char *read_all(const char *path, size_t *len)
{
	char *s = NULL;
	ssize_t n = path ? file__read(path, 1u << 30, &s) : -ENOENT;

	cr_assert(n >= 0, "%s: %s", path ? path : "(no file)", strerror((int)-n));
	if (len)
		*len = (size_t)n;
	return s;
}

static char *read_found(const char *dir, const char *sub, const char *start, const char *end)
{
	char *path = find_file(dir, sub, start, end), *s = read_all(path, NULL);

	free(path);
	return s;
}

/* Fails with the place of the first difference. */
static void expect_text(const char *got, const char *want)
{
	size_t i = 0, line = 1;

	while (got[i] && got[i] == want[i])
		line += got[i++] == '\n';
	cr_expect(got[i] == want[i], "line %zu differs:\ngot  %.300s\nwant %.300s", line, got + i,
		  want + i);
}

#define CSV_HEADER                                                                        \
	"ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr," \
	"Call Stack(Python),Call Stack(C)\n"

/* Write rows in one go; returns the error of close. */
static int write_rows(struct out_opts opts, const struct row *rows, size_t n)
{
	struct out *o;
	size_t i;

	cr_assert(!out__open(&opts, &o));
	for (i = 0; i < n; i++)
		(void)out__row(o, &rows[i]);
	return out__close(o);
}

/* The csv's text of these rows. */
static char *csv_of(struct out_opts opts, const struct row *rows, size_t n)
{
	char *d = tmp_dir(), *s;

	opts.dir = d;
	cr_assert(!write_rows(opts, rows, n));
	s = read_found(d, "dump", "leaks_dump_", ".csv");
	rm_dir(d);
	return s;
}

/* ---- golden csv -> rows ---- */

static uint64_t attr_num(const char *attr, const char *key)
{
	char pat[64];
	const char *p;

	snprintf(pat, sizeof(pat), "%s:", key);
	p = strstr(attr, pat);
	return p ? strtoull(p + strlen(pat), NULL, 10) : 0;
}

static void row_fields(struct row *r, char *f[10])
{
	unsigned int e, t;
	size_t n;

	memset(r, 0, sizeof(*r));
	for (e = 0; e < ROW_EVENT_MAX && strcmp(row_event__name(e), f[1]); e++)
		;
	for (t = 0; t < ROW_TYPE_MAX && strcmp(row_type__name(t), f[2]); t++)
		;
	cr_assert(e < ROW_EVENT_MAX && t < ROW_TYPE_MAX, "%s,%s", f[1], f[2]);
	r->event = e;
	r->type = t;
	r->id = strtoull(f[0], NULL, 10);
	if (strcmp(f[3], "N/A")) {
		n = strlen(f[3]);
		if (*f[3] == '"') {
			f[3][n - 1] = 0;
			f[3]++;
		}
		r->name = strdup(f[3]);
		r->name_len = (uint32_t)strlen(f[3]);
	}
	r->time = strtoull(f[4], NULL, 10);
	r->pid = (uint32_t)strtoul(f[5], NULL, 10);
	r->tid = (uint32_t)strtoul(f[6], NULL, 10);
	r->device = !strcmp(f[7], "host")  ? DEV_HOST
		    : !strcmp(f[7], "cpu") ? DEV_CPU
		    : !strcmp(f[7], "N/A") ? DEV_NA
					   : atoi(f[7]);
	r->ptr = strtoull(f[8], NULL, 10);
	r->stream_id = -1;
	if (strstr(f[9], "allocation_id:")) {
		r->attrs |= ATTR_BLOCK;
		r->allocation_id = attr_num(f[9], "allocation_id");
		r->size = (int64_t)attr_num(f[9], "size");
	}
	if (strstr(f[9], "total:")) {
		r->attrs |= ATTR_POOL;
		r->total = attr_num(f[9], "total");
		r->used = attr_num(f[9], "used");
	}
	if (strstr(f[9], "streamId:")) {
		r->attrs |= ATTR_KERNEL;
		r->stream_id = (int64_t)attr_num(f[9], "streamId");
	}
	if (strstr(f[9], "owner:")) {
		char *s = strdup(strstr(f[9], "owner:") + 6);

		s[strcspn(s, "}")] = 0;
		r->attrs |= ATTR_OWNER;
		r->owner = s;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
				  : (x->id > y->id) - (x->id < y->id);
}

/* What is held by the rows up to this one on its device. */
static uint64_t held_at(const struct row *rows, size_t i)
{
	uint64_t sum = 0;
	size_t j;

	for (j = 0; j <= i; j++)
		if (rows[j].type == rows[i].type && rows[j].pid == rows[i].pid &&
		    rows[j].device == rows[i].device)
			sum += rows[j].event == ROW_MALLOC ? (uint64_t)rows[j].size
							   : -(uint64_t)rows[j].size;
	return sum;
}

/* Sums, range, step and kernel numbers, which the model would give. */
static void number_rows(struct row *rows, size_t n)
{
	uint64_t kernel = 0, range = 0, step = 0;
	size_t i, j;

	for (i = 0; i < n; i++) {
		struct row *r = &rows[i];

		if (r->type == ROW_HAL || r->type == ROW_HOST_PINNED)
			r->held = held_at(rows, i);
		kernel += r->event == ROW_KERNEL_LAUNCH;
		r->kernel_index = kernel;
		if (r->type == ROW_RANGE_START) {
			r->range_id = ++range;
			r->step_id = strcmp(r->name, "step start") ? 0 : ++step;
		} else if (r->type == ROW_RANGE_END) {
			sscanf(r->name, "Range end from id %lu", &r->range_id);
		}
		r->born_step = (uint32_t)step;
		for (j = i; j-- > 0;) {
			if (r->type == ROW_RANGE_END && rows[j].type == ROW_RANGE_START &&
			    rows[j].range_id == r->range_id)
				break;
			if (r->event == ROW_FREE && rows[j].event == ROW_MALLOC &&
			    rows[j].type == r->type && rows[j].ptr == r->ptr)
				break;
		}
		if ((r->type == ROW_RANGE_END || r->event == ROW_FREE) && j < i) {
			r->step_id = rows[j].step_id;
			r->begin_time = rows[j].time;
			r->begin_kernel = rows[j].kernel_index;
			if (r->event == ROW_FREE) {
				r->steps_lived = (uint32_t)step - rows[j].born_step;
				r->born_step = rows[j].born_step;
			}
		}
	}
}

/* Rows of a csv text (which is cut up), in time order. */
static struct row *rows_of_csv(char *text, size_t *count)
{
	struct row *rows = NULL;
	size_t n = 0;
	char *line, *save = NULL, *p;

	line = strtok_r(text, "\n", &save);
	cr_assert_str_eq(line, "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,"
			       "Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)");
	while ((line = strtok_r(NULL, "\n", &save))) {
		bool quoted = false;
		char *f[10];
		int k = 0;

		f[k++] = line;
		for (p = line; *p && k < 10; p++) {
			if (*p == '"')
				quoted = !quoted;
			if (*p == ',' && !quoted) {
				*p = 0;
				f[k++] = p + 1;
			}
		}
		cr_assert_eq(k, 10);
		rows = realloc(rows, (n + 1) * sizeof(*rows));
		row_fields(&rows[n++], f);
	}
	qsort(rows, n, sizeof(*rows), by_time);
	number_rows(rows, n);
	*count = n;
	return rows;
}

/* In place: "taskId:<n>" -> "taskId:N/A", which is all that can be known. */
static void drop_task_ids(char *s)
{
	char *w = s;

	while (*s) {
		if (!strncmp(s, "taskId:", 7) && s[7] != 'N') {
			/* Never longer than the digits and what follows: built anew. */
			memcpy(w, "taskId:", 7);
			w += 7;
			s += 7;
			s += strspn(s, "0123456789");
			*w++ = '?';
			continue;
		}
		if (!strncmp(s, "taskId:N/A", 10)) {
			memcpy(w, "taskId:?", 8);
			w += 8;
			s += 10;
			continue;
		}
		*w++ = *s++;
	}
	*w = 0;
}

#pragma GCC diagnostic pop
#endif
