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
	for (i = 0; i < n; i++)
		if (p[i] && !(opt.leak && i == 0))
			lib.ms_free(0, p[i]);
	w->ops += (uint64_t)(2 * n);
	lib.aclrtSynchronizeStream(w->stream);
	marks_step_end(w, range);
	w->steps++;
}
