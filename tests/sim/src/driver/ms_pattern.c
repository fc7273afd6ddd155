// SPDX-License-Identifier: Apache-2.0
/* Patterns on the MindSpore pool. */
#include "sim.h"

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
	i = opt.leak ? 1 : 0;
	/* Every fourth step gives its blocks back in one call, where the pool can do that. */
	if (w->steps % 4 != 3 || lib.ms_free_part(p + i, (size_t)(n - i)))
		for (; i < n; i++)
			if (p[i])
				lib.ms_free(0, p[i]);
	w->ops += (uint64_t)(2 * n);
	lib.aclrtSynchronizeStream(w->stream);
	marks_step_end(w, range);
	w->steps++;
}
