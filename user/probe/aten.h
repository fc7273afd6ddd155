/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to probe/: the operators of a libtorch_cpu, found in its symbols and
 * in the schemas that it registers them by (ascend-abi.md 2.7.7).
 */
#ifndef MEMTAP_PROBE_ATEN_H
#define MEMTAP_PROBE_ATEN_H

#include <regex.h>

#include "memtap/event.h"
#include "probe/elf.h"

/* ---- mangled.c: parameter types of a mangled name ---- */

#define MANGLED_PARAMS 64
#define MANGLED_TEXT 160 /* longest text of a type, NUL included */

struct mangled {
	char param[MANGLED_PARAMS][MANGLED_TEXT]; /* "at::Tensor const&" */
	unsigned int n;
};

/*
 * Types of the parameters of a function in nested namespaces (`_ZN…E…`, Itanium ABI
 * 5.1), written without spaces but before "const". 0, -EINVAL what is no such name,
 * -ENOTSUP more than operators have.
 */
int mangled__params(const char *name, struct mangled *out);

/* ---- schema.c: texts like "add.Tensor(Tensor self, …) -> Tensor" ---- */

struct schema {
	const char *text; /* in the file */
	unsigned int ns_len; /* of "aten::" before the name, mostly 0 */
	unsigned int base_len, overload_len; /* "add", "Tensor" */
	unsigned int params; /* offset of what stands behind "(" */
	unsigned int returns; /* and behind "-> " */
	struct schema *next; /* the same name with _ for the dot */
};

struct schemas {
	struct schema *v;
	size_t n, cap;
	struct hmap by_name; /* hash of "add_Tensor" -> index + 1 */
};

/* All schemas in the read-only data of a file. 0 or -errno. */
int schemas__read(const struct elf_image *img, struct schemas *out);
void schemas__free(struct schemas *s);
/* The first of a name as at::_ops has it ("add_Tensor"), NULL; more by ->next. */
const struct schema *schemas__find(const struct schemas *s, const char *name, size_t len);

/* One parameter, or one result. */
struct schema_item {
	const char *type;
	unsigned int len; /* of "Tensor(a!)?" */
	bool tensor; /* a tensor, an optional one or a list of them */
	bool list;
	bool alias, write; /* (a), (a!) */
};

/* Goes from one to the next, beginning at text + params; false at the end. */
bool schema__param(const char **at, struct schema_item *out);
/* The same of results, beginning at text + returns. */
bool schema__return(const char **at, struct schema_item *out);

/* ---- aten_sig.c: where the tensors are ---- */

/*
 * What a probe of an operator reads. `redispatch`: the function takes a set of keys
 * before all others. 0, or -ENOTSUP when the types are not understood: then only the
 * tensors before the first such one are in *op, and none of its results.
 */
int aten_sig__place(int machine, const struct schema *s, const struct mangled *m, bool redispatch,
		    struct mt_op *op);

/* ---- aten.c ---- */

struct aten_op {
	char name[96]; /* "aten::add.Tensor" without its namespace's colons: "aten.add.Tensor" */
	uint64_t vaddr;
	struct mt_op op;
};

struct aten {
	struct aten_op *v;
	size_t n;
	size_t operators; /* of them by call: the others are redispatch of operators made of others
			   */
	size_t unnamed; /* operators of which no schema was found */
	size_t unclear; /* … whose tensors are not all found */
	struct mt_torch torch;
	const char *no_access; /* why nothing can be read of tensors; static text, NULL: it can */
};

/* The operators that a regular expression (NULL: all) finds. 0 or -errno. */
int aten__find(struct elf_image *img, const regex_t *only, struct aten *out);
void aten__free(struct aten *a);
/* torch_layout.c: of tensors, from the code of operators; a->no_access if it is not understood. */
void torch_layout__derive(struct elf_image *img, struct aten *a);
/*
 * Where a function keeps its return address, from the stack pointer at its entry: x86-64
 * has been given it there, arm64 stores its register. MT_OP_NO_BACK: it is not seen to.
 */
int32_t torch_layout__back(const struct elf_image *img, uint64_t vaddr);

#endif
