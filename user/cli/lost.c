// SPDX-License-Identifier: Apache-2.0
/*
 * What was lost, of which the number is known: by the programs, by the drain, and records that
 * make no sense. All of it has LOST rows, whose counts add up to lost and undecodable of the
 * account.
 */
#include "cli/session.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct loss *own(struct session *s, unsigned int site, unsigned int reason, unsigned int cpu)
{
	size_t i;
	void *p;

	/* Only sites that have ever told nonsense, by processor: few. */
	for (i = 0; i < s->n_own_losses; i++)
		if (s->own_losses[i].site == site && s->own_losses[i].reason == reason &&
		    s->own_losses[i].cpu == cpu)
			return &s->own_losses[i];
	p = realloc(s->own_losses, (s->n_own_losses + 1) * sizeof(*s->own_losses));
	if (!p)
		return NULL;
	s->own_losses = p;
	s->own_losses[s->n_own_losses] = (struct loss){
		.site = site, .reason = reason, .device = -1, .cpu = cpu
	};
	return &s->own_losses[s->n_own_losses++];
}

void session__undecodable(struct session *s, const struct mt_hdr *h, bool no_memory)
{
	struct loss *l;

	if (h->type >= MT_REC_FORK) {
		s->life_bad++;
		return;
	}
	s->undecodable++;
	l = own(s, h->site, no_memory ? LOSS_MEMORY : LOSS_NONSENSE, h->cpu);
	if (!l)
		return; /* shows as not listed */
	l->first = l->count++ ? MT_MIN(l->first, h->time) : h->time;
	l->last = MT_MAX(l->last, h->time);
}

/* What the drain could not keep: it has no account by sites. */
static void add_drained(struct session *s, const struct drain_lost *d, unsigned int reason)
{
	struct loss *l = d->count ? own(s, NO_SITE, reason, NO_CPU) : NULL;

	if (!l)
		return;
	l->count = d->count;
	l->first = d->first;
	l->last = d->last;
}

/* Counted, and in no list nor of a known site: memory was full. */
static void add_unlisted(struct session *s, const struct loss *list, size_t n)
{
	struct account a;
	uint64_t listed = 0;
	struct loss *l;
	size_t i;

	session__account(s, &a);
	for (i = 0; i < n; i++)
		listed += list[i].count;
	for (i = 0; i < s->n_own_losses; i++)
		if (s->own_losses[i].reason != LOSS_UNLISTED)
			listed += s->own_losses[i].count;
	l = a.lost + a.bad > listed ? own(s, NO_SITE, LOSS_UNLISTED, NO_CPU) : NULL;
	if (!l)
		return;
	l->count = a.lost + a.bad - listed;
	l->first = s->t_attached;
	l->last = MT_MAX(s->t_attached, s->t_stop);
}

int session__all_losses(struct session *s, struct loss **list, size_t *n)
{
	struct drain_stats d;
	void *p;
	int err;

	/* While programs run their counts and their list are not of one moment. */
	err = s->detached
		      ? losses__read_all(s->losses_fd, s->stats_fd, prober__sites(s->prober),
					 s->t_attached, MT_MAX(s->t_attached, s->t_stop), list, n)
		      : losses__read(s->losses_fd, list, n);
	if (err)
		return err;
	drain__stats(s->drain, &d);
	add_drained(s, &d.nonsense, LOSS_NONSENSE);
	add_drained(s, &d.no_memory, LOSS_MEMORY);
	if (s->detached)
		add_unlisted(s, *list, *n);
	if (!s->n_own_losses)
		return 0;
	p = realloc(*list, (*n + s->n_own_losses) * sizeof(**list));
	if (!p) {
		free(*list);
		return -ENOMEM;
	}
	*list = p;
	memcpy(*list + *n, s->own_losses, s->n_own_losses * sizeof(**list));
	*n += s->n_own_losses;
	return 0;
}

/* New losses since the last call become LOST rows. */
void session__losses(struct session *s)
{
	/* In the order of time: what is written next is a window old, or older on a busy machine.
	 */
	uint64_t now = s->t_stop ? clock__boot()
				 : MT_MIN(clock__boot() - WINDOW_NS, drain__handed_out(s->drain));
	struct loss *list, news;
	uint64_t total = 0;
	size_t n, i;

	session__sweep(s);
	session__gap_rows(s, now);
	if (s->t_stop)
		session__unseen_rows(s, now);
	if (session__all_losses(s, &list, &n))
		return;
	for (i = 0; i < n; i++) {
		const struct loss *l = &list[i];
		struct lost_row row = { .reason = loss__reason(l->reason),
					.probe = prober__site_name(s->prober, l->site),
					.device = l->device,
					.cpu = l->cpu == NO_CPU ? 0 : l->cpu + 1,
					.physical = loss__is_physical(
						prober__site_fn(s->prober, l->site)),
					.now = s->t_stop ? s->t_stop : now };

		total += l->count;
		if (!losses_told__news(&s->losses_told, l, &news))
			continue;
		row.count = news.count;
		row.first = news.first;
		row.last = news.last;
		if (model__lost(s->model, &row))
			losses_told__add(&s->losses_told, l);
	}
	s->lost_total = total;
	free(list);
}

void session__free_losses(struct session *s)
{
	losses_told__free(&s->losses_told);
	free(s->own_losses);
}
