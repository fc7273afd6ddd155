// SPDX-License-Identifier: Apache-2.0
/* Operators and their accesses to tensors: rows, and the blocks that hold the tensors. */
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"
#include "model/internal.h"

#define MAX_STRAYS (1u << 18) /* addresses without a block that have a number of their own */

#define MAX_OPEN (1u << 16) /* operators that an exception left, with a stack */

/* The Python stack of an operator, which its start brought; 0: there is none. */
static uint64_t stack_of(struct process *p, const struct event *e)
{
	struct hkey k = { e->tid, e->key };
	uint64_t *v, py = 0;

	if (e->kind == EV_OP_START) {
		if (!e->refs.py || p->open_ops.n >= MAX_OPEN)
			hmap__del(&p->open_ops, k, NULL);
		else if ((v = hmap__put(&p->open_ops, k, NULL)))
			*v = e->refs.py;
		return e->refs.py;
	}
	if (e->kind == EV_OP_END)
		return hmap__del(&p->open_ops, k, &py) ? py : 0;
	v = hmap__get(&p->open_ops, k);
	return v ? *v : 0;
}

static void put_stack(const struct model *m, const struct process *p, struct row *r, uint64_t py)
{
	if (!m->opts.stacks || !py)
		return;
	r->attrs |= ATTR_STACKS;
	r->stack_py = py;
	r->start = p->start;
}

static void filtered(struct model *m, const struct process *p)
{
	m->counts.rules[p->paused ? RULE_PAUSED : RULE_FILTERED]++;
}

static bool wants(const struct process *p, unsigned int events)
{
	return p->wants.level & LEVEL_OP && p->wants.events & events;
}

/* "torch._ops.aten.add.Tensor" */
static uint32_t name_of(const struct event *e, char out[160])
{
	int n = snprintf(out, 160, "torch._ops.%.*s", (int)MT_MIN(e->text_len, 128u), e->text);

	return n > 0 ? (uint32_t)n : 0;
}

static void on_op(struct model *m, struct process *p, const struct event *e, uint64_t py)
{
	char name[160];
	struct row r = { .event = ROW_OP_LAUNCH,
			 .type = e->kind == EV_OP_START ? ROW_ATEN_START : ROW_ATEN_END,
			 .name = name,
			 .name_len = name_of(e, name),
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = process__device(p, e->tid, 0) };

	if (e->flags & EVF_LATE && !m->opts.vendor)
		r.attrs |= ATTR_LATE;
	put_stack(m, p, &r, py);
	model__emit(m, p, &r, true);
}

/* The live block that holds [addr, addr + size), and where it begins. */
const struct block *ops__holder(const struct model *m, const struct process *p, uint64_t addr,
				int64_t size, enum row_type *pool)
{
	static const struct {
		enum layer layer;
		enum row_type pool;
	} exact[] = { { LAYER_PTA, ROW_PTA }, { LAYER_WS, ROW_PTA_WORKSPACE } };
	const struct addrs *a = &p->pta_live;
	size_t lo = 0, hi = a->n, i;
	const struct block *b;

	for (i = 0; i < MT_ARRAY_SIZE(exact); i++) {
		b = model__live(m, p, exact[i].layer, addr);
		if (b) {
			*pool = exact[i].pool;
			return b;
		}
	}
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (a->v[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	*pool = ROW_PTA;
	b = lo ? model__live(m, p, LAYER_PTA, a->v[lo - 1]) : NULL;
	return b && addr - b->addr <= (uint64_t)b->size &&
			       (uint64_t)size <= (uint64_t)b->size - (addr - b->addr)
		       ? b
		       : NULL;
}

void ops__block(struct model *m, struct process *p, const struct event *e)
{
	if (!(m->opts.events & EVENTS_ACCESS))
		return;
	/* Where frees name merged blocks the addresses are kept anyway. */
	if (e->kind == EV_PTA_MALLOC && !(e->flags & EVF_MERGED))
		merged__add(p, e->addr);
	else if (e->kind == EV_PTA_FREE && !(e->flags & EVF_MERGED))
		merged__del(p, e->addr);
	/* An access there was of another block. */
	if (e->kind == EV_PTA_MALLOC && p->strays.n)
		hmap__del(&p->strays, (struct hkey){ e->addr, ROW_PTA }, NULL);
}

void ops__forget(struct process *p)
{
	hmap__free(&p->strays);
	memset(&p->strays, 0, sizeof(p->strays));
}

/* The same address is the same unknown block. */
uint64_t ops__stray(struct model *m, struct process *p, uint64_t addr, enum row_type pool)
{
	uint64_t *v = p->strays.n < MAX_STRAYS
			      ? hmap__put(&p->strays, (struct hkey){ addr, pool }, NULL)
			      : hmap__get(&p->strays, (struct hkey){ addr, pool });

	if (v && *v)
		return *v;
	++m->next_allocation;
	if (v)
		*v = m->next_allocation;
	return m->next_allocation;
}

/* "torch.Size([2, 3])", with … for dimensions that were not read. */
static void write_shape(const struct access *a, char *out, size_t n)
{
	size_t len = (size_t)snprintf(out, n, "torch.Size([");
	unsigned int i;

	for (i = 0; i < a->n_dims && len < n; i++)
		len += (size_t)snprintf(out + len, n - len, "%s%lld", i ? ", " : "",
					(long long)a->dims[i]);
	if (len < n)
		snprintf(out + len, n - len, a->cut ? ", ...])" : "])");
}

void ops__of_block(struct model *m, struct process *p, struct row *r, const struct block *b,
		   enum row_type pool)
{
	if (!b) {
		r->allocation_id = ops__stray(m, p, r->ptr, pool);
		return;
	}
	r->block = (uint32_t)(b - m->blocks);
	r->block_ptr = b->addr;
	/* A block from before a start or stop has a new number, from here to its end. */
	if (b->window != p->window) {
		m->blocks[r->block].allocation_id = 0;
		m->blocks[r->block].window = p->window;
	}
	r->allocation_id = b->allocation_id;
}

static void on_access(struct model *m, struct process *p, const struct event *e, uint64_t py)
{
	char name[160], shape[256];
	struct row r = { .event = ROW_ACCESS,
			 .type = e->access.write ? ROW_WRITE : ROW_READ,
			 .name = name,
			 .name_len = name_of(e, name),
			 .time = model__real(m, e->time),
			 .tid = e->tid,
			 .device = e->device,
			 .attrs = ATTR_BLOCK | ATTR_ACCESS,
			 .ptr = e->addr,
			 .size = e->size,
			 .dtype = e->access.dtype,
			 .shape = shape };
	const struct block *b = ops__holder(m, p, e->addr, e->size, &r.pool);

	process__saw_device(p, e->tid, e->device);
	write_shape(&e->access, shape, sizeof(shape));
	if (e->flags & EVF_LATE && !m->opts.vendor)
		r.attrs |= ATTR_LATE;
	if (p->paused || !model__wants(&p->wants, r.device) || !model__in_step(m, p)) {
		filtered(m, p); /* and takes no number */
		return;
	}
	ops__of_block(m, p, &r, b, ROW_PTA);
	put_stack(m, p, &r, py);
	model__emit(m, p, &r, true);
}

bool ops__event(struct model *m, struct process *p, const struct event *e)
{
	uint64_t py;

	if (e->kind != EV_OP_START && e->kind != EV_OP_END && e->kind != EV_ACCESS)
		return false;
	py = stack_of(p, e);
	/* The vendor's tool begins to look inside of aclInit. */
	if ((m->opts.vendor && !p->acl) ||
	    !wants(p, e->kind == EV_ACCESS ? EVENTS_ACCESS : EVENTS_LAUNCH))
		filtered(m, p);
	else if (e->kind == EV_ACCESS)
		on_access(m, p, e, py);
	else
		on_op(m, p, e, py);
	return true;
}
