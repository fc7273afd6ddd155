// SPDX-License-Identifier: Apache-2.0
/*
 * Finishes the files of a killed run. Idempotent: it may itself be killed and
 * run again. Files of a run that goes on are locked, and left alone; links are
 * refused.
 */
#include "output/recover.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct recovery {
	const char *dir; /* as given, for messages */
	char path[PATH_MAX]; /* real path of dir/dump */
	int dirfd;
	int err; /* first */
};

static int fail(struct recovery *rc, const char *name, int err)
{
	printf("%s: %s\n", name, strerror(-err));
	if (!rc->err)
		rc->err = err;
	return err;
}

/* A killed writer holds its lock until the kernel has taken its probes away: some seconds. */
#define LOCK_TRIES 50

static int lock(int fd)
{
	struct timespec pause = { 0, 100000000 };
	static int tries = LOCK_TRIES; /* of the whole command */

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (tries-- <= 0)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* A regular file of one name, locked. -EBUSY: its writer lives. */
static int open_own(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		err = -ELOOP;
	else if (lock(fd))
		err = -EBUSY;
	else
		return fd;
	close(fd);
	return err;
}

/* Is name stem + 14 digits + ext? */
static bool matches(const char *name, const char *stem, const char *ext)
{
	size_t n = strlen(stem);
	int i;

	if (strncmp(name, stem, n))
		return false;
	for (i = 0; i < 14; i++) {
		if (!isdigit((unsigned char)name[n + (size_t)i]))
			return false;
	}
	return !strcmp(name + n + 14, ext);
}

/* A dump, or with a dot in front what stands beside it, of either name. */
static bool is_dump(const char *name, const char *dot, const char *ext)
{
	size_t n = strlen(dot);

	return !strncmp(name, dot, n) && (matches(name + n, form__stem(0), ext) ||
					  matches(name + n, form__stem(FORM_NEWER), ext));
}

/* Rows of the journal that the dump has not; newest block first (order.c). */
static int write_blocks(struct dump *d, struct found *f, const struct opened *o, uint64_t *rows)
{
	size_t i;

	for (i = o->n; i-- > 0;) {
		const struct strbuf *sb = &o->blocks[i].rows;
		const uint8_t *p = (const uint8_t *)sb->data;
		size_t left = sb->len;
		struct row r;

		while (left) {
			ssize_t n = row__decode(p, left, &r);
			int err;

			if (n < 0)
				return (int)n;
			if (!found__has(f, &r)) {
				err = dump__row(d, &r);
				if (err)
					return err;
				++*rows;
			}
			found__row(f, &r, true);
			p += n;
			left -= (size_t)n;
		}
	}
	return 0;
}

/* One STOP_TRACE a process that has none, and what is not known. */
static int write_ends(struct dump *d, struct found *f, uint64_t flushed, size_t *stops)
{
	struct row r = { .event = ROW_SYSTEM, .device = DEV_NA, .time = f->max_time + 1 };
	uint64_t lost_id = 0;
	uint32_t lost_pid = 0; /* of the row for all: the first process that is known */
	size_t i;
	int err;

	for (i = 0; i < f->n_pids; i++) {
		struct found_pid *p = &f->pids[i];

		if (p->started && !lost_pid) {
			lost_pid = p->pid;
			lost_id = p->max_id + 1 + !p->stopped;
		}
		if (!p->started || p->stopped)
			continue;
		r.type = ROW_STOP_TRACE;
		r.attrs = ATTR_RECOVERED;
		r.id = p->max_id + 1;
		r.pid = r.tid = p->pid;
		err = dump__row(d, &r);
		if (err)
			return err;
		++*stops;
	}
	if (f->lost_noted || !f->rows)
		return 0;
	r.type = ROW_LOST;
	r.attrs = ATTR_LOST | ATTR_RECOVERED;
	r.id = lost_id;
	r.pid = r.tid = lost_pid;
	r.lost_reason = "killed";
	r.lost_probe = "all";
	r.lost_count = r.lost_last = LOST_UNKNOWN;
	/* Rows are written in the order of time, some of them only when memtap was gone. */
	r.lost_first = f->max_time ? f->max_time : flushed;
	return dump__row(d, &r);
}

static uint64_t mtime_of(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return 0;
	return (uint64_t)st.st_mtim.tv_sec * 1000000000ULL + (uint64_t)st.st_mtim.tv_nsec;
}

/* All that a dump with a journal needs. */
static int finish_dump(struct recovery *rc, const char *name, const struct opened *o)
{
	bool is_db = o->head.flags & JOURNAL_DB, vendor = o->head.flags & JOURNAL_VENDOR;
	unsigned int form = (vendor ? FORM_VENDOR : 0) |
			    (o->head.flags & JOURNAL_NEWER ? FORM_NEWER : 0);
	char path[PATH_MAX + 64], wal[PATH_MAX + 80];
	struct found f = { 0 };
	struct dump d = { .csv = { .fd = -1 } };
	/* With nothing open, no row needs to be looked for: the whole is no tail. */
	uint64_t position = o->by_seq.n ? o->position : UINT64_MAX;
	uint64_t rows = 0, size = 0, flushed;
	size_t stops = 0;
	struct stat st;
	int fd, err, e;

	fd = open_own(rc->dirfd, name);
	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "%s/%s", rc->path, name);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	flushed = MT_MAX(mtime_of(path), mtime_of(wal));
	if (is_db) {
		/* SQLite locks with fcntl(), which closing this fd would undo later. */
		close(fd);
		err = dump__reopen(&d, path, -1, 0, form);
		if (!err)
			err = found__scan_db(&f, db__handle(d.db), form__table(form), position);
	} else {
		err = found__scan_csv(&f, fd, position);
		if (!err && fstat(fd, &st))
			err = -errno;
		if (!err) {
			size = (uint64_t)st.st_size;
			if (size != f.end && ftruncate(fd, (off_t)f.end))
				err = -errno;
			if (!err && lseek(fd, (off_t)f.end, SEEK_SET) < 0)
				err = -errno;
		}
		if (err) {
			close(fd);
			goto out;
		}
		err = dump__reopen(&d, path, fd, f.end, form);
		if (size != f.end)
			printf("%s: cut off %llu bytes of a torn row\n", name,
			       (unsigned long long)(size - f.end));
		if (!err && !f.end)
			err = fd__write_all(fd, csv_header, strlen(csv_header));
	}
	if (!err)
		err = write_blocks(&d, &f, o, &rows);
	/* The front end's files have no row that the vendor has not. */
	if (!err && !vendor)
		err = write_ends(&d, &f, flushed, &stops);
	e = dump__close(&d);
	if (!err)
		err = e;
	if (err)
		goto out;
	if (is_db)
		printf("%s: write-ahead log merged\n", name);
	if (rows)
		printf("%s: %llu rows of open blocks written\n", name, (unsigned long long)rows);
	if (vendor)
		printf("%s: ends at the last flush; later events are lost, which this format "
		       "cannot say\n",
		       name);
	else
		printf("%s: %zu STOP_TRACE rows and the LOST row written\n", name, stops);
out:
	found__free(&f);
	return err;
}

static void finish_journal(struct recovery *rc, const char *name)
{
	char dump[64];
	struct opened o = { 0 };
	int fd = open_own(rc->dirfd, name), err;

	if (fd == -EBUSY) {
		printf("%s: its memtap still runs, left alone\n", name);
		return;
	}
	if (fd < 0) {
		fail(rc, name, fd);
		return;
	}
	err = opened__read(&o, fd);
	if (!err) {
		if (o.good != o.size)
			printf("%s: the last %llu bytes are torn, ignored\n", name,
			       (unsigned long long)(o.size - o.good));
		/* ".leaks_dump_<ts>.journal" -> "leaks_dump_<ts>.csv" */
		snprintf(dump, sizeof(dump), "%.*s%s", (int)(strlen(name) - strlen(".journal") - 1),
			 name + 1, o.head.flags & JOURNAL_DB ? ".db" : ".csv");
		err = finish_dump(rc, dump, &o);
		if (err)
			fail(rc, dump, err);
	} else if (err == -EBADMSG) {
		printf("%s: not a journal of memtap, left alone\n", name);
	} else {
		fail(rc, name, err);
	}
	if (!err && unlinkat(rc->dirfd, name, 0))
		fail(rc, name, -errno);
	opened__free(&o);
	close(fd);
}

/*
 * A db without a journal that is still in write-ahead mode (bytes 18 and 19 of
 * its header), because somebody read it when it was closed.
 */
static void merge_wal(struct recovery *rc, const char *name)
{
	char path[PATH_MAX + NAME_MAX + 2], journal[64];
	uint8_t mode[2] = { 0 };
	sqlite3 *h = NULL;
	struct stat st;
	int fd, err;

	snprintf(journal, sizeof(journal), ".%.*s.journal", (int)(strlen(name) - strlen(".db")),
		 name);
	if (!fstatat(rc->dirfd, journal, &st, AT_SYMLINK_NOFOLLOW))
		return; /* its writer lives, or it had an error above */
	fd = open_own(rc->dirfd, name);
	if (fd < 0) {
		fail(rc, name, fd);
		return;
	}
	if (pread(fd, mode, sizeof(mode), 18) != sizeof(mode))
		mode[0] = 0;
	close(fd);
	if (mode[0] != 2)
		return;
	snprintf(path, sizeof(path), "%s/%s", rc->path, name);
	err = db__errno(
		sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL));
	if (!err)
		err = db__merge(h);
	sqlite3_close(h);
	if (err)
		fail(rc, name, err);
	else
		printf("%s: write-ahead log merged\n", name);
}

static void finish_trace(struct recovery *rc, const char *name)
{
	int fd = open_own(rc->dirfd, name), err;
	bool done = false;

	if (fd == -EBUSY) {
		printf("%s: its memtap still runs, left alone\n", name);
		return;
	}
	err = fd < 0 ? fd : recover__trace(fd, &done);
	if (err)
		fail(rc, name, err);
	else if (done)
		printf("%s: brackets closed\n", name);
	if (fd >= 0)
		close(fd);
}

/* npu<D>_trace_<ts>.json or cpu_trace_<ts>.json */
static bool is_trace(const char *name)
{
	const char *p = name;

	if (matches(name, "cpu_trace_", ".json"))
		return true;
	if (strncmp(p, "npu", 3) || !isdigit((unsigned char)p[3]))
		return false;
	for (p += 3; isdigit((unsigned char)*p); p++)
		;
	return matches(p, "_trace_", ".json");
}

enum pass { PASS_NEW, PASS_JOURNAL, PASS_WAL, PASS_TRACE };

static void visit(struct recovery *rc, const char *name, enum pass pass)
{
	switch (pass) {
	case PASS_NEW:
		/* Half of a rewritten journal: the old one is whole. */
		if (is_dump(name, ".", ".journal.new")) {
			int fd = open_own(rc->dirfd, name);

			if (fd < 0)
				break;
			if (!unlinkat(rc->dirfd, name, 0))
				printf("%s: removed\n", name);
			close(fd);
		}
		break;
	case PASS_JOURNAL:
		if (is_dump(name, ".", ".journal"))
			finish_journal(rc, name);
		break;
	case PASS_WAL:
		if (is_dump(name, "", ".db"))
			merge_wal(rc, name);
		break;
	case PASS_TRACE:
		if (is_trace(name))
			finish_trace(rc, name);
		break;
	}
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void visit_all(struct recovery *rc, const char *sub, enum pass first, enum pass last)
{
	struct dirent **list = NULL;
	char path[PATH_MAX];
	int pass, n, i;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", rc->dir, sub) >= sizeof(path)) {
		fail(rc, sub, -ENAMETOOLONG);
		return;
	}
	rc->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (rc->dirfd < 0) {
		if (errno != ENOENT)
			fail(rc, path, -errno);
		return;
	}
	n = realpath(path, rc->path) ? scandirat(rc->dirfd, ".", &list, NULL, by_name) : -1;
	if (n < 0)
		fail(rc, path, -errno);
	for (pass = (int)first; pass <= (int)last; pass++) {
		for (i = 0; i < n; i++)
			visit(rc, list[i]->d_name, (enum pass)pass);
	}
	for (i = 0; i < n; i++)
		free(list[i]);
	free(list);
	close(rc->dirfd);
}

int out__recover(const char *dir)
{
	struct recovery rc = { .dir = dir };
	struct stat st;

	if (stat(dir, &st))
		return -errno; /* the caller says so */
	visit_all(&rc, "dump", PASS_NEW, PASS_WAL);
	visit_all(&rc, "trace", PASS_TRACE, PASS_TRACE);
	fflush(stdout);
	return rc.err;
}
