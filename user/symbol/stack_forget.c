// SPDX-License-Identifier: Apache-2.0
/* Processes that have ended, and programs that one has left for another: their memory goes. */
#include <stdlib.h>

#include "symbol/stacks_internal.h"

/* Nothing of it will be asked for: it has not run since, no child needs its interpreter. */
static bool is_over(const struct sproc *p, uint64_t end, uint64_t now, uint64_t written,
		    uint64_t keep_ns)
{
	if (!p || end + keep_ns > now || written < end)
		return false;
	for (; p; p = p->older)
		if (p->children)
			return false;
	return true;
}

static void take_from_list(struct stacks *s, const struct sproc *p)
{
	size_t i;

	for (i = 0; i < s->n_procs && s->procs[i] != p; i++)
		;
	if (i < s->n_procs)
		s->procs[i] = s->procs[--s->n_procs];
}

static void free_program(struct stacks *s, struct sproc *p)
{
	if (p->parent)
		p->parent->children--;
	take_from_list(s, p);
	python__close(p->py);
	free(p->maps);
	free(p);
}

static void free_programs(struct stacks *s, struct sproc *p)
{
	while (p) {
		struct sproc *older = p->older;

		free_program(s, p);
		p = older;
	}
}

static void free_process(struct stacks *s, struct sproc *p)
{
	pid_t pid = p->pid;
	size_t i;

	hmap__del(&s->by_proc, (struct hkey){ (uint64_t)pid, p->start }, NULL);
	free_programs(s, p);
	/* The number may be another process's by now. */
	for (i = 0; i < s->n_procs; i++)
		if (s->procs[i]->pid == pid)
			return;
	past_maps__forget(&s->past, pid);
	stacks__pace_forget(s, pid);
}

void stacks__forget(struct stacks *s, uint64_t written)
{
	uint64_t now = clock__boot(), keep = s->opts.keep_ns;
	size_t i = 0;

	pthread_mutex_lock(&s->lock);
	while (i < s->n_procs) {
		struct sproc *p = s->procs[i++];

		/* The newest has the others behind it. */
		if (p != stacks__newest(s, (uint32_t)p->pid, p->start))
			continue;
		if (p->gone && is_over(p, p->gone_at, now, written, keep)) {
			free_process(s, p);
			i = 0; /* others have moved */
		} else if (!p->untold && is_over(p->older, p->since, now, written, keep)) {
			free_programs(s, p->older);
			p->older = NULL;
			i = 0;
		}
	}
	pthread_mutex_unlock(&s->lock);
}
