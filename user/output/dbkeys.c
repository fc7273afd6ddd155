// SPDX-License-Identifier: Apache-2.0
/*
 * The rules of MindStudio Insight for blocks in a db (spec/insight.md 2, 3):
 * by (device, type, Ptr) times rise strictly and MALLOC and FREE alternate.
 *
 * Equal times: the later row moves by 1 ns. A MALLOC of a live block proves
 * that its FREE was missed: such a block gets a FREE row with shadow:true (the
 * word of the vendor's later releases) right before the MALLOC, or Insight
 * would ignore the new block. Blocks that nothing proves ended get none.
 * Should the missed FREE come late after all, it takes the shadow's place.
 *
 * Insight does not look at the process: blocks of two processes with one key
 * cannot both be right there. They are written as they are and counted.
 */
#include "output/internal.h"

#include <errno.h>
#include <stdlib.h>

/* Keys that are not live are forgotten this long after their last row. */
#define FORGET_NS 10000000000ULL
#define TIE_NS 1000
#define FIRST_SWEEP (256u << 10)

struct state {
	uint64_t last; /* time of the last row */
	uint64_t allocation_id;
	int64_t size;
	uint64_t shadow_id; /* allocation_id of the block that got a shadow FREE */
	int64_t shadow_row;
	uint32_t pid;
	uint32_t next_free;
	bool live;
};

struct dbkeys {
	struct hmap map; /* (ptr, device and type) -> index in states */
	struct state *states;
	size_t n, cap;
	uint32_t free_list; /* index + 1 */
	size_t sweep_at;
};

static struct hkey key_of(const struct row *r)
{
	return (struct hkey){ .a = r->ptr, .b = (uint64_t)(uint32_t)r->device << 8 | r->type };
}

struct dbkeys *dbkeys__new(void)
{
	struct dbkeys *k = calloc(1, sizeof(*k));

	if (k)
		k->sweep_at = FIRST_SWEEP;
	return k;
}

void dbkeys__free(struct dbkeys *k)
{
	if (!k)
		return;
	hmap__free(&k->map);
	free(k->states);
	free(k);
}

/* Drop what no row can matter to any more; addresses come and go. */
static void sweep(struct dbkeys *k, uint64_t now)
{
	struct hmap fresh = { 0 };
	struct hkey key;
	uint64_t v, *slot;
	size_t pos = 0;

	while (hmap__next(&k->map, &pos, &key, &v)) {
		struct state *s = &k->states[v];

		if (!s->live && s->last + FORGET_NS < now) {
			s->next_free = k->free_list;
			k->free_list = (uint32_t)v + 1;
			continue;
		}
		slot = hmap__put(&fresh, key, NULL);
		if (slot)
			*slot = v;
	}
	hmap__free(&k->map);
	k->map = fresh;
	k->sweep_at = MT_MAX((size_t)FIRST_SWEEP, fresh.n * 2);
}

static struct state *state_of(struct dbkeys *k, const struct row *r)
{
	uint64_t *v = hmap__get(&k->map, key_of(r));
	size_t i, cap;
	void *p;

	if (v)
		return &k->states[*v];
	if (k->map.n >= k->sweep_at)
		sweep(k, r->time);
	if (k->free_list) {
		i = k->free_list - 1;
		k->free_list = k->states[i].next_free;
	} else {
		if (k->n == k->cap) {
			cap = k->cap ? k->cap * 2 : 1024;
			p = cap > UINT32_MAX / 2 ? NULL
						 : realloc(k->states, cap * sizeof(*k->states));
			if (!p)
				return NULL;
			k->states = p;
			k->cap = cap;
		}
		i = k->n++;
	}
	memset(&k->states[i], 0, sizeof(k->states[i]));
	v = hmap__put(&k->map, key_of(r), NULL);
	if (!v)
		return NULL;
	*v = i;
	return &k->states[i];
}

/*
 * A tie moves behind the last row. What is older than a tie can explain (a
 * late row, a block of another process) keeps its true time.
 */
static uint64_t after(struct state *s, uint64_t time)
{
	if (time <= s->last) {
		if (s->last - time >= TIE_NS)
			return time;
		time = s->last + 1;
	}
	s->last = time;
	return time;
}

static void see_malloc(struct state *s, const struct row *r, struct dbverdict *v)
{
	/* In block order only the times tell that two lives overlapped. */
	if (s->last && s->pid != r->pid && (s->live || r->time < s->last)) {
		v->collision = true;
		s->shadow_row = 0;
	} else if (s->live) {
		v->need_shadow = true;
		v->shadow = (struct row){
			.event = ROW_FREE,
			.type = r->type,
			.attrs = ATTR_BLOCK | ATTR_SHADOW,
			.time = after(s, r->time - 1),
			.pid = s->pid,
			.device = r->device,
			.ptr = r->ptr,
			.allocation_id = s->allocation_id,
			.size = s->size,
		};
		s->shadow_id = s->allocation_id;
		s->shadow_row = 0;
	}
	s->live = true;
	s->pid = r->pid;
	s->allocation_id = r->allocation_id;
	s->size = r->size;
	v->time = after(s, r->time);
}

static void see_free(struct state *s, const struct row *r, struct dbverdict *v)
{
	if (s->live && s->pid != r->pid) {
		v->collision = true;
	} else if (s->live && s->shadow_row && r->allocation_id == s->shadow_id &&
		   r->allocation_id != s->allocation_id) {
		/* Its own time is before the MALLOC that came in between. */
		v->replaces = s->shadow_row;
		v->time = r->time;
		s->shadow_row = 0;
		return;
	} else {
		s->live = false;
	}
	v->time = after(s, r->time);
}

int dbkeys__see(struct dbkeys *k, const struct row *r, struct dbverdict *v)
{
	struct state *s;

	v->time = r->time;
	v->need_shadow = v->collision = false;
	v->replaces = 0;
	if (!row__has_ptr(r) || r->device == DEV_HOST || r->device == DEV_NA)
		return 0; /* Insight does not show those */
	s = state_of(k, r);
	if (!s)
		return -ENOMEM;
	if (r->event == ROW_MALLOC)
		see_malloc(s, r, v);
	else if (r->event == ROW_FREE)
		see_free(s, r, v);
	else
		v->time = after(s, r->time);
	return 0;
}

void dbkeys__shadow_written(struct dbkeys *k, const struct row *r, int64_t rowid)
{
	uint64_t *v = hmap__get(&k->map, key_of(r));

	if (v)
		k->states[*v].shadow_row = rowid;
}
