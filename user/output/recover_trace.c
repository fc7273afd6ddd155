// SPDX-License-Identifier: Apache-2.0
/* Closes the brackets of a trace file whose writer was killed. */
#include "output/recover.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Whole lines go by; the longest that matter are short. */
struct lines {
	char line[64];
	size_t len;
	uint64_t off; /* of the next byte */
	uint64_t end; /* behind the last whole event */
	bool counter; /* the event that is being read is one */
	bool closed; /* the file has its end */
	struct hmap pids; /* of counters */
	bool nomem;
};

static void end_line(struct lines *l)
{
	l->line[l->len] = '\0';
	if (!strcmp(l->line, "},")) {
		l->end = l->off;
		l->counter = false;
	} else if (!strcmp(l->line, "    \"ph\": \"C\",")) {
		l->counter = true;
	} else if (l->counter && !strncmp(l->line, "    \"pid\": ", 11)) {
		struct hkey k = { .a = strtoul(l->line + 11, NULL, 10) };

		if (!hmap__put(&l->pids, k, NULL))
			l->nomem = true;
	} else if (!strcmp(l->line, "[") && !l->end) {
		l->end = l->off;
	}
	l->len = 0;
}

static int scan(int fd, struct lines *l)
{
	char *buf = malloc(SINK_BUF);
	ssize_t n, i;

	if (!buf)
		return -ENOMEM;
	while ((n = pread(fd, buf, SINK_BUF, (off_t)l->off)) > 0) {
		for (i = 0; i < n; i++) {
			l->off++;
			if (buf[i] == '\n')
				end_line(l);
			else if (l->len < sizeof(l->line) - 1)
				l->line[l->len++] = buf[i];
		}
	}
	free(buf);
	/* What follows the last line end; "[]" is how a full disk ends. */
	l->line[l->len] = '\0';
	l->closed = !strcmp(l->line, "]") || !strcmp(l->line, "[]");
	if (n < 0)
		return -errno;
	return l->nomem ? -ENOMEM : 0;
}

int recover__trace(int fd, bool *done)
{
	struct lines l = { 0 };
	struct strbuf sb = { 0 };
	uint32_t *pids = NULL;
	size_t pos = 0, n = 0;
	struct hkey k;
	ssize_t w;
	int err = scan(fd, &l);

	*done = false;
	if (err || l.closed)
		goto out;
	pids = calloc(l.pids.n + 1, sizeof(*pids));
	if (!pids) {
		err = -ENOMEM;
		goto out;
	}
	while (hmap__next(&l.pids, &pos, &k, NULL))
		pids[n++] = (uint32_t)k.a;
	if (!l.end)
		strbuf__puts(&sb, "[\n");
	trace__footer(&sb, pids, n);
	if (sb.failed) {
		err = -ENOMEM;
		goto out;
	}
	/* The rest of a torn event goes last: a second try finds the same end. */
	w = pwrite(fd, sb.data, sb.len, (off_t)l.end);
	if (w != (ssize_t)sb.len)
		err = w < 0 ? -errno : -ENOSPC;
	else if (ftruncate(fd, (off_t)(l.end + sb.len)))
		err = -errno;
	*done = !err;
out:
	free(pids);
	hmap__free(&l.pids);
	strbuf__free(&sb);
	return err;
}
