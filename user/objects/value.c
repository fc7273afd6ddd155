// SPDX-License-Identifier: Apache-2.0
/* Values of Python: dicts in all their forms, lists, attributes of instances. */
#include "objects/internal.h"

#include <errno.h>
#include <string.h>

/* PyDictObject, PyListObject */
#define MA_KEYS 32
#define MA_VALUES 40
#define OB_SIZE 16
#define LIST_ITEMS 24
/* PyTypeObject */
#define TP_BASICSIZE 32
#define TP_DICTOFFSET 288

/* Values behind a dict or in an instance, whose keys stand elsewhere. */
struct table {
	uint64_t entries; /* of the keys */
	uint64_t values; /* 0: they stand in the entries */
	uint64_t n;
	unsigned int size; /* of an entry */
	unsigned int key; /* in it; the value is behind it */
	bool shared; /* keys of the instances of a class */
};

/* PyDictKeysObject: of 3.8 to 3.10, or from 3.11 on. */
static int read_keys(struct heap *h, uint64_t keys, struct table *t)
{
	uint64_t w[5], size, index;
	uint8_t b[8];
	int err;

	if (!heap__is_pointer(keys))
		return -EINVAL;
	err = heap__read(h, keys, w, sizeof(w));
	if (err)
		return err;
	t->size = 24;
	t->key = 8;
	if (h->minor <= 10) {
		size = w[1];
		t->n = w[4];
		if (!size || size & (size - 1) || size > 1ULL << 31)
			return -EINVAL;
		index = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
		t->entries = keys + 40 + size * index;
	} else {
		memcpy(b, &w[1], sizeof(b));
		t->n = w[3];
		if (b[0] > 31 || b[1] > 34 || b[1] < b[0] || b[2] > 2)
			return -EINVAL;
		size = 1ULL << b[0];
		t->entries = keys + 32 + (1ULL << b[1]);
		t->shared = b[2] == 2;
		if (b[2]) { /* all keys are str, whose hash they have */
			t->size = 16;
			t->key = 0;
		}
	}
	return t->n > size || t->n > VALUE_MAX ? -EINVAL : 0;
}

static int each(struct heap *h, const struct table *t, value_pair_fn fn, void *ctx)
{
	uint64_t i, k, part, values[64], w[64 * 3];
	int err;

	for (i = 0; i < t->n; i += part) {
		part = MT_MIN(t->n - i, (uint64_t)64);
		err = heap__read(h, t->entries + i * t->size, w, part * t->size);
		if (!err && t->values)
			err = heap__read(h, t->values + i * 8, values, part * 8);
		if (err)
			return err;
		for (k = 0; k < part; k++) {
			const uint64_t *e = w + k * (t->size / 8) + t->key / 8;
			uint64_t value = t->values ? values[k] : e[1];

			/* 0: it was deleted, or is not set in this instance. */
			if (!e[0] || !value)
				continue;
			err = fn(ctx, e[0], value);
			if (err)
				return err;
		}
	}
	return 0;
}

int value__each_pair(struct heap *h, uint64_t dict, value_pair_fn fn, void *ctx)
{
	uint64_t type, flags, w[2];
	struct table t = { 0 };
	int err = type__of(h, dict, &type, &flags);

	if (!err && !(flags & TYPE_DICT))
		err = -EINVAL;
	if (!err)
		err = heap__read(h, dict + MA_KEYS, w, sizeof(w));
	if (!err)
		err = read_keys(h, w[0], &t);
	if (err)
		return err;
	if (w[1]) /* 3.13 and newer: behind four numbers of a byte */
		t.values = w[1] + (h->minor >= 13 ? 8 : 0);
	return each(h, &t, fn, ctx);
}

int value__each_item(struct heap *h, uint64_t list, value_item_fn fn, void *ctx)
{
	uint64_t type, flags, n, items, i, k, part, w[64];
	int err = type__of(h, list, &type, &flags);

	if (!err && !(flags & TYPE_LIST))
		err = -EINVAL;
	if (!err)
		err = heap__u64(h, list + OB_SIZE, &n);
	if (!err)
		err = heap__u64(h, list + LIST_ITEMS, &items);
	if (!err && n > VALUE_MAX)
		err = -E2BIG;
	if (err)
		return err;
	for (i = 0; i < n; i += part) {
		part = MT_MIN(n - i, (uint64_t)64);
		err = heap__read(h, items + i * 8, w, part * 8);
		for (k = 0; k < part && !err; k++)
			err = w[k] ? fn(ctx, w[k]) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* ---- instances ---- */

/* The keys that instances of a class share: behind ht_slots of PyHeapTypeObject. */
static int cached_keys(struct heap *h, uint64_t type, struct table *t)
{
	unsigned int at = h->minor <= 11 ? 872 : h->minor <= 14 ? 880 : 888;
	uint64_t keys;
	int err = heap__u64(h, type + at, &keys);

	if (!err)
		err = read_keys(h, keys, t);
	return err ? err : t->shared ? 0 : -EINVAL;
}

/* Values that the instance has itself. -ENOENT: none, it has a dict or nothing. */
static int own_values(struct heap *h, uint64_t obj, uint64_t type, uint64_t flags, uint64_t *dict,
		      struct table *t)
{
	uint64_t w, size;
	uint8_t b[8];
	int err;

	err = heap__u64(h, obj - 24, dict);
	if (err)
		return err;
	if (h->minor == 11) {
		err = *dict ? -ENOENT : heap__u64(h, obj - 32, &w);
		t->values = w;
		if (!err && !w)
			err = -ENOENT;
	} else if (h->minor == 12) {
		w = *dict;
		if (!(w & 1))
			return -ENOENT;
		*dict = 0;
		t->values = w + 1;
	} else {
		if (*dict || !(flags & TYPE_INLINE_VALUES))
			return -ENOENT;
		err = heap__u64(h, type + TP_BASICSIZE, &size);
		if (!err && (size < 16 || size > 1 << 20))
			err = -EINVAL;
		if (!err)
			err = heap__read(h, obj + size, b, sizeof(b));
		if (!err && !b[3]) /* not valid any more */
			err = -ENOENT;
		t->values = obj + size + 8;
	}
	if (!err)
		err = cached_keys(h, type, t);
	/* Such tables are small; the instance has room for at least these. */
	if (!err && h->minor >= 13 && t->n > b[0])
		err = -EINVAL;
	return err;
}

int value__each_attr(struct heap *h, uint64_t obj, value_pair_fn fn, void *ctx)
{
	uint64_t type, flags, dict = 0, off;
	struct table t = { 0 };
	int err = type__of(h, obj, &type, &flags);

	if (err)
		return err;
	if (h->minor >= 11 && flags & TYPE_MANAGED_DICT) {
		err = own_values(h, obj, type, flags, &dict, &t);
		if (!err)
			return each(h, &t, fn, ctx);
		if (err != -ENOENT)
			return err;
	} else {
		err = heap__u64(h, type + TP_DICTOFFSET, &off);
		/* Negative: behind items of varying number, which these classes do not have. */
		if (!err && (!off || off > 1 << 20))
			err = -ENOENT;
		if (!err)
			err = heap__u64(h, obj + off, &dict);
		if (err)
			return err;
	}
	return dict ? value__each_pair(h, dict, fn, ctx) : -ENOENT;
}

/* ---- slots ---- */

/* PyMemberDescrObject: its description; of that the type, the offset. */
#define DESCR_MEMBER 40
#define MEMBER_TYPE 8
#define MEMBER_OFFSET 16
#define MEMBER_OBJECT_EX 16 /* Py_T_OBJECT_EX: what __slots__ makes */
#define TP_DICT 264

struct slots {
	struct heap *h;
	uint64_t obj;
	value_item_fn fn;
	void *ctx;
};

static int on_descriptor(void *ctx, uint64_t key, uint64_t descriptor)
{
	const struct slots *s = ctx;
	uint64_t member, type, off, value;
	char name[32];

	(void)key;
	if (py_object__type(&s->h->mem, &s->h->layout, descriptor, name, sizeof(name)) ||
	    strcmp(name, "member_descriptor") != 0 ||
	    heap__u64(s->h, descriptor + DESCR_MEMBER, &member) || !heap__is_pointer(member) ||
	    heap__u64(s->h, member + MEMBER_TYPE, &type) || (int)type != MEMBER_OBJECT_EX ||
	    heap__u64(s->h, member + MEMBER_OFFSET, &off) || off < 16 || off > 1 << 20 ||
	    heap__u64(s->h, s->obj + off, &value) || !value)
		return 0;
	return s->fn(s->ctx, value);
}

int value__each_slot(struct heap *h, uint64_t obj, value_item_fn fn, void *ctx)
{
	struct slots s = { h, obj, fn, ctx };
	uint64_t type, flags, dict;
	int err = type__of(h, obj, &type, &flags);

	if (!err && !(flags & TYPE_HEAP))
		err = -ENOENT;
	if (!err)
		err = heap__u64(h, type + TP_DICT, &dict);
	return err ? err : value__each_pair(h, dict, on_descriptor, &s);
}

/* ---- by name ---- */

bool value__is_text(struct heap *h, uint64_t str, const char *text)
{
	struct strbuf sb = { 0 };
	uint64_t type, flags;
	bool is = false;

	if (type__of(h, str, &type, &flags) || !(flags & TYPE_STR))
		return false;
	/* Longer than the text is told as an error. */
	if (!py_object__str(&h->mem, &h->layout, str, &sb, strlen(text) + 4))
		is = sb.len == strlen(text) && !memcmp(sb.data, text, sb.len);
	strbuf__free(&sb);
	return is;
}

struct lookup {
	struct heap *h;
	const char *name;
	uint64_t value;
};

static int look(void *ctx, uint64_t key, uint64_t value)
{
	struct lookup *l = ctx;

	if (!value__is_text(l->h, key, l->name))
		return 0;
	l->value = value;
	return 1;
}

static int result(const struct lookup *l, int err, uint64_t *value)
{
	*value = l->value;
	return err == 1 ? 0 : err ? err : -ENOENT;
}

int value__get(struct heap *h, uint64_t dict, const char *key, uint64_t *value)
{
	struct lookup l = { .h = h, .name = key };

	return result(&l, value__each_pair(h, dict, look, &l), value);
}

int value__attr(struct heap *h, uint64_t obj, const char *name, uint64_t *value)
{
	struct lookup l = { .h = h, .name = name };

	return result(&l, value__each_attr(h, obj, look, &l), value);
}
