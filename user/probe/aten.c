// SPDX-License-Identifier: Apache-2.0
/* The operators of a libtorch_cpu: at::_ops::NAME::call by symbol, names and tensors by schema. */
#include "probe/aten.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define OPS "_ZN2at4_ops"
#define COMPOSITE "_ZN2at25compositeimplicitautograd"

struct finder {
	struct elf_image *img;
	const regex_t *only;
	struct aten *out;
	struct schemas schemas;
	struct hmap composite; /* hash of name and types of those made of others -> 1 */
	struct mangled types;
	size_t cap;
	int err;
};

void aten__free(struct aten *a)
{
	if (!a)
		return;
	free(a->v);
	memset(a, 0, sizeof(*a));
}

/* <length><name> at p; NULL when it is none. Sets *len and *next. */
static const char *source_name(const char *p, size_t *len, const char **next)
{
	size_t n = 0;

	for (; isdigit((unsigned char)*p) && n < 1000; p++)
		n = n * 10 + (size_t)(*p - '0');
	if (!n || n >= 1000 || strnlen(p, n) < n)
		return NULL;
	*len = n;
	*next = p + n;
	return p;
}

static uint64_t types_hash(const struct mangled *m, unsigned int first, uint64_t seed)
{
	unsigned int i;

	for (i = first; i < m->n; i++)
		seed = hash__bytes(m->param[i], strlen(m->param[i]) + 1, seed);
	return seed;
}

/* at::compositeimplicitautograd::linear: what torch makes of other operators. */
static int on_composite(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	static const char symint[] = "_symint";
	struct finder *f = ctx;
	const char *own, *next;
	size_t n;

	(void)vaddr, (void)size;
	if (strncmp(name, COMPOSITE, sizeof(COMPOSITE) - 1) != 0)
		return 0;
	own = source_name(name + sizeof(COMPOSITE) - 1, &n, &next);
	if (!own || *next != 'E' || mangled__params(name, &f->types))
		return 0;
	if (n >= sizeof(symint) && !memcmp(own + n - 7, symint, 7))
		n -= 7;
	if (!hmap__put(&f->composite,
		       (struct hkey){ types_hash(&f->types, 0, hash__bytes(own, n, 0)), 0 }, NULL))
		f->err = -ENOMEM;
	return f->err;
}

static bool is_composite(const struct finder *f, const struct schema *s, unsigned int first)
{
	const char *base = s->text + s->ns_len;
	char name[256];
	size_t n = s->base_len;

	/* Ends at the gradients: only where they are off there is more to it. */
	if (n == 7 && !memcmp(base, "detach_", 7))
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)n, base);
	if (hmap__get(&f->composite,
		      (struct hkey){ types_hash(&f->types, first, hash__bytes(name, n, 0)), 0 }))
		return true;
	/* With the results among the arguments it is …_outf there. */
	if (n + sizeof("_outf") > sizeof(name))
		return false;
	memcpy(name + n, "_outf", sizeof("_outf"));
	return hmap__get(
		&f->composite,
		(struct hkey){ types_hash(&f->types, first, hash__bytes(name, n + 5, 0)), 0 });
}

static unsigned int count_params(const struct schema *s)
{
	const char *at = s->text + s->params;
	struct schema_item x;
	unsigned int n = 0;

	while (schema__param(&at, &x))
		n++;
	return n;
}

/* Of the texts with one name: the one that has as many parameters as the function. */
static const struct schema *schema_of(const struct finder *f, const char *name, size_t n,
				      unsigned int params)
{
	const struct schema *s;

	for (s = schemas__find(&f->schemas, name, n); s; s = s->next)
		if (count_params(s) == params)
			return s;
	return NULL;
}

static struct aten_op *new_op(struct finder *f)
{
	struct aten *a = f->out;

	if (a->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 1024;
		void *p = realloc(a->v, cap * sizeof(*a->v));

		if (!p) {
			f->err = -ENOMEM;
			return NULL;
		}
		a->v = p;
		f->cap = cap;
	}
	memset(&a->v[a->n], 0, sizeof(a->v[0]));
	return &a->v[a->n];
}

/* "aten.add.Tensor"; the overload without a name is "default". */
static bool write_name(const struct schema *s, char out[96])
{
	const char *base = s->text + s->ns_len, *over = base + s->base_len + 1;
	int n = snprintf(out, 96, "%.*s.%.*s.%.*s", s->ns_len ? (int)s->ns_len - 2 : 4,
			 s->ns_len ? s->text : "aten", (int)s->base_len, base,
			 s->overload_len ? (int)s->overload_len : 7,
			 s->overload_len ? over : "default");

	return n > 0 && n < 96;
}

static int on_symbol(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	struct finder *f = ctx;
	const struct schema *s;
	const char *own, *next;
	struct aten_op *o;
	bool redispatch;
	size_t n;

	(void)size;
	if (strncmp(name, OPS, sizeof(OPS) - 1) != 0)
		return 0;
	own = source_name(name + sizeof(OPS) - 1, &n, &next);
	if (!own)
		return 0;
	redispatch = strncmp(next, "10redispatchE", 13) == 0;
	if ((!redispatch && strncmp(next, "4callE", 6) != 0) || strchr(next, '.'))
		return 0;
	if (mangled__params(name, &f->types)) {
		f->out->unnamed += !redispatch;
		return 0;
	}
	s = schema_of(f, own, n, f->types.n - redispatch);
	o = new_op(f);
	if (!o)
		return f->err;
	if (!s || !write_name(s, o->name)) {
		f->out->unnamed += !redispatch;
		return 0;
	}
	if (is_composite(f, s, redispatch))
		o->op.flags |= MT_OP_COMPOSITE;
	else if (redispatch)
		return 0; /* its call is the operator */
	if (f->only && regexec(f->only, o->name, 0, NULL, 0))
		return 0;
	o->vaddr = vaddr;
	o->op.back = torch_layout__back(f->img, vaddr);
	if (aten_sig__place(elf_image__machine(f->img), s, &f->types, redispatch, &o->op))
		f->out->unclear += !redispatch;
	f->out->operators += !redispatch;
	f->out->n++;
	return 0;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct aten_op *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

int aten__find(struct elf_image *img, const regex_t *only, struct aten *out)
{
	struct finder f = { .img = img, .only = only, .out = out };

	memset(out, 0, sizeof(*out));
	f.err = schemas__read(img, &f.schemas);
	if (!f.err)
		elf_image__each_symbol(img, on_composite, &f);
	if (!f.err)
		elf_image__each_symbol(img, on_symbol, &f);
	schemas__free(&f.schemas);
	hmap__free(&f.composite);
	if (!f.err && elf_image__over(img))
		f.err = -E2BIG;
	if (f.err) {
		aten__free(out);
		return f.err;
	}
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), by_vaddr);
	torch_layout__derive(img, out);
	return 0;
}
