// SPDX-License-Identifier: Apache-2.0
/*
 * Helper of the live tests: prints the Python stacks of a process.
 *
 *   pywalk PID                      all threads, from outside
 *   pywalk PID plain|called|sleepable LIB SYMBOL COUNT
 *                                   in BPF, at a probe on a function: COUNT of them;
 *                                   called: by a program that goes on to the plain one
 *   pywalk load                     do the BPF programs load?
 *
 * Lines: "why TEXT", "stack TID N REASON", "frame LINE<TAB>NAME<TAB>QUALNAME<TAB>FILE",
 * "end" behind the frames of a stack.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pywalk.h"
#include "pywalk.skel.h"
#include "symbol/symbol.h"

struct run {
	struct python *py;
	unsigned long left;
};

static void print_stack(struct python *py, uint32_t tid, const struct mt_py_stack *s)
{
	struct python_name name;
	uint32_t i;

	printf("stack %u %u %s\n", tid, s->n, python__reason(s->why));
	for (i = 0; i < s->n; i++) {
		unsigned int why = python__name(py, &s->frame[i], &name);

		if (why)
			printf("frame 0\tNA\tNA\t%s\n", python__reason(why));
		else
			printf("frame %d\t%s\t%s\t%s%s\n", name.line, name.name, name.qualname,
			       name.file, s->frame[i].check ? "" : " (unchecked)");
	}
	printf("end\n");
}

static int from_outside(struct python *py)
{
	struct python_thread t[256];
	struct mt_py_stack *s = malloc(sizeof(*s));
	ssize_t n, i;

	n = s ? python__threads(py, t, 256) : -ENOMEM;
	for (i = 0; i < n; i++) {
		python__walk(py, &t[i], MT_PY_DEPTH, s);
		print_stack(py, t[i].tid, s);
	}
	free(s);
	return n < 0;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct pywalk_event *e = data;
	struct run *r = ctx;

	if (size >= sizeof(*e) && r->left) {
		print_stack(r->py, e->tid, &e->stack);
		r->left--;
	}
	fflush(stdout);
	return 0;
}

/* The error code is of libbpf 1: -errno. */
static struct pywalk_bpf *load(const char *which)
{
	struct pywalk_bpf *b = pywalk_bpf__open();
	__u32 zero = 0;
	int fd, err;

	if (!b)
		return NULL;
	bpf_program__set_autoload(b->progs.walk_plain, strcmp(which, "sleepable") != 0);
	bpf_program__set_autoload(b->progs.walk_sleepable,
				  strcmp(which, "plain") != 0 && strcmp(which, "called") != 0);
	err = pywalk_bpf__load(b);
	if (!err && strcmp(which, "called") == 0) {
		fd = bpf_program__fd(b->progs.walk_plain);
		err = bpf_map_update_elem(bpf_map__fd(b->maps.steps), &zero, &fd, BPF_ANY);
	}
	if (!err)
		return b;
	fprintf(stderr, "load %s: %s\n", which, strerror(-err));
	pywalk_bpf__destroy(b);
	return NULL;
}

static int at_probe(struct python *py, pid_t pid, char **argv)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = argv[2]);
	struct run r = { .py = py, .left = strtoul(argv[3], NULL, 10) };
	struct pywalk_bpf *b = load(argv[0]);
	struct pywalk_cost cost = { 0 };
	struct ring_buffer *ring = NULL;
	struct bpf_link *link = NULL;
	struct bpf_program *prog;
	__u32 zero = 0;
	int err = -1;

	if (!b)
		return 1;
	prog = strcmp(argv[0], "plain") == 0    ? b->progs.walk_plain
	       : strcmp(argv[0], "called") == 0 ? b->progs.walk_called
						: b->progs.walk_sleepable;
	if (bpf_map_update_elem(bpf_map__fd(b->maps.offsets), &zero, python__offsets(py), 0))
		goto out;
	ring = ring_buffer__new(bpf_map__fd(b->maps.events), on_event, &r, NULL);
	link = bpf_program__attach_uprobe_opts(prog, pid, argv[1], 0, &opts);
	if (!ring || !link) {
		perror("attach");
		goto out;
	}
	printf("attached\n");
	fflush(stdout);
	while (r.left) {
		/* 0: a wake-up for what the last call has taken already. */
		err = ring_buffer__poll(ring, 120000);
		if (err < 0 && err != -EINTR)
			break;
	}
	bpf_map_lookup_elem(bpf_map__fd(b->maps.cost), &zero, &cost);
	printf("cost %llu ns, %llu frames, %llu stacks\n", cost.ns, cost.frames, cost.stacks);
out:
	bpf_link__destroy(link);
	ring_buffer__free(ring);
	pywalk_bpf__destroy(b);
	return r.left != 0;
}

int main(int argc, char **argv)
{
	struct pywalk_bpf *b;
	struct python *py;
	pid_t pid;
	int rc;

	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	if (argc >= 2 && strcmp(argv[1], "load") == 0) {
		b = load(argc > 2 ? argv[2] : "both");
		if (b)
			printf("loaded\n");
		pywalk_bpf__destroy(b);
		return !b;
	}
	if (argc != 2 && argc != 6) {
		fprintf(stderr, "usage: pywalk PID [plain|called|sleepable LIB SYMBOL COUNT]\n");
		return 2;
	}
	pid = atoi(argv[1]);
	if (python__open(pid, &py))
		return 1;
	printf("why %s\n", python__text(py));
	fflush(stdout);
	rc = python__why(py) ? 3 : argc == 2 ? from_outside(py) : at_probe(py, pid, argv + 2);
	python__close(py);
	return rc;
}
