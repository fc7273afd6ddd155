// SPDX-License-Identifier: Apache-2.0
/* Patterns on the MindSpore pool. */
#include "sim.h"

#define UNIT 512 /* sizes in lists are multiples of it, as the framework makes them */

/* Blocks cut from one piece, as for fused communication; freed one by one. */
static void in_a_list(struct worker *w)
{
	size_t sizes[12], n = 1 + rnd(w) % 12, i;
	void *p[12];

	for (i = 0; i < n; i++)
		sizes[i] = UNIT * (1 + rnd(w) % 300);
	if (lib.ms_alloc_list(0, sizes, n, (uint32_t)w->id, p))
		return;
	for (i = n; i-- > 0;)
		lib.ms_free(0, p[i]);
	/* the same of the host: none of the tracer's business */
	if (!lib.ms_alloc_list(2, sizes, n, 0, p))
		for (i = 0; i < n; i++)
			lib.ms_free(2, p[i]);
}

/* Three blocks go at once; of them a beginning, a middle, and two parts of one are kept. */
static void kept_parts(struct worker *w)
{
	size_t unit = UNIT * (1 + rnd(w) % 8), sizes[4];
	char *p[3];
	void *keep[4];
	int i;

	for (i = 0; i < 3; i++) {
		p[i] = lib.ms_alloc(0, 8 * unit, (uint32_t)w->id);
		if (!p[i])
			break;
	}
	if (i == 3) {
		keep[0] = p[0]; /* a beginning */
		sizes[0] = unit;
		keep[1] = p[1] + 2 * unit; /* a middle */
		sizes[1] = 3 * unit;
		keep[2] = p[2] + unit; /* two parts, the second to the end */
		sizes[2] = unit;
		keep[3] = p[2] + 4 * unit;
		sizes[3] = 4 * unit;
		lib.ms_free_part((void **)p, 3, keep, sizes, 4);
		for (i = 0; i < 4; i++)
			lib.ms_free(0, keep[i]);
		return;
	}
	while (i-- > 0)
		lib.ms_free(0, p[i]);
}

/* Freed while a stream uses them, and not of this pool at all. */
static void events(struct worker *w)
{
	void *p = lib.ms_alloc(0, tensor_size(w), (uint32_t)w->id), *q;

	q = lib.ms_alloc(0, tensor_size(w), (uint32_t)w->id);
	if (p)
		lib.ms_record_event(p);
	if (p)
		lib.ms_free(0, p);
	if (q)
		lib.ms_free(0, q);
	lib.ms_free(0, &p);
	lib.ms_sync_events();
}

void ms_step(struct worker *w)
{
	void *p[32];
	uint64_t range;
	int i, n = opt.layers > 32 ? 32 : opt.layers;

	marks_step_begin(w, &range);
	for (i = 0; i < n; i++)
		p[i] = lib.ms_alloc(0, tensor_size(w), (uint32_t)w->id);
	/* host pools of the same library: a tracer must leave them out */
	for (i = 0; i < 2; i++) {
		void *h = lib.ms_alloc(1 + i, 1 + rnd(w) % 100000, 0);

		lib.ms_free(1 + i, h);
	}
	launch_one(w);
	in_a_list(w);
	kept_parts(w);
	events(w);
	i = opt.leak ? 1 : 0;
	/* Every fourth step gives its blocks back in one call. */
	if (w->steps % 4 == 3)
		lib.ms_free_part(p + i, (size_t)(n - i), NULL, NULL, 0);
	else
		for (; i < n; i++)
			if (p[i])
				lib.ms_free(0, p[i]);
	w->ops += (uint64_t)(2 * n);
	lib.aclrtSynchronizeStream(w->stream);
	marks_step_end(w, range);
	w->steps++;
}
