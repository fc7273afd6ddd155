// SPDX-License-Identifier: Apache-2.0
/*
 * A dump csv, read in pieces: each record is handed out from the buffer. What
 * is no record is left out and counted, up to where one starts again.
 */
#include "input/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER (1u << 20)
/* Of so many pieces that are no rows the place is told. */
#define TELL_BAD 3
/*
 * Rows whose end was looked for further than this and not found; so many of
 * them are damage. Without a limit a file could be made that takes for ever.
 */
#define FAR 65536
#define MAX_ENDLESS 64

struct csv_in {
	int fd;
	char *path;
	char *buf, *pos, *end;
	size_t cap;
	bool eof, skipping;
	unsigned int columns;
	unsigned int endless;
	uint64_t offset; /* of buf in the file */
	struct in_counts counts;
};

/* More bytes behind pos. 1, 0: there are none, or -errno. */
static int more(struct csv_in *f)
{
	size_t left = (size_t)(f->end - f->pos);
	ssize_t n;

	if (f->eof)
		return 0;
	if (f->pos > f->buf && left < f->cap / 2) {
		memmove(f->buf, f->pos, left);
		f->offset += (uint64_t)(f->pos - f->buf);
		f->pos = f->buf;
		f->end = f->buf + left;
	}
	if (f->end == f->buf + f->cap) {
		size_t at = (size_t)(f->pos - f->buf);
		char *b = realloc(f->buf, f->cap * 2);

		if (!b)
			return -ENOMEM;
		f->end = b + (f->end - f->buf);
		f->buf = b;
		f->pos = b + at;
		f->cap *= 2;
	}
	do
		n = read(f->fd, f->end, (size_t)(f->buf + f->cap - f->end));
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		n = -errno;
		pr_err("%s: cannot be read: %s", f->path, strerror((int)-n));
		return (int)n;
	}
	f->eof = !n;
	f->end += n;
	return n > 0;
}

static void bad(struct csv_in *f, const char *why)
{
	if (f->counts.bad++ < TELL_BAD)
		pr_warn("%s: at byte %llu: %s, left out up to the next row", f->path,
			(unsigned long long)(f->offset + (uint64_t)(f->pos - f->buf)), why);
	f->skipping = true;
}

/* Go to the line on which a record starts. 1, 0: there is none, or -errno. */
static int resync(struct csv_in *f)
{
	int err;

	for (;;) {
		char *nl = memchr(f->pos, '\n', (size_t)(f->end - f->pos));

		if (nl && (f->end - nl > 65 || f->eof)) {
			f->pos = nl + 1;
			if (f->pos == f->end)
				return 0;
			if (record__starts(f->pos, f->end))
				break;
			continue;
		}
		if (!nl)
			f->pos = f->end;
		if (f->eof) {
			f->pos = f->end;
			return 0;
		}
		err = more(f);
		if (err < 0)
			return err;
	}
	f->skipping = false;
	return 1;
}

/* The header of columns at pos: their number; 0: another text, or RECORD_MORE as -1. */
static int header(struct csv_in *f, const char **next)
{
	const char *p = f->pos, *nl;
	unsigned int i;
	size_t n;

	nl = memchr(p, '\n', (size_t)(f->end - p));
	if (!nl) {
		if (!f->eof && f->end - p < 4096)
			return -1;
		nl = f->end;
	}
	for (i = 0; i < COL_MAX; i++) {
		bool quotes = p < nl && *p == '"';

		p += quotes;
		n = strlen(in_columns[i]);
		if ((size_t)(nl - p) < n || memcmp(p, in_columns[i], n))
			return 0;
		p += n;
		if (quotes && (p == nl || *p++ != '"'))
			return 0;
		if (i + 1 < COL_MAX && (p == nl || *p++ != ','))
			return 0;
	}
	if (p < nl && *p != ',' && *p != '\r' && *p != ' ')
		return 0;
	for (; p < nl && i < 64; p++)
		i += *p == ',';
	*next = nl < f->end ? nl + 1 : nl;
	return (int)i;
}

static int first_header(struct csv_in *f)
{
	static const char old[] = "Record Index,";
	const char *next;
	int err, n;

	do {
		err = more(f);
		if (err < 0)
			return err;
	} while (err && f->end - f->buf < 4096);
	if (f->end - f->pos >= 3 && !memcmp(f->pos, "\xef\xbb\xbf", 3))
		f->pos += 3;
	if (f->pos == f->end) {
		pr_err("%s: is empty: the run that was to write it recorded nothing", f->path);
		return -ENODATA;
	}
	n = header(f, &next);
	if (n > 0) {
		f->columns = (unsigned int)n;
		f->pos = f->buf + (next - f->buf);
		return 0;
	}
	if ((size_t)(f->end - f->pos) >= sizeof(old) && !memcmp(f->pos, old, sizeof(old) - 1))
		pr_err("%s: has the columns of early 2025, which no released tool writes; record "
		       "again",
		       f->path);
	else
		pr_err("%s: its first line is not the header of a dump (ID,Event,Event Type,…); "
		       "name a leaks_dump_*.csv or memscope_dump_*.csv",
		       f->path);
	return -EBADMSG;
}

int csv_in__open(const char *path, struct csv_in **out)
{
	struct csv_in *f = calloc(1, sizeof(*f));
	int err = -ENOMEM;

	if (!f)
		return -ENOMEM;
	f->fd = -1;
	f->path = strdup(path);
	f->cap = BUFFER;
	f->buf = malloc(f->cap);
	f->pos = f->end = f->buf;
	if (!f->path || !f->buf)
		goto fail;
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (f->fd < 0) {
		err = -errno;
		pr_err("%s: cannot be opened: %s", path, strerror(errno));
		goto fail;
	}
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	err = first_header(f);
	if (err)
		goto fail;
	*out = f;
	return 0;
fail:
	csv_in__close(f);
	return err;
}

/* "" to ", in place: what is read once is not needed any more. */
static void undouble(struct csv_in *f, struct slice *c)
{
	char *from = f->buf + (c->s - f->buf), *to = from, *end = from + c->n;

	while (from < end) {
		if (*from == '"' && from + 1 < end)
			from++;
		*to++ = *from++;
	}
	c->n = (size_t)(to - c->s);
}

static bool fill(struct csv_in *f, struct record *rec, struct in_row *r)
{
	unsigned int i;

	for (i = 0; i < COL_MAX && rec->doubled; i++) {
		if (rec->doubled & 1u << i)
			undouble(f, &rec->cell[i]);
	}
	memcpy(r->cell, rec->cell, sizeof(r->cell));
	if (!cells__row(r))
		return false;
	f->counts.loose += rec->loose;
	if (!attr__read_csv(r))
		f->counts.bad_attrs++;
	return true;
}

/* A line that is no record: a header once more, or nothing. True: passed over. */
static bool no_record(struct csv_in *f, int *again)
{
	const char *next;
	int n;

	*again = 0;
	if (f->pos < f->end && (*f->pos == 'I' || *f->pos == '"')) {
		n = header(f, &next);
		if (n < 0) {
			*again = 1;
			return true;
		}
		if (n > 0) {
			f->pos = f->buf + (next - f->buf);
			f->counts.headers++;
			return true;
		}
	}
	if (f->pos < f->end && (*f->pos == '\n' || *f->pos == '\r')) {
		f->pos++;
		return true;
	}
	return false;
}

static int damaged(const struct csv_in *f)
{
	pr_err("%s: is damaged: more than %d rows have no end; cut it to the part that is whole",
	       f->path, MAX_ENDLESS);
	return -EBADMSG;
}

int csv_in__next(struct csv_in *f, struct in_row *r)
{
	struct record rec;
	enum record_state st;
	int err, again;

	for (;;) {
		if (f->skipping) {
			err = resync(f);
			if (err <= 0)
				return err;
		}
		if (no_record(f, &again)) {
			if (again) {
				err = more(f);
				if (err < 0)
					return err;
			}
			continue;
		}
		if (f->pos == f->end && f->eof)
			return 0;
		st = record__read(f->pos, f->end, f->eof, f->columns, &rec);
		if (st == RECORD_OK) {
			if (fill(f, &rec, r)) {
				f->pos = f->buf + (rec.next - f->buf);
				counts__row(&f->counts, r->time);
				return 1;
			}
			st = RECORD_BAD;
		}
		if (st == RECORD_MORE && f->end - f->pos >= (ptrdiff_t)IN_MAX_RECORD) {
			bad(f, "a row of more than 16 MiB, or a quote that is not closed");
			if (++f->endless > MAX_ENDLESS)
				return damaged(f);
			continue;
		}
		if (st == RECORD_MORE) {
			err = more(f);
			if (err < 0)
				return err;
			continue;
		}
		if (f->eof && !memchr(f->pos, '\n', (size_t)(f->end - f->pos))) {
			f->counts.torn = 1;
			f->pos = f->end;
			pr_warn("%s: its last row is not whole and is left out: the writer was "
				"killed, or writes still",
				f->path);
			return 0;
		}
		bad(f, "no row of a dump");
		if (rec.looked > FAR && ++f->endless > MAX_ENDLESS)
			return damaged(f);
	}
}

const struct in_counts *csv_in__counts(const struct csv_in *f)
{
	return &f->counts;
}

void csv_in__close(struct csv_in *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	free(f->buf);
	free(f->path);
	free(f);
}
