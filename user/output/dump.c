// SPDX-License-Identifier: Apache-2.0
/* The dump file of a run, csv or db. */
#include "output/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names beside a new dump file that must be free: another run's, or SQLite's. */
#define TAKEN(stem)                                                                              \
	{                                                                                        \
		"." stem "%s.journal", stem "%s.db-wal", stem "%s.db-shm", stem "%s.db-journal", \
			OWNERS_STEM "%s.csv", NULL                                               \
	}

static const char *const taken[2][6] = { TAKEN("leaks_dump_"), TAKEN("memscope_dump_") };

int dump__create(struct dump *d, struct outdir *dir, const struct out_opts *opts, char ts[16])
{
	unsigned int form = (opts->vendor ? FORM_VENDOR : 0) | (opts->newer ? FORM_NEWER : 0);
	const char *ext = opts->format == OUT_DB ? ".db" : ".csv", *stem = form__stem(form);
	char name[64], *p;
	int fd, err;

	memset(d, 0, sizeof(*d));
	d->csv.fd = -1;
	d->format = opts->format;
	d->form = form;
	d->cells = opts->cells;
	d->cells_ctx = opts->cells_ctx;
	fd = outdir__create(dir, "dump", stem, ext, taken[opts->newer], ts);
	if (fd < 0)
		return fd;
	snprintf(name, sizeof(name), "%s%s%s", stem, ts, ext);
	err = outdir__note(dir, "dump", name);
	if (!err && !(d->path = strdup(dir->paths[dir->n_paths - 1])))
		err = -ENOMEM;
	if (err) {
		close(fd);
		return err;
	}
	if (d->format == OUT_DB) {
		close(fd);
		return db__open(d->path, d->form, &d->db);
	}
	err = sink__init(&d->csv, fd, 0);
	if (err)
		return err;
	p = sink__room(&d->csv, 256);
	if (p)
		sink__commit(&d->csv, put_mem(p, csv_header, strlen(csv_header)));
	err = sink__flush(&d->csv);
	d->csv.lost = 0; /* the header is not a row */
	return err;
}

int dump__reopen(struct dump *d, const char *path, int csv_fd, uint64_t csv_size, unsigned int form)
{
	memset(d, 0, sizeof(*d));
	d->csv.fd = -1;
	d->form = form;
	d->format = csv_fd < 0 ? OUT_DB : OUT_CSV;
	d->path = strdup(path);
	if (!d->path)
		return -ENOMEM;
	if (d->format == OUT_DB)
		return db__open(path, form, &d->db);
	return sink__init(&d->csv, csv_fd, csv_size);
}

/* Where nobody can tell them any more: after a recording that was killed. */
static void no_cells(struct row *r)
{
	if (r->stack_py) {
		r->cell_py = "NA";
		r->cell_py_len = 2;
	}
	if (r->stack_c) {
		r->cell_c = "NA";
		r->cell_c_len = 2;
	}
}

int dump__row(struct dump *d, const struct row *r)
{
	struct row with;
	int err;

	if (r->attrs & ATTR_STACKS) {
		with = *r;
		if (d->cells)
			d->cells(d->cells_ctx, &with);
		else
			no_cells(&with);
		r = &with;
	}
	/* The newer tool tells both by one word. */
	if (d->form == (FORM_VENDOR | FORM_NEWER) && r->type == ROW_PTA_WORKSPACE) {
		if (r != &with)
			with = *r;
		with.type = ROW_PTA;
		r = &with;
	}
	if (d->format == OUT_CSV)
		err = csv__row(&d->csv, r, d->form, &d->guarded);
	else
		err = d->db ? db__row(d->db, r) : -EIO;
	/* A row whose insert failed was taken and undone: db__lost() has it. */
	if (!err)
		d->taken++;
	return err;
}

int dump__flush(struct dump *d)
{
	if (d->format == OUT_CSV)
		return sink__flush(&d->csv);
	return d->db ? db__flush(d->db) : -EIO;
}

uint64_t dump__lost(const struct dump *d)
{
	if (d->format == OUT_CSV)
		return d->csv.lost;
	return d->db ? db__lost(d->db) : 0;
}

uint64_t dump__bytes(const struct dump *d)
{
	char wal[4200];
	struct stat st;
	uint64_t n;

	if (d->format == OUT_CSV)
		return d->csv.size + d->csv.len;
	n = d->path && !stat(d->path, &st) ? (uint64_t)st.st_size : 0;
	snprintf(wal, sizeof(wal), "%s-wal", d->path ? d->path : "");
	if (!stat(wal, &st))
		n += (uint64_t)st.st_size;
	return n;
}

uint64_t dump__position(const struct dump *d)
{
	if (d->format == OUT_CSV)
		return d->csv.size;
	return d->db ? (uint64_t)db__last_rowid(d->db) : 0;
}

int dump__close(struct dump *d)
{
	int err = 0;

	if (d->format == OUT_CSV)
		err = sink__close(&d->csv);
	else if (d->db)
		err = db__close(d->db);
	d->db = NULL;
	if (d->guarded)
		pr_warn("%llu names began like a formula of a spreadsheet: emptied in marks, "
			"with a ' in front elsewhere",
			(unsigned long long)d->guarded);
	free(d->path);
	d->path = NULL;
	return err;
}
