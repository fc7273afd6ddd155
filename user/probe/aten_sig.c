// SPDX-License-Identifier: Apache-2.0
/*
 * Where a call of an operator has its tensors: the types of its C++ function tell
 * the registers (System V x86-64 ABI 3.2.3, AAPCS64 6.8), its schema what is written.
 */
#include "probe/aten.h"

#include <errno.h>

/* How one type is passed. */
enum pass {
	PASS_INT1, /* a word: numbers, enums, pointers, references, small structs */
	PASS_INT2, /* two words, both in registers or both on the stack */
	PASS_FP, /* a double */
	PASS_FP_INT, /* optional<double>: on x86-64 one register of each kind */
	PASS_MEMORY, /* three words: on x86-64 copied to the stack, on aarch64 by reference */
	PASS_UNKNOWN,
};

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && !strcmp(s + n - m, with);
}

/* What optional<…> has inside; NULL when it is another type. */
static const char *optional_of(const char *t)
{
	static const char *const names[] = { "std::optional<", "c10::optional<" };
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(names); i++)
		if (starts(t, names[i]))
			return t + strlen(names[i]);
	return NULL;
}

static enum pass pass_of(const char *t)
{
	static const struct {
		const char *prefix;
		enum pass pass;
	} types[] = {
		/* Objects that cannot be copied by their bytes are passed by reference. */
		{ "c10::SymInt", PASS_INT1 },	  { "c10::SymFloat", PASS_INT1 },
		{ "c10::SymBool", PASS_INT1 },	  { "c10::Storage", PASS_INT1 },
		{ "at::Generator", PASS_INT1 },	  { "c10::ScalarType", PASS_INT1 },
		{ "c10::MemoryFormat", PASS_INT1 }, { "c10::Layout", PASS_INT1 },
		{ "c10::Device", PASS_INT1 },	  { "std::array<bool,", PASS_INT1 },
		{ "bool", PASS_INT1 },		  { "long", PASS_INT1 },
		{ "int", PASS_INT1 },		  { "char", PASS_INT1 },
		{ "short", PASS_INT1 },		  { "double", PASS_FP },
		{ "c10::ArrayRef<", PASS_INT2 },  { "at::Dimname", PASS_INT2 },
		{ "c10::Stream", PASS_INT2 },	  { "std::basic_string_view<", PASS_INT2 },
		{ "c10::basic_string_view<", PASS_INT2 }, { "c10::OptionalArrayRef<", PASS_MEMORY },
	}, inner[] = {
		{ "c10::SymInt>", PASS_INT1 },	  { "at::Generator>", PASS_INT1 },
		{ "bool>", PASS_INT1 },		  { "c10::ScalarType>", PASS_INT1 },
		{ "c10::MemoryFormat>", PASS_INT1 }, { "c10::Layout>", PASS_INT1 },
		{ "c10::Device>", PASS_INT1 },	  { "long>", PASS_INT2 },
		{ "double>", PASS_FP_INT },	  { "c10::ArrayRef<", PASS_MEMORY },
		{ "std::basic_string_view<", PASS_MEMORY }, { "c10::basic_string_view<", PASS_MEMORY },
	};
	const char *in = optional_of(t);
	size_t i;

	if (ends(t, "&") || ends(t, "*"))
		return PASS_INT1;
	for (i = 0; in && i < MT_ARRAY_SIZE(inner); i++)
		if (starts(in, inner[i].prefix))
			return inner[i].pass;
	for (i = 0; !in && i < MT_ARRAY_SIZE(types); i++)
		if (starts(t, types[i].prefix))
			return types[i].pass;
	return PASS_UNKNOWN;
}

/* A tensor, an optional one or a list of them; false: another type, or a list that cannot be read. */
static bool is_tensor(const char *t, struct mt_op_arg *a)
{
	const char *in = optional_of(t);

	*a = (struct mt_op_arg){ .bits = MT_ARG_SURE };
	if (starts(t, "at::Tensor") && ends(t, "&"))
		return true;
	if (!strcmp(t, "c10::ArrayRef<at::Tensor>")) {
		a->bits |= MT_ARG_LIST;
		return true;
	}
	if (!strcmp(t, "c10::IListRef<at::Tensor> const&")) {
		a->bits |= MT_ARG_ILIST;
		return true;
	}
	if (!in || !starts(in, "at::Tensor>") || !ends(t, "&"))
		return false;
	/* {tensor, is there one}; before torch 2.3 the other way round */
	a->bits = 0;
	if (starts(t, "c10::"))
		a->impl = 8;
	else
		a->flag = 8;
	return true;
}

/* Places of arguments, given out in order. */
struct places {
	bool x86;
	unsigned int regs, fp, stack;
};

/* As ctx_arg counts: registers, then words of the stack. */
static unsigned int take(struct places *p, unsigned int words, bool memory)
{
	unsigned int max = p->x86 ? 6 : 8, at;

	if (!memory && p->regs + words <= max) {
		at = p->regs;
		p->regs += words;
		return at;
	}
	/* aarch64: what does not fit whole ends the registers for good. */
	if (!p->x86)
		p->regs = max;
	at = max + p->stack;
	p->stack += words;
	return at;
}

static unsigned int take_fp(struct places *p)
{
	if (p->fp < 8) {
		p->fp++;
		return 0;
	}
	p->stack++;
	return 0;
}

static unsigned int place(struct places *p, enum pass pass)
{
	switch (pass) {
	case PASS_INT2:
		return take(p, 2, false);
	case PASS_FP:
		return take_fp(p);
	case PASS_FP_INT:
		if (!p->x86)
			return take(p, 2, false);
		/* Both in registers or the whole on the stack. */
		if (p->fp == 8 || p->regs == 6)
			return take(p, 2, true);
		p->fp++;
		p->regs++;
		return 0;
	case PASS_MEMORY:
		return p->x86 ? take(p, 3, true) : take(p, 1, false);
	default:
		return take(p, 1, false);
	}
}

/* Results, and whether their place is handed over in a register before all arguments. */
static bool read_returns(const struct schema *s, struct mt_op *op)
{
	const char *at = s->text + s->returns;
	unsigned int n = 0, tensors = 0, writes = 0;
	bool lists = false, memory = false;
	struct schema_item r;

	while (schema__return(&at, &r)) {
		n++;
		tensors += r.tensor && !r.list;
		lists |= r.tensor && r.list;
		writes += r.write;
		if (r.alias && !r.write)
			op->flags |= MT_OP_VIEW;
		/* Objects and more than two words; numbers and enums come in registers. */
		memory |= r.tensor || (r.len >= 6 && !memcmp(r.type, "Scalar", 6) &&
				       (r.len == 6 || r.type[6] != 'T')) ||
			  (r.len >= 6 && !memcmp(r.type, "SymInt", 6));
	}
	if (n == 1 && writes == 1 && tensors == 1) {
		op->out = MT_OUT_REF; /* a reference to one of the arguments */
		op->n_outs = 1;
		return false;
	}
	if (n && writes == n) {
		/* a tuple of references */
		op->out = tensors == n && n <= MT_OP_OUTS ? MT_OUT_REFS : MT_OUT_NONE;
		op->n_outs = (__u8)n;
		return true;
	}
	if (!writes && !lists && tensors == n && n && n <= MT_OP_OUTS) {
		op->out = MT_OUT_VALUES;
		op->n_outs = (__u8)n;
	} else if (!writes && lists && n == 1) {
		op->out = MT_OUT_LIST;
		op->n_outs = 1;
	}
	return memory || n > 1;
}

static bool has_suffix(const struct schema *s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s->base_len >= n && !memcmp(s->text + s->ns_len + s->base_len - n, suffix, n);
}

static void read_name(const struct schema *s, struct mt_op *op)
{
	if (s->base_len == 10 && has_suffix(s, "empty_like"))
		op->flags |= MT_OP_NO_ACCESS;
	else if (has_suffix(s, "_like"))
		op->flags |= MT_OP_NO_INPUTS;
	if (op->flags & MT_OP_VIEW)
		op->flags |= MT_OP_NO_ACCESS;
}

int aten_sig__place(int machine, const struct schema *s, const struct mangled *m, bool redispatch,
		    struct mt_op *op)
{
	struct places p = { .x86 = machine == EM_X86_64 };
	const char *at = s->text + s->params;
	unsigned int i = 0, where;
	struct schema_item param;
	struct mt_op_arg arg;
	enum pass pass;
	bool tensor;

	op->flags &= (__u16)~(MT_OP_VIEW | MT_OP_NO_ACCESS | MT_OP_NO_INPUTS);
	op->n_args = op->n_outs = op->out = 0;
	/* aarch64 has a register of its own for it. */
	if (read_returns(s, op) && p.x86)
		p.regs++;
	read_name(s, op);
	if (redispatch) {
		if (!m->n || strcmp(m->param[0], "c10::DispatchKeySet") != 0)
			return -ENOTSUP;
		op->keys = (__u8)take(&p, 1, false);
		op->flags |= MT_OP_REDISPATCH;
		i = 1;
	}
	for (; schema__param(&at, &param); i++) {
		if (i >= m->n)
			goto unclear;
		pass = pass_of(m->param[i]);
		if (pass == PASS_UNKNOWN)
			goto unclear;
		tensor = is_tensor(m->param[i], &arg);
		if (param.tensor != tensor && !ends(m->param[i], "&"))
			goto unclear; /* the schema is another function's */
		where = place(&p, pass);
		if (!tensor)
			continue;
		if (op->n_args == MT_OP_ARGS || where + 1 >= MT_OP_WORDS) {
			op->flags |= MT_OP_CUT;
			continue;
		}
		arg.where = (__u8)where;
		arg.bits |= param.write ? MT_ARG_WRITE : 0;
		op->arg[op->n_args++] = arg;
	}
	if (i == m->n)
		return 0;
unclear:
	op->n_outs = op->out = 0;
	op->flags |= MT_OP_CUT;
	return -ENOTSUP;
}
