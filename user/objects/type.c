// SPDX-License-Identifier: Apache-2.0
/* What a Python type is: which classes of torch it derives from. */
#include "objects/internal.h"

#include <errno.h>
#include <string.h>

/* PyTypeObject of 3.8 to 3.15, builds with a lock. */
#define TP_FLAGS 168
#define TP_DICT 264
#define TP_MRO 344
#define OB_SIZE 16

#define MAX_MRO 256u
#define MAX_KINDS (1u << 20) /* of types that are remembered */

int type__of(struct heap *h, uint64_t obj, uint64_t *type, uint64_t *flags)
{
	int err;

	if (!heap__is_pointer(obj))
		return -EINVAL;
	err = heap__u64(h, obj + h->layout.ob_type, type);
	if (!err && !heap__is_pointer(*type))
		err = -EINVAL;
	return err ? err : heap__u64(h, *type + TP_FLAGS, flags);
}

static bool of_module(struct heap *h, uint64_t type, const char *module)
{
	uint64_t dict, name;

	return !heap__u64(h, type + TP_DICT, &dict) && !value__get(h, dict, "__module__", &name) &&
	       value__is_text(h, name, module);
}

/* One of the classes that a type derives from, by its name. */
static unsigned int class_kind(struct heap *h, uint64_t type)
{
	uint64_t name;
	char text[32];

	if (heap__u64(h, type + h->layout.tp_name, &name))
		return 0;
	/* Longer ones are cut, and are none of these. */
	if (py_mem__text(&h->mem, name, text, sizeof(text)) && strlen(text) < sizeof(text) - 1)
		return 0;
	/* Of C: its name has its module. */
	if (!strcmp(text, "torch._C._TensorBase") || !strcmp(text, "torch._C.TensorBase"))
		return KIND_TENSOR;
	if (!strcmp(text, "Optimizer") && of_module(h, type, "torch.optim.optimizer"))
		return KIND_OPTIMIZER;
	if (!strcmp(text, "Module") && of_module(h, type, "torch.nn.modules.module"))
		return KIND_MODULE;
	return 0;
}

static unsigned int kind_of(struct heap *h, uint64_t type)
{
	uint64_t meta, flags, mro, n, mro_type, item[MAX_MRO];
	unsigned int kind = KIND_KNOWN;
	size_t at, i;

	/* Its own type is one whose instances are types. */
	if (type__of(h, type, &meta, &flags) || !(flags & TYPE_TYPE))
		return KIND_NONE;
	if (heap__u64(h, type + TP_MRO, &mro) || type__of(h, mro, &mro_type, &flags) ||
	    heap__u64(h, mro + OB_SIZE, &n) || !n || n > MAX_MRO)
		return kind;
	/* From 3.14 on a tuple keeps its hash before the items. The first is the type itself. */
	for (at = 24; at <= 32; at += 8)
		if (!heap__read(h, mro + at, item, n * 8) && item[0] == type)
			break;
	for (i = 0; at <= 32 && i < n; i++)
		if (heap__is_pointer(item[i]))
			kind |= class_kind(h, item[i]);
	return kind;
}

unsigned int types__kind(struct types *t, struct heap *h, uint64_t type)
{
	uint64_t *v;
	bool fresh;

	if (!heap__is_pointer(type))
		return KIND_NONE;
	v = hmap__get(&t->kinds, (struct hkey){ type, 0 });
	if (v)
		return (unsigned int)*v;
	if (t->kinds.n >= MAX_KINDS)
		types__forget(t);
	v = hmap__put(&t->kinds, (struct hkey){ type, 0 }, &fresh);
	if (!v)
		return 0;
	*v = kind_of(h, type);
	return (unsigned int)*v;
}

void types__forget(struct types *t)
{
	hmap__free(&t->kinds);
	memset(&t->kinds, 0, sizeof(t->kinds));
}
