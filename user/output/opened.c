// SPDX-License-Identifier: Apache-2.0
/*
 * Reader of a journal. Anybody may have written it: every length is checked,
 * memory is bounded by the file's size, and reading ends at the first record
 * that makes no sense.
 */
#include "output/recover.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A capture with ten million open blocks stays below this. */
#define JOURNAL_MAX (2ull << 30)

static struct open_block *block_of(struct opened *o, uint64_t seq)
{
	struct hkey k = { .a = seq };
	uint64_t *v = hmap__get(&o->by_seq, k);

	if (v)
		return &o->blocks[*v];
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 256;
		struct open_block *p = realloc(o->blocks, cap * sizeof(*p));

		if (!p)
			return NULL;
		o->blocks = p;
		o->cap = cap;
	}
	v = hmap__put(&o->by_seq, k, NULL);
	if (!v)
		return NULL;
	*v = o->n;
	o->blocks[o->n] = (struct open_block){ .seq = seq };
	return &o->blocks[o->n++];
}

/* Do these bytes hold whole rows of blocks and nothing else? */
static bool are_rows(const uint8_t *p, size_t n)
{
	struct row r;
	ssize_t used;

	while (n) {
		used = row__decode(p, n, &r);
		if (used < 0 || !row__has_ptr(&r))
			return false;
		p += used;
		n -= (size_t)used;
	}
	return true;
}

static int take(struct opened *o, uint8_t kind, const uint8_t *p, size_t n)
{
	struct open_block *b;
	uint64_t v, *index;

	memcpy(&v, p, 8);
	switch (kind) {
	case JOURNAL_ROWS:
		if (!are_rows(p + 8, n - 8))
			return -EBADMSG;
		b = block_of(o, v);
		if (!b)
			return -ENOMEM;
		strbuf__add(&b->rows, p + 8, n - 8);
		return b->rows.failed ? -ENOMEM : 0;
	case JOURNAL_END:
		index = hmap__get(&o->by_seq, (struct hkey){ .a = v });
		if (index) {
			strbuf__free(&o->blocks[*index].rows);
			hmap__del(&o->by_seq, (struct hkey){ .a = v }, NULL);
		}
		return 0;
	case JOURNAL_COMMIT:
		o->position = v;
		return 0;
	default:
		return -EBADMSG;
	}
}

static int read_record(struct opened *o, int fd, uint8_t *buf)
{
	struct journal_rec rec;
	uint64_t left = o->size - o->good;
	int err;

	if (left < sizeof(rec) || pread(fd, &rec, sizeof(rec), (off_t)o->good) != sizeof(rec))
		return -EBADMSG;
	if (rec.len < 8 || rec.len > JOURNAL_MAX_PAYLOAD || rec.len > left - sizeof(rec))
		return -EBADMSG;
	if (pread(fd, buf, rec.len, (off_t)(o->good + sizeof(rec))) != (ssize_t)rec.len)
		return -EBADMSG;
	if (journal__sum(buf, rec.len, rec.kind) != rec.sum)
		return -EBADMSG;
	err = take(o, rec.kind, buf, rec.len);
	if (!err)
		o->good += sizeof(rec) + rec.len;
	return err;
}

int opened__read(struct opened *o, int fd)
{
	uint8_t *buf;
	struct stat st;
	int err = 0;

	memset(o, 0, sizeof(*o));
	if (fstat(fd, &st))
		return -errno;
	o->size = (uint64_t)st.st_size;
	if (o->size > JOURNAL_MAX)
		return -EFBIG;
	if (pread(fd, &o->head, sizeof(o->head), 0) != sizeof(o->head) ||
	    memcmp(o->head.magic, JOURNAL_MAGIC, 8) || o->head.version != JOURNAL_VERSION)
		return -EBADMSG;
	o->good = sizeof(o->head);
	buf = malloc(JOURNAL_MAX_PAYLOAD);
	if (!buf)
		return -ENOMEM;
	while (!err && o->good < o->size)
		err = read_record(o, fd, buf);
	free(buf);
	return err == -EBADMSG ? 0 : err;
}

void opened__free(struct opened *o)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		strbuf__free(&o->blocks[i].rows);
	free(o->blocks);
	hmap__free(&o->by_seq);
	memset(o, 0, sizeof(*o));
}
