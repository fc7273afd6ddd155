// SPDX-License-Identifier: Apache-2.0
/* Patterns on the hermetic torch_npu: training steps, a pure allocator load, exhaustion. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* Sizes as in training: many small ones, some of a MiB, few of tens of MiB. */
size_t tensor_size(struct worker *w)
{
	uint64_t r = rnd(w), k = r & 15;

	r >>= 8;
	if (k < 7)
		return 1 + r % 4000;
	if (k < 11)
		return 4000 + r % 200000;
	if (k < 14)
		return 200000 + r % 1800000;
	if (k < 15)
		return (2 << 20) + r % (8 << 20);
	return (10 << 20) + r % (20 << 20);
}

static void *take(struct worker *w, size_t n)
{
	int threw = 0;
	void *p = catch_malloc(lib.npu_malloc, n, w->stream, &threw);

	w->ops++;
	if (threw)
		w->oom++;
	return p;
}

static void give(struct worker *w, void *p)
{
	if (!p)
		return;
	lib.npu_free(p);
	w->ops++;
}

static const char *const forward_ops[] = { "aclnnMatmul",  "aclnnAdd",
					   "aclnnRelu",	   "aclnnLayerNorm",
					   "aclnnSoftmax", "aclnnFlashAttentionScore" };
static const char *const backward_ops[] = { "aclnnMatmul",
					    "aclnnMul",
					    "aclnnThresholdBackward",
					    "aclnnLayerNormBackward",
					    "aclnnSoftmaxBackward",
					    "aclnnFlashAttentionScoreGrad" };

static void op(struct worker *w, const char *name)
{
	/* Every fourth wants a workspace, of a size that grows now and then. */
	size_t ws = 0;
	int threw = 0;

	if (opt.workspace && (rnd(w) & 3) == 0)
		ws = opt.workspace + (rnd(w) % 16 == 0 ? opt.workspace * (rnd(w) % 4) : 0);
	if (catch_op(lib.npu_op, name, w->stream, ws, &threw))
		w->failed++;
	w->oom += (uint64_t)threw;
}

void torch_setup(struct worker *w)
{
	int i;

	w->nstate = opt.layers * 3; /* a parameter and two of the optimizer's for each layer */
	w->state = calloc((size_t)w->nstate, sizeof(void *));
	for (i = 0; i < w->nstate; i++)
		w->state[i] = take(w, 64 * 1024 * (size_t)(1 + i % 7));
	if (opt.hccl) {
		char info[4108];

		memset(info, 0, sizeof(info));
		if (lib.HcclCommInitRootInfo((uint32_t)opt.ranks + 1, info, (uint32_t)w->rank,
					     &w->hccl))
			w->failed++;
	}
}

static void exhaust(struct worker *w)
{
	void *big[256];
	int n = 0;

	/* Until the allocator throws; then all comes back. */
	while (n < 256) {
		big[n] = take(w, 512UL << 20);
		if (!big[n])
			break;
		n++;
	}
	while (n-- > 0)
		give(w, big[n]);
	lib.npu_empty_cache();
}

static void external_block(struct worker *w)
{
	int threw = 0;
	void *b;

	if (!lib.MallocBlock)
		return;
	b = catch_block(lib.MallocBlock, 100000 + rnd(w) % 100000, w->stream, w->device, &threw);
	if (b) {
		lib.FreeBlock(b);
		w->ops += 2;
	}
}

void torch_step(struct worker *w)
{
	void *act[64], *grad[64];
	int l, n = opt.layers > 64 ? 64 : opt.layers;
	uint64_t range;

	marks_step_begin(w, &range);
	for (l = 0; l < n; l++) {
		void *tmp = take(w, tensor_size(w));

		act[l] = take(w, tensor_size(w));
		op(w, forward_ops[(unsigned int)l % 6]);
		give(w, tmp);
	}
	op(w, "aclnnReduceSum");
	for (l = n; l-- > 0;) {
		grad[l] = take(w, tensor_size(w));
		op(w, backward_ops[(unsigned int)l % 6]);
		give(w, act[l]);
	}
	if (w->hccl)
		lib.HcclAllReduce(grad[0], grad[0], 1024, 0, 0, w->hccl, w->stream);
	for (l = 0; l < n; l++) {
		void *tmp = take(w, 1 + rnd(w) % 100000);

		op(w, "aclnnApplyAdamWV2");
		give(w, tmp);
		give(w, grad[l]);
	}
	if (w->steps % 3 == 1) {
		void *p = take(w, tensor_size(w));

		if (p) {
			lib.npu_record_stream(p, w->side);
			give(w, p);
		}
	}
	if (w->steps % 4 == 2)
		external_block(w);
	if (opt.atb) {
		void *ws = take(w, 1 << 20), *x = take(w, 65536);

		if (ws && x)
			lib.atb_run(w->stream, ws, 1 << 20, x, x, 65536);
		give(w, x);
		give(w, ws);
	}
	if (opt.exceptions)
		w->thrown += (uint64_t)catch_check(lib.npu_check, w->steps % 2 == 0);
	if (opt.oom && w->steps % 10 == 9)
		exhaust(w);
	if (opt.leak) {
		void **v = realloc(w->leaked, (w->nleaked + 1) * sizeof(*v));

		if (v) {
			w->leaked = v;
			v[w->nleaked] = take(w, 4096 * (1 + w->nleaked % 3));
			w->nleaked++;
		}
	}
	launch_one(w);
	if (opt.empty_cache && w->steps % opt.empty_cache == opt.empty_cache - 1)
		lib.npu_empty_cache();
	lib.npu_sync(w->stream);
	marks_step_end(w, range);
	w->steps++;
}

/* Nothing but the pool: 1024 pairs of calls on a live set of 64 blocks. */
void torch_load(struct worker *w)
{
	void *live[64];
	unsigned int i;

	memset(live, 0, sizeof(live));
	for (i = 0; i < 1024; i++) {
		unsigned int k = (unsigned int)(rnd(w) & 63);

		give(w, live[k]);
		live[k] = take(w, 1 + (rnd(w) & 0xfffff));
	}
	for (i = 0; i < 64; i++)
		give(w, live[i]);
	w->steps++;
}

void torch_finish(struct worker *w)
{
	int i;

	for (i = 0; i < w->nstate; i++)
		give(w, w->state[i]);
	free(w->state);
	if (w->hccl)
		lib.HcclCommDestroy(w->hccl);
	free(w->leaked);
}
