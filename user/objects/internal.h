/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of user/objects share and nobody else sees. */
#ifndef MEMTAP_OBJECTS_INTERNAL_H
#define MEMTAP_OBJECTS_INTERNAL_H

#include "base/base.h"
#include "objects/objects.h"
#include "symbol/python.h"

/* ---- memory, by pages that are kept for one pass (heap.c) ---- */

#define HEAP_PAGE 4096u
#define HEAP_PAGES 1024u

struct heap {
	const struct py_mem *from;
	struct py_mem mem; /* reads through the pages */
	struct py_layout layout;
	unsigned int minor; /* 3.N */
	uint64_t deadline; /* boot time; 0: none */
	uint64_t *tags; /* address + 1 of each page kept; 0: none */
	uint8_t *pages;
	uint64_t reads; /* so far, to look at the time now and then */
};

/* Of a process that is read through `from`, which is used up to heap__free(). 0 or -ENOMEM. */
int heap__init(struct heap *h, const struct py_mem *from, const struct py_layout *l);
/* Also of one whose heap__init() failed, or that is all zero. */
void heap__free(struct heap *h);
/* What was read is old: a new pass. */
void heap__forget(struct heap *h);
/* All n bytes, or -errno; -ETIME: after the deadline. */
int heap__read(struct heap *h, uint64_t addr, void *buf, size_t n);
/* One word, as above; 0 where it cannot be read. */
int heap__u64(struct heap *h, uint64_t addr, uint64_t *v);
/* Past the pages, as it is now. */
int heap__read_now(struct heap *h, uint64_t addr, void *buf, size_t n);

/* Could an object or a structure of C++ be there? */
static inline bool heap__is_pointer(uint64_t p)
{
	return p >= 0x10000 && p < 1ULL << 56 && !(p & 7);
}

/* ---- types (type.c) ---- */

#define TYPE_INLINE_VALUES (1u << 2)
#define TYPE_MANAGED_DICT (1u << 4)
#define TYPE_HEAP (1u << 9)
#define TYPE_LIST (1u << 25)
#define TYPE_STR (1u << 28)
#define TYPE_DICT (1u << 29)
#define TYPE_TYPE (1u << 31)

/* What is known of a type. */
#define KIND_OPTIMIZER 1u
#define KIND_MODULE 2u
#define KIND_TENSOR 4u
#define KIND_KNOWN 0x80u /* it was looked at, and is a type */
#define KIND_NONE 0x40u /* the same, and is none */

struct types {
	struct hmap kinds; /* address -> KIND_* */
};

/* The type of an object, and its flags. 0 or -errno. */
int type__of(struct heap *h, uint64_t obj, uint64_t *type, uint64_t *flags);
/* KIND_* of a type, by the classes that it derives from. 0 where it cannot be told now. */
unsigned int types__kind(struct types *t, struct heap *h, uint64_t type);
/* Not of a type address that may mean another type by now. */
void types__forget(struct types *t);

/* ---- values (value.c) ---- */

#define VALUE_MAX (4u << 20) /* entries of one dict, items of one list */

/* Non-zero stops. */
typedef int (*value_pair_fn)(void *ctx, uint64_t key, uint64_t value);
typedef int (*value_item_fn)(void *ctx, uint64_t item);

/* Of a dict or a class derived from it. 0, -errno (-EINVAL: no dict), or what fn returned. */
int value__each_pair(struct heap *h, uint64_t dict, value_pair_fn fn, void *ctx);
/* Of a list or a class derived from it: as above, -E2BIG: more than VALUE_MAX. */
int value__each_item(struct heap *h, uint64_t list, value_item_fn fn, void *ctx);
/* The value of a str key. 0, -ENOENT or -errno. */
int value__get(struct heap *h, uint64_t dict, const char *key, uint64_t *value);
/* An attribute of an instance, as it stands in its __dict__. 0, -ENOENT or -errno. */
int value__attr(struct heap *h, uint64_t obj, const char *name, uint64_t *value);
/* All of them. */
int value__each_attr(struct heap *h, uint64_t obj, value_pair_fn fn, void *ctx);
/* The slots of an instance (__slots__): those of its class itself. */
int value__each_slot(struct heap *h, uint64_t obj, value_item_fn fn, void *ctx);
/* Is this str object the text? */
bool value__is_text(struct heap *h, uint64_t str, const char *text);

/* ---- all objects (gc.c) ---- */

struct gc {
	uint64_t heads[64]; /* of the lists, of all interpreters */
	size_t n;
};

/* Of an interpreter's lists the first ones are those of young objects. */
#define GC_LISTS 4u
#define GC_YOUNG 2u

/* Where the lists begin. 0 or -errno (-ENOENT: not found). */
int gc__find(struct heap *h, uint64_t runtime, struct gc *g);
/*
 * fn for each object: 0, -errno, -ENOENT: its type is none. 0 or -errno. *torn: objects moved,
 * some were not met. max: of objects. lists: the first so many of each interpreter's.
 */
int gc__each(struct heap *h, const struct gc *g, unsigned int lists, uint64_t max,
	     int (*fn)(void *ctx, uint64_t obj, uint64_t type), void *ctx, uint64_t *n, bool *torn);

/* ---- tensors (tensor.c) ---- */

/* Where things are in the structures of torch; learnt from the first tensor that shows all. */
struct tensor_layout {
	bool known;
	uint8_t cdata; /* in the Python object */
	uint8_t head; /* of an object of C++ with a count: where its own members begin */
	uint8_t pyobj; /* in TensorImpl */
};

struct tensor {
	uint64_t impl, storage; /* storage 0: it has none */
	struct object_storage is;
};

/* A tensor's Python object. 0 or -errno (-EINVAL: none). */
int tensor__read(struct heap *h, struct tensor_layout *l, uint64_t obj, struct tensor *t);
/* Its Python object; 0: it has none. */
uint64_t tensor__object(struct heap *h, const struct tensor_layout *l, const struct tensor *t);
/* Its gradient; -ENOENT: it has none. */
int tensor__grad(struct heap *h, const struct tensor_layout *l, const struct tensor *t,
		 struct tensor *grad);

/* ---- optimizers and modules (module.c) ---- */

struct module_reader {
	struct heap *h;
	struct types *types;
	struct tensor_layout *layout;
	/* 0 or -ENOMEM */
	int (*storage)(void *ctx, const struct object_storage *s);
	void *ctx;
	uint64_t tensors;
	unsigned int depth, wrappers; /* what is nested */
	enum object_kind kind; /* of what is looked at */
};

/* The weights, gradients and state of an optimizer. 0, -ETIME, or an error of the process itself.
 */
int module__optimizer(struct module_reader *r, uint64_t obj);
/* The same of a module: its own parameters and buffers, not those of modules inside. */
int module__module(struct module_reader *r, uint64_t obj);

#endif
