// SPDX-License-Identifier: Apache-2.0
/*
 * Walks its own stacks in the kernel as on kernels without bpf_loop, and holds them
 * against glibc's backtrace(): prints "NAME got=N wrong=N ..." for each way, or
 * "NAME failed ...". How the words are to be judged: judge.py.
 *
 * The place of a walk is one for each CPU. Where uprobe programs are preempted (since
 * 6.0) nothing else may walk: there is one thread that is probed, and it stays on a CPU.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "taken.h"

#define CALLS 600

static const char *const ways[] = { "take_here", "take_tail", "take_called" };

/* With maps of its own: what the reader has been given is that of this way only. */
static int one(const char *way)
{
	struct stack_tail_bpf *skel = taken__load_tail(NULL);
	struct taken t;
	int err;

	if (!skel) {
		printf("%s failed to load: %s\n", way, strerror(errno));
		return -1;
	}
	err = taken__run(skel->obj, bpf_object__find_program_by_name(skel->obj, way), CALLS, true, &t);
	if (err)
		printf("%s failed: %s: %s\n", way, t.failed, strerror(-err));
	else
		printf("%s due=%d got=%zu wrong=%zu cut=%zu broken=%zu without=%zu frames=%zu deepest=%u\n", way,
		       CALLS, t.got, t.wrong, t.cut, t.broken, t.without, t.frames, t.deepest);
	fflush(stdout); /* before the next fork */
	stack_tail_bpf__destroy(skel);
	return err;
}

int main(void)
{
	size_t i;
	int rc = 0;

	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	for (i = 0; i < MT_ARRAY_SIZE(ways); i++)
		if (one(ways[i]))
			rc = 1;
	return rc;
}
