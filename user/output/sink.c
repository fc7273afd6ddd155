// SPDX-License-Identifier: Apache-2.0
/* Append-only output file with a buffer of whole records. */
#include "output/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int sink__init(struct sink *s, int fd, uint64_t size)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->size = size;
	s->cap = SINK_BUF;
	s->buf = malloc(s->cap);
	if (!s->buf)
		return -ENOMEM;
	return sink__grow_ends(s);
}

int sink__grow_ends(struct sink *s)
{
	size_t cap = s->cap_ends ? s->cap_ends * 2 : 4096;
	uint32_t *p = realloc(s->ends, cap * sizeof(*p));

	if (!p) {
		if (!s->err)
			s->err = -ENOMEM;
		return -ENOMEM;
	}
	s->ends = p;
	s->cap_ends = cap;
	return 0;
}

/*
 * Part of the buffer did not fit. Keep the records that are there whole: the
 * torn one is cut off, nothing before it is touched.
 */
static void cut_back(struct sink *s, size_t written)
{
	size_t keep = 0, n = 0;

	while (n < s->n_ends && s->ends[n] <= written)
		keep = s->ends[n++];
	s->lost += s->n_ends - n;
	s->size += keep;
	if (keep != written && ftruncate(s->fd, (off_t)s->size))
		pr_err("cannot cut off a torn record: %s", strerror(errno));
}

int sink__flush(struct sink *s)
{
	size_t done = 0;

	if (s->fd < 0 || !s->len)
		return s->err;
	if (s->err) {
		s->lost += s->n_ends;
		goto out;
	}
	while (done < s->len) {
		ssize_t n = write(s->fd, s->buf + done, s->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->err = n < 0 ? -errno : -EIO;
			cut_back(s, done);
			goto out;
		}
		done += (size_t)n;
	}
	s->size += done;
out:
	s->len = 0;
	s->n_ends = 0;
	return s->err;
}

char *sink__room_slow(struct sink *s, size_t n)
{
	if (s->err || sink__flush(s))
		return NULL;
	if (n > s->cap) {
		/* One record larger than the buffer: names have limits, so this is rare. */
		char *p = n > UINT32_MAX / 2 ? NULL : realloc(s->buf, n);

		if (!p) {
			s->err = -ENOMEM;
			return NULL;
		}
		s->buf = p;
		s->cap = n;
	}
	return s->buf + s->len;
}

int sink__close(struct sink *s)
{
	int err = sink__flush(s);

	if (s->fd >= 0 && close(s->fd) && !err)
		err = -errno;
	free(s->buf);
	free(s->ends);
	s->buf = NULL;
	s->ends = NULL;
	s->fd = -1;
	return err;
}
