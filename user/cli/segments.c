// SPDX-License-Identifier: Apache-2.0
/*
 * Processes whose libtorch_npu shows no tensors: the driver's rows of their
 * segments are marked, so that nobody takes them for other memory, and the run
 * says once a file what is not seen (ascend-abi.md 4.1, fall-back 2).
 */
#include "cli/session.h"

#include <bpf/bpf.h>
#include <string.h>
#include <unistd.h>

struct look {
	struct session *s;
	pid_t pid;
	const struct probed_file *only; /* NULL = any file of the kind */
	bool found;
};

static int on_mapping(void *ctx, const struct mapping *m)
{
	const char *slash = strrchr(m->path, '/');
	const struct probed_file *f;
	struct look *l = ctx;
	int fd;

	/* Opening is slow, and few have a name that matters. */
	if (!slash || strncmp(slash, "/libtorch_npu", 13) != 0)
		return 0;
	fd = mapping__open(l->pid, m);
	if (fd < 0)
		return 0;
	f = prober__file_of(l->s->prober, fd);
	close(fd);
	l->found = f && f->segments && (!l->only || f == l->only);
	return l->found;
}

static bool maps(struct session *s, pid_t pid, const struct probed_file *only)
{
	struct look l = { .s = s, .pid = pid, .only = only };

	proc__each_mapping(pid, on_mapping, &l);
	return l.found;
}

static void warn_once(struct session *s, const struct probed_file *f)
{
	uint64_t *said = hmap__put(&s->segments_said, (struct hkey){ f->no, 0 }, NULL);

	if (!said || (*said)++)
		return;
	s->pool_unseen = true;
	pr_warn("%s: nothing in it shows its tensors: only the driver's segments are recorded for "
		"its processes, marked note:segment",
		f->path);
}

bool session__only_segments(struct session *s, pid_t pid)
{
	const struct probed_file *f;
	size_t i;

	for (i = 0; (f = prober__file(s->prober, i)); i++) {
		if (!f->segments || !maps(s, pid, f))
			continue;
		warn_once(s, f);
		return true;
	}
	return false;
}

void session__segments_of(struct session *s, pid_t pid, const struct probed_file *f)
{
	struct mt_target t;
	uint32_t key = (uint32_t)pid;

	if (!f->segments || bpf_map_lookup_elem(s->targets_fd, &key, &t))
		return;
	warn_once(s, f);
	model__segments(s->model, key, t.start);
}

void session__segments_left(struct session *s, const struct probed_file *f)
{
	uint32_t key, *prev = NULL;

	while (!bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		if (maps(s, (pid_t)key, f))
			session__segments_of(s, (pid_t)key, f);
		prev = &key;
	}
}
