// SPDX-License-Identifier: Apache-2.0
/* The journal's writer: create, append, rewrite, remove. */
#include "output/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

/* Below this size a journal is not worth rewriting. */
#define STALE_MIN (4u << 20)

static int put_record(struct journal *j, enum journal_kind kind, uint64_t first, const void *p,
		      size_t n)
{
	struct journal_rec rec = { .len = (uint32_t)(8 + n), .kind = kind };
	char *start, *q;

	start = sink__room(&j->s, sizeof(rec) + 8 + n);
	if (!start)
		return j->s.err;
	q = start + sizeof(rec);
	memcpy(q, &first, 8);
	if (n)
		memcpy(q + 8, p, n);
	rec.sum = journal__sum(q, rec.len, rec.kind);
	memcpy(start, &rec, sizeof(rec));
	sink__commit(&j->s, q + 8 + n);
	return j->s.err;
}

static int put_head(struct journal *j)
{
	char *p = sink__room(&j->s, sizeof(j->head));

	if (p)
		sink__commit(&j->s, put_mem(p, (const char *)&j->head, sizeof(j->head)));
	return sink__flush(&j->s);
}

int journal__create(struct journal *j, struct outdir *dir, const char *ts,
		    const struct out_opts *opts)
{
	int fd, err;

	memset(j, 0, sizeof(*j));
	j->s.fd = -1;
	j->dirfd = dir->dump_fd;
	memcpy(j->head.magic, JOURNAL_MAGIC, 8);
	j->head.version = JOURNAL_VERSION;
	j->head.flags = (opts->vendor ? JOURNAL_VENDOR : 0) | (opts->newer ? JOURNAL_NEWER : 0) |
			(opts->format == OUT_DB ? JOURNAL_DB : 0) |
			(opts->order == OUT_ORDER_BLOCK ? JOURNAL_BLOCK : 0) |
			(opts->timeline == OUT_TIMELINE_KERNEL ? JOURNAL_KERNEL : 0);
	j->head.start_real = opts->start_real;
	snprintf(j->name, sizeof(j->name), ".%s%s.journal",
		 form__stem(opts->newer ? FORM_NEWER : 0), ts);
	fd = openat(j->dirfd, j->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)flock(fd, LOCK_EX | LOCK_NB);
	err = sink__init(&j->s, fd, 0);
	return err ? err : put_head(j);
}

int journal__rows(struct journal *j, uint64_t block, const void *rows, size_t n)
{
	int err;

	/* A block with this many accesses cannot be recovered: say so, go on. */
	if (n + 8 > JOURNAL_MAX_PAYLOAD) {
		pr_warn("block %llu has too many rows for the journal", (unsigned long long)block);
		return 0;
	}
	err = put_record(j, JOURNAL_ROWS, block, rows, n);
	if (!err)
		j->live += sizeof(struct journal_rec) + 8 + n;
	return err;
}

int journal__end(struct journal *j, uint64_t block)
{
	return put_record(j, JOURNAL_END, block, NULL, 0);
}

int journal__commit(struct journal *j, uint64_t position)
{
	return put_record(j, JOURNAL_COMMIT, position, NULL, 0);
}

bool journal__is_stale(const struct journal *j)
{
	uint64_t size = j->s.size + j->s.len;

	return size > STALE_MIN && j->live * 4 < size;
}

static void fresh_name(const struct journal *j, char name[72])
{
	snprintf(name, 72, "%s.new", j->name);
}

int journal__rewrite(struct journal *j, struct journal *fresh)
{
	char name[72];
	int fd, err;

	memset(fresh, 0, sizeof(*fresh));
	fresh->s.fd = -1;
	fresh->dirfd = j->dirfd;
	fresh->head = j->head;
	memcpy(fresh->name, j->name, sizeof(fresh->name));
	fresh_name(j, name);
	unlinkat(j->dirfd, name, 0);
	fd = openat(j->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	(void)flock(fd, LOCK_EX | LOCK_NB);
	err = sink__init(&fresh->s, fd, 0);
	if (!err)
		err = put_head(fresh);
	if (err) {
		sink__close(&fresh->s);
		unlinkat(j->dirfd, name, 0);
	}
	return err;
}

int journal__rewritten(struct journal *j, struct journal *fresh, int err)
{
	char name[72];

	fresh_name(j, name);
	if (!err)
		err = sink__flush(&fresh->s);
	if (!err && renameat(j->dirfd, name, j->dirfd, j->name))
		err = -errno;
	if (err) {
		/* The old journal still says all that is needed. */
		sink__close(&fresh->s);
		unlinkat(j->dirfd, name, 0);
		return sink__flush(&j->s);
	}
	sink__close(&j->s);
	*j = *fresh;
	return 0;
}

int journal__close(struct journal *j, bool keep)
{
	int err = 0;

	if (j->s.fd < 0)
		return 0;
	if (!keep && unlinkat(j->dirfd, j->name, 0))
		err = -errno;
	if (!keep) {
		j->s.len = j->s.n_ends = 0;
		j->s.err = 0;
	}
	if (sink__close(&j->s) && !err && keep)
		err = -EIO;
	return err;
}
