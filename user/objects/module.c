// SPDX-License-Identifier: Apache-2.0
/* Which tensors an optimizer and a module of torch hold, and as what. */
#include "objects/internal.h"

#include <errno.h>

#define MAX_DEPTH 4 /* of what is nested in optimizer.state */
#define MAX_WRAPPERS 2 /* tensors around tensors */

/* What the target changes while we look is not an error: the others count. */
static int soft(int err)
{
	return err == -ETIME || err == -ESRCH || err == -ENOMEM || err == -EPERM ? err : 0;
}

static int put(struct module_reader *r, const struct tensor *t, enum object_kind kind)
{
	struct object_storage s = t->is;

	r->tensors++;
	if (s.device < 0 || !s.addr || !s.bytes)
		return 0;
	s.kind = (uint8_t)kind;
	return r->storage(r->ctx, &s);
}

static bool is_tensor(struct module_reader *r, uint64_t obj)
{
	uint64_t type, flags;

	return !type__of(r->h, obj, &type, &flags) &&
	       types__kind(r->types, r->h, type) & KIND_TENSOR;
}

static int tensor(struct module_reader *r, uint64_t obj, enum object_kind kind);

struct inner {
	struct module_reader *r;
	enum object_kind kind;
};

static int on_inner(void *ctx, uint64_t item)
{
	const struct inner *i = ctx;

	return is_tensor(i->r, item) ? tensor(i->r, item, i->kind) : 0;
}

static int on_inner_attr(void *ctx, uint64_t key, uint64_t item)
{
	(void)key;
	return on_inner(ctx, item);
}

/* A class of its own around tensors (DTensor and its like), which has no memory itself. */
static int wrapper(struct module_reader *r, uint64_t obj, enum object_kind kind)
{
	struct inner i = { r, kind };
	int err;

	if (r->wrappers >= MAX_WRAPPERS)
		return 0;
	r->wrappers++;
	err = soft(value__each_slot(r->h, obj, on_inner, &i));
	if (!err)
		err = soft(value__each_attr(r->h, obj, on_inner_attr, &i));
	r->wrappers--;
	return err;
}

/* What a tensor is; without memory, what it is wrapped around. obj: 0, or its Python object. */
static int any(struct module_reader *r, const struct tensor *t, uint64_t obj, enum object_kind kind)
{
	if (t->storage && t->is.addr)
		return put(r, t, kind);
	return obj ? wrapper(r, obj, kind) : 0;
}

static int gradient(struct module_reader *r, const struct tensor *t, uint64_t obj)
{
	struct tensor grad;
	uint64_t other;
	int err = tensor__grad(r->h, r->layout, t, &grad);

	if (!err)
		err = any(r, &grad, tensor__object(r->h, r->layout, &grad), OBJECT_GRADIENT);
	err = soft(err);
	/* Where trainers with buffers of their own have it (Megatron). */
	if (!err && !value__attr(r->h, obj, "main_grad", &other) && is_tensor(r, other))
		err = tensor(r, other, OBJECT_GRADIENT);
	return err;
}

/* A tensor; of a weight its gradient too. */
static int tensor(struct module_reader *r, uint64_t obj, enum object_kind kind)
{
	struct tensor t;
	int err = tensor__read(r->h, r->layout, obj, &t);

	if (!err)
		err = any(r, &t, obj, kind);
	if (!err && kind == OBJECT_WEIGHT)
		err = gradient(r, &t, obj);
	return soft(err);
}

static int on_item(void *ctx, uint64_t item);
static int on_pair(void *ctx, uint64_t key, uint64_t item);

/* Any value: a tensor, or a dict or list of them. */
static int value(struct module_reader *r, uint64_t obj)
{
	uint64_t type, flags;
	int err;

	if (is_tensor(r, obj))
		return tensor(r, obj, r->kind);
	if (r->depth >= MAX_DEPTH || type__of(r->h, obj, &type, &flags))
		return 0;
	r->depth++;
	if (flags & TYPE_LIST)
		err = value__each_item(r->h, obj, on_item, r);
	else if (flags & TYPE_DICT)
		err = value__each_pair(r->h, obj, on_pair, r);
	else
		err = 0;
	r->depth--;
	return soft(err);
}

static int on_item(void *ctx, uint64_t item)
{
	return value(ctx, item);
}

static int on_pair(void *ctx, uint64_t key, uint64_t item)
{
	(void)key;
	return value(ctx, item);
}

static int on_group(void *ctx, uint64_t group)
{
	struct module_reader *r = ctx;
	uint64_t params;
	int err = value__get(r->h, group, "params", &params);

	if (!err)
		err = value__each_item(r->h, params, on_item, r);
	return soft(err);
}

int module__optimizer(struct module_reader *r, uint64_t obj)
{
	uint64_t groups, state;
	int err;

	r->kind = OBJECT_WEIGHT;
	r->depth = 0;
	err = value__attr(r->h, obj, "param_groups", &groups);
	if (!err)
		err = value__each_item(r->h, groups, on_group, r);
	err = soft(err);
	if (err)
		return err;
	r->kind = OBJECT_STATE;
	err = value__attr(r->h, obj, "state", &state);
	if (!err)
		err = value__each_pair(r->h, state, on_pair, r);
	return soft(err);
}

int module__module(struct module_reader *r, uint64_t obj)
{
	static const struct {
		const char *name;
		enum object_kind kind;
	} parts[] = { { "_parameters", OBJECT_WEIGHT }, { "_buffers", OBJECT_BUFFER } };
	uint64_t dict;
	size_t i;
	int err = 0;

	for (i = 0; i < MT_ARRAY_SIZE(parts) && !err; i++) {
		r->kind = parts[i].kind;
		r->depth = MAX_DEPTH; /* nothing is nested there */
		err = value__attr(r->h, obj, parts[i].name, &dict);
		if (!err)
			err = value__each_pair(r->h, dict, on_pair, r);
		err = soft(err);
	}
	return err;
}
