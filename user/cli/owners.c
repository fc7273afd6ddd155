// SPDX-License-Identifier: Apache-2.0
/*
 * Who owns the tensors of the targets, read from their Python objects while they run:
 * each reading is put to the blocks that lived then, in its place among the events.
 */
#include "cli/owners.h"

#include <cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/session.h"
#include "objects/objects.h"

#define LAST_MS 1500 /* for a reading at the stop */
#define MAX_EARLIER (1u << 20) /* blocks of before the attach that are remembered */
#define MAX_LOOKED (4u << 20) /* blocks that are looked at for one reading, some 50 ms */
#define ROUND 512 /* bytes, what the allocator rounds to */

struct owners {
	struct readings *readings;
	struct reading *next; /* that was taken, and waits for its time */
	/*
	 * Tensors whose blocks were not seen, by (address, process): when they were met, and as
	 * what. They are told when they are met a second time: what was freed meanwhile is gone.
	 */
	struct hmap earlier;
	/*
	 * Processes that were met, and of them those whose parent was met too: a child has copies
	 * of all objects of its parent, and none of their memory. It is read when it allocates.
	 */
	struct hmap met, children; /* pid -> start */
	uint64_t told[OBJECT_KINDS], told_earlier;
	uint64_t over; /* not remembered: too many */
};

/* msleaks.md 8: the vendor's older grammar, and the newer one. */
static const char *owner_text(const struct session *s, unsigned int kind)
{
	static const char *const texts[OBJECT_KINDS][2] = {
		[OBJECT_WEIGHT] = { "PTA@model@weight", "PTA@weight" },
		[OBJECT_GRADIENT] = { "PTA@model@gradient", "PTA@gradient" },
		[OBJECT_STATE] = { "PTA@model@optimizer_state", "PTA@optimizer_state" },
		[OBJECT_BUFFER] = { "PTA@model@buffer", "PTA@buffer" },
	};

	return texts[kind][s->opts.newer];
}

int owners__open(struct session *s)
{
	int err;

	if (!s->opts.objects)
		return 0;
	s->owners = calloc(1, sizeof(*s->owners));
	err = s->owners ? readings__new(&s->owners->readings) : -ENOMEM;
	if (err)
		pr_err("owners: a thread that reads Python objects cannot be started: %s",
		       strerror(-err));
	return err;
}

void owners__process(struct session *s, pid_t pid, uint32_t start)
{
	struct owners *w = s->owners;
	uint64_t *v;
	pid_t parent;

	if (!w)
		return;
	hmap__put(&w->met, (struct hkey){ (uint64_t)pid, 0 }, NULL);
	if (!proc__parent(pid, &parent) &&
	    hmap__get(&w->met, (struct hkey){ (uint64_t)parent, 0 })) {
		v = hmap__put(&w->children, (struct hkey){ (uint64_t)pid, 0 }, NULL);
		if (v)
			*v = start;
		return;
	}
	readings__process(w->readings, pid, start);
}

void owners__row(struct session *s, const struct row *r)
{
	uint64_t start;

	if (s->owners && s->owners->children.n && r->type == ROW_PTA &&
	    hmap__del(&s->owners->children, (struct hkey){ r->pid, 0 }, &start))
		readings__process(s->owners->readings, (pid_t)r->pid, (uint32_t)start);
}

void owners__range_ended(void *ctx, uint32_t tgid)
{
	const struct session *s = ctx;

	readings__soon(s->owners->readings, (pid_t)tgid);
}

static struct hkey key_of(const struct reading *g, const struct object_storage *o)
{
	return (struct hkey){ o->addr, (uint64_t)g->start << 32 | (uint32_t)g->pid };
}

static void tell(struct session *s, const struct reading *g, const struct model_owned_block *b,
		 unsigned int kind)
{
	const struct out_owner w = { .pid = (uint32_t)g->pid,
				     .device = b->device,
				     .type = ROW_PTA,
				     .ptr = b->addr,
				     .allocation_id = b->allocation_id,
				     .size = b->size,
				     .time = g->t1 + (uint64_t)s->boot_to_real,
				     .owner = owner_text(s, kind),
				     .confidence = 1 };

	/* A failure is said there, once, and ends the recording with the next row. */
	out__owner(s->out, &w);
	s->owners->told[kind]++;
}

/* A tensor of before the attach: of the second time on that it is met. */
static void tell_earlier(struct session *s, const struct reading *g, const struct object_storage *o)
{
	const struct model_owned_block b = { .addr = o->addr,
					     .size = (int64_t)((o->bytes + ROUND - 1) / ROUND *
							       ROUND),
					     .device = o->device };
	struct owners *w = s->owners;
	uint64_t *v = hmap__get(&w->earlier, key_of(g, o)), kind = o->kind + 1u;

	/* The vendor's tool knows no such blocks. */
	if (s->opts.vendor)
		return;
	if (!v) {
		if (w->earlier.n >= MAX_EARLIER ||
		    !(v = hmap__put(&w->earlier, key_of(g, o), NULL))) {
			w->over++;
			return;
		}
		*v = g->t1 << 8;
	} else if (*v >> 8 < g->t0 && (*v & 0xff) != kind) {
		*v = g->t1 << 8 | kind;
		tell(s, g, &b, o->kind);
		w->told_earlier++;
	}
}

/* The block of a tensor. *left: how many times all blocks may still be looked at. */
static int block_of(struct session *s, const struct model_owned *m, const struct reading *g,
		    const struct object_storage *o, uint64_t *left, struct model_owned_block *b)
{
	int err = model__owned(s->model, m, false, b);
	const uint64_t *v;

	if (err != -ENOENT) {
		if (s->owners->earlier.n)
			hmap__del(&s->owners->earlier, key_of(g, o), NULL);
		return err;
	}
	v = hmap__get(&s->owners->earlier, key_of(g, o));
	if (v && *v & 0xff)
		return -ENOENT; /* told before as one that was not seen */
	if (!*left)
		return -EAGAIN; /* with a later reading */
	--*left;
	return model__owned(s->model, m, true, b);
}

/* Tensors by address: those that lie in one block are together the first of what they are. */
static void apply(struct session *s, const struct reading *g)
{
	struct model_owned_block b;
	struct model_counts counts;
	size_t i, next;
	uint64_t left;
	uint8_t kind;
	int err;

	model__counts(s->model, &counts);
	left = MAX_LOOKED / (counts.live_blocks + 1) + 16;
	for (i = 0; i < g->n; i = next) {
		const struct object_storage *o = &g->v[i];
		const struct model_owned m = { .tgid = (uint32_t)g->pid,
					       .start = g->start,
					       .addr = o->addr,
					       .device = o->device,
					       .t0 = g->t0 };

		next = i + 1;
		err = block_of(s, &m, g, o, &left, &b);
		if (err == -ENOENT)
			tell_earlier(s, g, o);
		if (err)
			continue;
		kind = o->kind;
		for (; next < g->n && g->v[next].device == o->device &&
		       g->v[next].addr - b.addr < (uint64_t)b.size;
		     next++)
			kind = MT_MIN(kind, g->v[next].kind);
		if (model__own(s->model, &m, &b, kind))
			tell(s, g, &b, kind);
	}
}

void owners__upto(struct session *s, uint64_t time)
{
	struct owners *w = s->owners;

	if (!w)
		return;
	for (;;) {
		if (!w->next)
			w->next = readings__take(w->readings);
		if (!w->next || w->next->t1 > time)
			return;
		apply(s, w->next);
		reading__free(w->next);
		w->next = NULL;
	}
}

void owners__last(struct session *s)
{
	if (s->owners)
		readings__last(s->owners->readings, LAST_MS);
}

void owners__print(struct session *s, FILE *f)
{
	struct readings_counts c;
	unsigned int i;

	if (!s->owners)
		return;
	readings__counts(s->owners->readings, &c);
	fprintf(f,
		"  owners from Python objects: %zu optimizers and %zu modules in %zu processes, "
		"%" PRIu64 " readings, %" PRIu64 " searches, %.2f s\n",
		c.optimizers, c.modules, c.processes, c.readings, c.searches, (double)c.ns / 1e9);
	for (i = 0; i < OBJECT_KINDS; i++)
		if (s->owners->told[i])
			fprintf(f, "    %s: %" PRIu64 " blocks\n", owner_text(s, i),
				s->owners->told[i]);
	if (s->owners->told_earlier)
		fprintf(f, "    of them from before the attach: %" PRIu64 "\n",
			s->owners->told_earlier);
	if (c.failed || c.cut || c.stuck || s->owners->over)
		fprintf(f, "    not all: %" PRIu64 " readings failed%s%s%s; rules judge the rest\n",
			c.failed, c.cut ? ", more objects than are looked at" : "",
			c.stuck ? ", the memory of a process does not answer" : "",
			s->owners->over ? ", more tensors than are remembered" : "");
}

void owners__json(struct session *s, cJSON *top)
{
	struct readings_counts c;
	cJSON *j;
	unsigned int i;

	if (!s->owners)
		return;
	readings__counts(s->owners->readings, &c);
	j = cJSON_AddObjectToObject(top, "owners");
	cJSON_AddNumberToObject(j, "processes", (double)c.processes);
	cJSON_AddNumberToObject(j, "optimizers", (double)c.optimizers);
	cJSON_AddNumberToObject(j, "modules", (double)c.modules);
	cJSON_AddNumberToObject(j, "readings", (double)c.readings);
	cJSON_AddNumberToObject(j, "searches", (double)c.searches);
	cJSON_AddNumberToObject(j, "seconds", (double)c.ns / 1e9);
	cJSON_AddNumberToObject(j, "failed", (double)c.failed);
	cJSON_AddBoolToObject(j, "cut", c.cut || s->owners->over);
	cJSON_AddBoolToObject(j, "stuck", c.stuck);
	for (i = 0; i < OBJECT_KINDS; i++)
		cJSON_AddNumberToObject(j, object_kind__name((enum object_kind)i),
					(double)s->owners->told[i]);
	cJSON_AddNumberToObject(j, "preattach", (double)s->owners->told_earlier);
}

void owners__free(struct session *s)
{
	if (!s->owners)
		return;
	readings__free(s->owners->readings);
	reading__free(s->owners->next);
	hmap__free(&s->owners->earlier);
	hmap__free(&s->owners->met);
	hmap__free(&s->owners->children);
	free(s->owners);
	s->owners = NULL;
}
