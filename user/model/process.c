// SPDX-License-Identifier: Apache-2.0
/* Devices, streams, kernel names and open ranges of a process. */
#include "model/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pool *pools__find(const struct pools *s, int32_t slot)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (s->v[i].slot == slot)
			return &s->v[i];
	return NULL;
}

struct pool *pools__get(struct pools *s, int32_t slot)
{
	struct pool *q = pools__find(s, slot);
	size_t i;

	if (q || slot < 0 || slot > MAX_DEVICES)
		return q;
	q = realloc(s->v, (s->n + 1) * sizeof(*s->v));
	if (!q)
		return NULL;
	s->v = q;
	for (i = s->n; i > 0 && q[i - 1].slot > slot; i--)
		q[i] = q[i - 1];
	s->n++;
	q[i] = (struct pool){ .slot = slot };
	return &q[i];
}

static void put_phys(struct process *p, int32_t logical, int32_t phys)
{
	if (logical >= p->n_phys) {
		int16_t *q = realloc(p->phys, ((size_t)logical + 1) * sizeof(*q));

		if (!q)
			return;
		p->phys = q;
		while (p->n_phys <= logical)
			q[p->n_phys++] = -1;
	}
	p->phys[logical] = (int16_t)phys;
}

/* Logical number of a physical device as far as told; the last one when there are two. */
static int32_t find_phys(const struct process *p, int32_t phys)
{
	int32_t i = p->n_phys;

	while (i-- > 0)
		if (p->phys[i] == phys)
			return i;
	return -1;
}

/* ASCEND_RT_VISIBLE_DEVICES: the physical ids, in the order of the logical ones. */
static int32_t read_visible(struct process *p, const char *list)
{
	int32_t logical = 0;

	while (list && *list) {
		char *end;
		long a = strtol(list, &end, 10), b;

		if (end == list)
			return logical;
		b = a;
		if (*end == '-') {
			list = end + 1;
			b = strtol(list, &end, 10);
			if (end == list)
				return logical;
		}
		for (; a <= b && a >= 0 && a <= MAX_PHYS && logical < MAX_DEVICES; a++)
			put_phys(p, logical++, (int32_t)a);
		while (*end == ' ')
			end++;
		if (*end != ',')
			return logical;
		list = end + 1;
	}
	return logical;
}

void process__devices(struct process *p, const char *visible)
{
	p->n_phys = 0;
	p->n_visible = read_visible(p, visible);
}

struct process *process__new(uint32_t tgid, uint32_t start, const char *visible)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->tgid = tgid;
	p->start = start;
	process__devices(p, visible);
	return p;
}

static void free_names(struct process *p)
{
	size_t pos = 0;
	uint64_t v;

	while (hmap__next(&p->names, &pos, NULL, &v))
		free((char *)(uintptr_t)v);
	hmap__free(&p->names);
}

void process__end(struct process *p)
{
	free_names(p);
	atb__forget(p);
	hmap__free(&p->threads);
	hmap__free(&p->streams);
	hmap__free(&p->stream_devices);
	hmap__free(&p->open_ops);
	free(p->labels);
	p->labels = NULL;
	p->n_labels = 0;
	free(p->ranges);
	p->ranges = NULL;
	p->host_open = 0;
	p->n_ranges = p->cap_ranges = p->next_range_no = p->free_range = 0;
	hmap__free(&p->ranges_by_id);
	hmap__free(&p->ranges_by_thread);
}

enum row_type layer__row_type(enum layer l)
{
	static const enum row_type types[LAYER_MAX] = {
		[LAYER_HAL] = ROW_HAL,
		[LAYER_HANDLE] = ROW_HAL,
		[LAYER_HOST_REG] = ROW_HOST_PINNED,
		[LAYER_PTA] = ROW_PTA,
		[LAYER_WS] = ROW_PTA_WORKSPACE,
		[LAYER_MS] = ROW_MINDSPORE,
		[LAYER_ATB] = ROW_ATB,
		[LAYER_HOST] = ROW_HOST,
	};

	_Static_assert(LAYER_MAX == 8, "each layer has its type");
	return types[l];
}

void process__free(struct process *p)
{
	process__end(p);
	free(p->phys);
	free(p->hal.v);
	free(p->pta.v);
	free(p->ws.v);
	free(p->ms.v);
	free(p->atb.v);
	free(p->host.v);
	free(p->ms_pools);
	free(p->ms_pieces);
	free(p->ws_uses.v);
	free(p->pta_live.v);
	hmap__free(&p->strays);
	free(p->gone);
	free(p);
}

static void forget_sums(struct pools *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		s->v[i].used = s->v[i].total = 0;
		s->v[i].prev = false;
	}
}

void process__no_sums(struct process *p)
{
	forget_sums(&p->hal);
	forget_sums(&p->pta);
	forget_sums(&p->ws);
	forget_sums(&p->ms);
	forget_sums(&p->atb);
	forget_sums(&p->host);
	p->pinned.used = 0;
}

void process__forget(struct process *p)
{
	process__end(p);
	process__no_sums(p);
	p->n_ms_pools = p->n_gone = 0;
}

static uint64_t pack(struct thread t)
{
	return (uint32_t)t.set | (uint64_t)(uint32_t)t.seen << 32;
}

struct thread process__thread(const struct process *p, uint32_t tid)
{
	const uint64_t *v = hmap__get(&p->threads, (struct hkey){ tid, 0 });

	if (!v)
		return (struct thread){ -1, -1 };
	return (struct thread){ (int32_t)(uint32_t)*v, (int32_t)(uint32_t)(*v >> 32) };
}

static void put_thread(struct process *p, uint32_t tid, struct thread t)
{
	uint64_t *v = hmap__put(&p->threads, (struct hkey){ tid, 0 }, NULL);

	if (v)
		*v = pack(t);
}

void process__set_device(struct process *p, uint32_t tid, int32_t logical)
{
	struct thread t = process__thread(p, tid);

	t.set = logical;
	put_thread(p, tid, t);
}

void process__saw_device(struct process *p, uint32_t tid, int32_t logical)
{
	struct thread t = process__thread(p, tid);

	if (logical < 0 || t.seen == logical)
		return;
	t.seen = logical;
	put_thread(p, tid, t);
}

void process__stream_device(struct process *p, uint64_t stream, int32_t logical)
{
	uint64_t *v = stream ? hmap__put(&p->stream_devices, (struct hkey){ stream, 0 }, NULL)
			     : NULL;

	if (v)
		*v = (uint64_t)(uint32_t)logical;
}

int32_t process__device(const struct process *p, uint32_t tid, uint64_t stream)
{
	struct thread t = process__thread(p, tid);
	const uint64_t *v = hmap__get(&p->stream_devices, (struct hkey){ stream, 0 });

	if (t.set >= 0)
		return t.set;
	if (v) /* a stream belongs to one device */
		return (int32_t)(uint32_t)*v;
	if (t.seen >= 0)
		return t.seen;
	/* Attached late. What other threads do tells nothing, a single visible device does. */
	return p->n_visible == 1 ? 0 : DEV_NA;
}

void process__told_device(struct process *p, int32_t logical, int32_t phys)
{
	if (p->n_visible || logical < 0 || logical >= MAX_DEVICES || phys < 0 || phys > MAX_PHYS)
		return;
	if (logical >= p->n_phys || p->phys[logical] < 0)
		put_phys(p, logical, phys);
}

int32_t process__logical(struct process *p, uint32_t tid, int32_t phys)
{
	struct thread t = process__thread(p, tid);
	int32_t logical;

	if (phys < 0 || phys > MAX_PHYS)
		return DEV_NA;
	logical = find_phys(p, phys);
	if (logical >= 0)
		return logical;
	if (t.set >= 0 && t.set < MAX_DEVICES && (t.set >= p->n_phys || p->phys[t.set] < 0)) {
		put_phys(p, t.set, phys);
		return t.set;
	}
	/* Nothing says otherwise: the ids are the same. A device outside the list has none. */
	return p->n_visible ? DEV_NA : phys;
}

int process__name(struct process *p, uint64_t handle, const char *text, size_t len)
{
	char *copy = strndup(text, len);
	uint64_t *v = copy ? hmap__put(&p->names, (struct hkey){ handle, 0 }, NULL) : NULL;

	if (!v) {
		free(copy);
		return -ENOMEM;
	}
	free((char *)(uintptr_t)*v);
	*v = (uintptr_t)copy;
	return 0;
}

const char *process__find_name(const struct process *p, uint64_t handle)
{
	const uint64_t *v = hmap__get(&p->names, (struct hkey){ handle, 0 });

	return v ? (const char *)(uintptr_t)*v : NULL;
}

/* ---- open ranges ---- */

/* Ids of the library name the range, without one the thread's stack does. */
static struct hkey range_key(uint32_t tid, uint64_t lib_id, uint64_t domain, bool py)
{
	return lib_id ? (struct hkey){ lib_id, domain }
		      : (struct hkey){ tid | (uint64_t)py << 32, domain };
}

static struct hmap *ranges_of(struct process *p, uint64_t lib_id)
{
	return lib_id ? &p->ranges_by_id : &p->ranges_by_thread;
}

static uint32_t free_range(struct process *p)
{
	uint32_t no = p->free_range, cap;
	void *q;

	if (no) {
		p->free_range = p->ranges[no].below;
		return no;
	}
	if (p->next_range_no == p->cap_ranges) {
		cap = p->cap_ranges ? p->cap_ranges * 2 : 16;
		q = realloc(p->ranges, cap * sizeof(*p->ranges));
		if (!q)
			return 0;
		p->ranges = q;
		p->cap_ranges = cap;
	}
	p->next_range_no = MT_MAX(p->next_range_no, 1);
	return p->next_range_no++;
}

bool process__open_range(struct process *p, const struct range *r)
{
	uint64_t *top;
	uint32_t no;

	if (p->n_ranges >= MAX_RANGES)
		return false;
	top = hmap__put(ranges_of(p, r->lib_id), range_key(r->tid, r->lib_id, r->domain, r->py),
			NULL);
	no = top ? free_range(p) : 0;
	if (!no)
		return false;
	p->ranges[no] = *r;
	p->ranges[no].below = (uint32_t)*top;
	*top = no;
	p->n_ranges++;
	return true;
}

bool process__close_range(struct process *p, uint32_t tid, uint64_t lib_id, uint64_t domain,
			  bool py, struct range *out)
{
	struct hmap *map = ranges_of(p, lib_id);
	struct hkey k = range_key(tid, lib_id, domain, py);
	uint64_t *top = hmap__get(map, k);
	uint32_t no = top ? (uint32_t)*top : 0;

	if (!no)
		return false;
	*out = p->ranges[no];
	if (out->below)
		*top = out->below;
	else
		hmap__del(map, k, NULL);
	p->ranges[no].below = p->free_range;
	p->free_range = no;
	p->n_ranges--;
	return true;
}
