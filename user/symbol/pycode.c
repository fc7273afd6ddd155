// SPDX-License-Identifier: Apache-2.0
/*
 * Names of Python frames: function, file, line. A code object is read once and
 * remembered by its address and the check value that BPF took of it.
 *
 * The same address can be another code later, and even have the same members at
 * the same addresses. The check is of what tells them apart all the same: a number that
 * no other has (from 3.12), or what its strings are. It is taken again before and behind
 * the reading of the strings: only what it fits is the frame's.
 */
#include "symbol/python.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 1024 /* bytes kept of a function's name */
#define MAX_FILE 4096
#define MAX_TABLE (4u << 20)
/* Then all are forgotten: a training job has some 20,000 code objects, 10 MB. */
#define MAX_CODES 65536
#define MAX_BYTES (64u << 20)
#define MAX_HEAD 256 /* of a code object, without its code */
#define NO_HASH UINT64_MAX /* -1: not computed yet */

/* What the code says of itself, with what its strings say of themselves. */
struct code_id {
	uint64_t type, name, qualname, file, table;
	uint64_t name_hash, qualname_hash, file_hash;
	int32_t first;
	uint32_t argcount, flags;
};

struct py_code {
	struct code_id id;
	enum mt_py_why why; /* OK, or BAD_CODE: its texts are not understood */
	bool cut;
	uint32_t qualname_at, file_at; /* in text; the name at 0 */
	size_t table_len;
	size_t bytes;
	const uint8_t *table;
	char text[];
};

struct pycodes {
	struct hmap by_place; /* address and check -> struct py_code */
	size_t bytes;
	uint64_t hits, reads, evicted;
	uint64_t why[MT_PY_WHY_MAX];
};

static void drop_all(struct pycodes *c)
{
	size_t pos = 0;
	struct hkey k;
	uint64_t v;

	while (hmap__next(&c->by_place, &pos, &k, &v))
		free((void *)(uintptr_t)v);
	hmap__free(&c->by_place);
	memset(&c->by_place, 0, sizeof(c->by_place));
	c->bytes = 0;
}

void pycodes__free(struct pycodes *c)
{
	if (!c)
		return;
	drop_all(c);
	free(c);
}

static void head_word(const uint8_t *head, uint16_t off, void *out, size_t n)
{
	memset(out, 0, n);
	if (off != PY_NO_OFFSET && off + n <= MAX_HEAD)
		memcpy(out, head + off, n);
}

/* How far the members of a code object reach that are wanted. */
static size_t head_size(const struct py_layout *l)
{
	const uint16_t off[] = { l->ob_type,   l->code_first, l->code_argcount, l->code_flags,
				 l->code_file, l->code_name,  l->code_qualname, l->code_table };
	size_t i, n = 0;

	for (i = 0; i < MT_ARRAY_SIZE(off); i++)
		if (off[i] != PY_NO_OFFSET)
			n = MT_MAX(n, off[i] + 8u);
	return MT_MIN(n, (size_t)MAX_HEAD);
}

/* A str's own hash; unknown: it has none yet, or is no str, which shows when it is read. */
static uint64_t hash_of(const struct python *py, uint64_t str)
{
	uint64_t v;

	return str && !py_mem__u64(py->mem, str + py->layout.str_hash, &v) ? v : NO_HASH;
}

/* 0 or -errno. */
static int read_id(const struct python *py, uint64_t code, struct code_id *id)
{
	const struct py_layout *l = &py->layout;
	uint8_t head[MAX_HEAD];
	uint64_t count;
	int err = py_mem__read(py->mem, code, head, head_size(l));

	memset(id, 0, sizeof(*id));
	if (err)
		return err;
	head_word(head, 0, &count, 8);
	if (!py_object__alive(l, count))
		return -ENOENT;
	head_word(head, l->ob_type, &id->type, 8);
	head_word(head, l->code_name, &id->name, 8);
	head_word(head, l->code_qualname, &id->qualname, 8);
	head_word(head, l->code_file, &id->file, 8);
	head_word(head, l->code_table, &id->table, 8);
	head_word(head, l->code_first, &id->first, 4);
	head_word(head, l->code_argcount, &id->argcount, 4);
	head_word(head, l->code_flags, &id->flags, 4);
	id->name_hash = hash_of(py, id->name);
	id->qualname_hash = hash_of(py, id->qualname);
	id->file_hash = hash_of(py, id->file);
	return 0;
}

static bool same_hash(uint64_t a, uint64_t b)
{
	return a == b || a == NO_HASH || b == NO_HASH;
}

static bool same_id(const struct code_id *a, const struct code_id *b)
{
	return a->type == b->type && a->name == b->name && a->qualname == b->qualname &&
	       a->file == b->file && a->table == b->table && a->first == b->first &&
	       a->argcount == b->argcount && a->flags == b->flags &&
	       same_hash(a->name_hash, b->name_hash) &&
	       same_hash(a->qualname_hash, b->qualname_hash) &&
	       same_hash(a->file_hash, b->file_hash);
}

static bool is_code(struct python *py, uint64_t code, const struct code_id *id)
{
	char name[8];

	if (py->code_type)
		return id->type == py->code_type;
	if (py_object__type(py->mem, &py->layout, code, name, sizeof(name)) ||
	    strcmp(name, "code") != 0)
		return false;
	py->code_type = id->type;
	return true;
}

/* A NUL-terminated text more in sb; where it starts. */
static int add_text(const struct python *py, uint64_t obj, struct strbuf *sb, size_t max,
		    uint32_t *at, bool *cut)
{
	int err;

	*at = (uint32_t)sb->len;
	err = py_object__str(py->mem, &py->layout, obj, sb, max);
	if (err == -ENAMETOOLONG) {
		*cut = true;
		strbuf__puts(sb, "...");
		err = 0;
	}
	strbuf__add(sb, "", 1);
	return err;
}

/* NULL: no memory. What cannot be understood has a reason in it. */
static struct py_code *read_code(const struct python *py, const struct code_id *id)
{
	struct strbuf sb = { 0 };
	uint32_t name, qualname = 0, file = 0;
	uint8_t *table = NULL;
	struct py_code *c;
	ssize_t len = -EINVAL;
	bool cut = false, gone;
	int err;

	err = add_text(py, id->name, &sb, MAX_NAME, &name, &cut);
	if (!err && id->qualname)
		err = add_text(py, id->qualname, &sb, MAX_NAME, &qualname, &cut);
	if (!err)
		err = add_text(py, id->file, &sb, MAX_FILE, &file, &cut);
	if (!err)
		len = py_object__bytes(py->mem, &py->layout, id->table, MAX_TABLE, &table);
	/* A line table that cannot be understood leaves the names; one that was freed does not. */
	gone = err == -ENOENT || err == -EFAULT || len == -ENOENT || len == -EFAULT;
	len = MT_MAX(len, 0);
	c = sb.failed ? NULL : malloc(sizeof(*c) + sb.len + (size_t)len);
	if (c) {
		*c = (struct py_code){ .id = *id,
				       .cut = cut,
				       .qualname_at = qualname,
				       .file_at = file,
				       .table_len = (size_t)len,
				       .bytes = sizeof(*c) + sb.len + (size_t)len };
		c->why = gone ? MT_PY_CODE_GONE : err ? MT_PY_BAD_CODE : MT_PY_OK;
		memcpy(c->text, sb.data, sb.len);
		if (len)
			memcpy(c->text + sb.len, table, (size_t)len);
		c->table = (const uint8_t *)c->text + sb.len;
	}
	free(table);
	strbuf__free(&sb);
	return c;
}

/* Is what is there now the object of the frame? */
static bool is_frames(const struct python *py, struct hkey key)
{
	return py_walk__is_checked(py->mem, &py->offsets, key.a, (uint32_t)key.b);
}

/* Read a code object that was not seen before; NULL and *why. */
static const struct py_code *learn(struct python *py, struct hkey key, const struct code_id *id,
				   unsigned int *why)
{
	struct pycodes *c = py->codes;
	struct py_code *code = read_code(py, id);
	struct code_id again;
	uint64_t *v;

	*why = MT_PY_CODE_GONE;
	/* The target ran on: only what did not change under us is one object's. */
	if (code && (code->why == MT_PY_CODE_GONE || read_id(py, key.a, &again) ||
		     !same_id(&again, id) || !is_frames(py, key))) {
		free(code);
		return NULL;
	}
	if (c->by_place.n >= MAX_CODES || (code && c->bytes + code->bytes > MAX_BYTES)) {
		c->evicted += c->by_place.n;
		drop_all(c);
	}
	v = code ? hmap__put(&c->by_place, key, NULL) : NULL;
	if (!v) {
		free(code);
		*why = MT_PY_BAD_CODE;
		return NULL;
	}
	*v = (uint64_t)(uintptr_t)code;
	c->bytes += code->bytes;
	c->reads++;
	*why = code->why;
	return code;
}

static const struct py_code *find_code(struct python *py, const struct mt_py_frame *f,
				       unsigned int *why)
{
	struct hkey key = { f->code & MT_PY_CODE, f->check };
	struct pycodes *c = py->codes;
	const struct py_code *known;
	struct code_id id;
	uint64_t *v;
	int err;

	*why = MT_PY_UNCHECKED;
	if (!f->check)
		return NULL;
	v = hmap__get(&c->by_place, key);
	if (v) {
		known = (const struct py_code *)(uintptr_t)*v;
		c->hits++;
		*why = known->why;
		return known;
	}
	err = read_id(py, key.a, &id);
	*why = err == -ESRCH ? MT_PY_PROCESS_GONE : MT_PY_CODE_GONE;
	if (err || !is_frames(py, key))
		return NULL;
	*why = MT_PY_NOT_CODE;
	return is_code(py, key.a, &id) ? learn(py, key, &id, why) : NULL;
}

unsigned int python__name(struct python *py, const struct mt_py_frame *f, struct python_name *out)
{
	const struct py_code *code;
	unsigned int why;

	memset(out, 0, sizeof(*out));
	if (!py->codes)
		py->codes = calloc(1, sizeof(*py->codes));
	if (!py->codes)
		return MT_PY_BAD_CODE;
	code = find_code(py, f, &why);
	if (why) {
		py->codes->why[why]++;
		return why;
	}
	out->name = code->text;
	out->qualname = code->id.qualname ? code->text + code->qualname_at : out->name;
	out->file = code->text + code->file_at;
	out->cut = code->cut;
	/* _Py_InitCleanup: its file is its name is "__init__", one and the same object. */
	out->own = code->id.file == code->id.name && strcmp(out->name, "__init__") == 0;
	switch (py_line__find(py->layout.lines, code->table, code->table_len, code->id.first, f->at,
			      &out->line)) {
	case 0:
		break;
	case -ENOENT:
		out->line = code->id.first;
		break;
	default:
		out->line = 0;
		py->codes->why[MT_PY_BAD_CODE]++;
	}
	return MT_PY_OK;
}

void python__cell(struct python *py, const struct mt_py_stack *s, uint32_t depth,
		  struct strbuf *out)
{
	struct python_name name;
	uint32_t i;

	if (!s->n) {
		strbuf__puts(out, "NA");
		return;
	}
	for (i = 0; i < s->n && i < MT_PY_DEPTH && i < depth; i++) {
		if (python__name(py, &s->frame[i], &name))
			strbuf__puts(out, "NA\n");
		else if (name.own)
			continue;
		else if (!name.line)
			strbuf__printf(out, "%s(NA): %s\n", name.file, name.name);
		else
			strbuf__printf(out, "%s(%d): %s\n", name.file, name.line, name.name);
	}
}

struct python_counts python__counts(const struct python *py)
{
	static const uint64_t none[MT_PY_WHY_MAX];
	const struct pycodes *c = py->codes;

	if (!c)
		return (struct python_counts){ .why = none };
	return (struct python_counts){ .hits = c->hits,
				       .reads = c->reads,
				       .evicted = c->evicted,
				       .codes = c->by_place.n,
				       .bytes = c->bytes,
				       .why = c->why };
}

const char *python__reason(unsigned int why)
{
	static const char *const words[MT_PY_WHY_MAX] = {
		[MT_PY_OK] = "complete",
		[MT_PY_NO_INTERPRETER] = "no interpreter",
		[MT_PY_NOT_READY] = "interpreter not initialised",
		[MT_PY_UNKNOWN_VERSION] = "unknown Python release",
		[MT_PY_FREE_THREADED] = "unknown free-threaded Python",
		[MT_PY_UNVERIFIED] = "memory not as the layout says",
		[MT_PY_NO_THREAD] = "thread has no Python state",
		[MT_PY_OTHER_THREAD] = "state of another thread",
		[MT_PY_MANY_THREADS] = "too many threads",
		[MT_PY_NO_FRAMES] = "thread runs no Python",
		[MT_PY_UNREADABLE] = "page not there",
		[MT_PY_TOO_DEEP] = "too deep",
		[MT_PY_CODE_GONE] = "code object gone",
		[MT_PY_UNCHECKED] = "code object not read at the call",
		[MT_PY_NOT_CODE] = "not a code object",
		[MT_PY_BAD_CODE] = "code object not understood",
		[MT_PY_PROCESS_GONE] = "process gone",
	};

	return why < MT_PY_WHY_MAX ? words[why] : "unknown reason";
}
