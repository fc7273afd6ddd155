// SPDX-License-Identifier: Apache-2.0
/* Which time a window of memtap cut begins and ends at. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/cut.h"

/* Digits of a number at *p, which is moved behind them. */
static int digits(const char **p, uint64_t *v)
{
	char *end;

	if (**p < '0' || **p > '9')
		return -EINVAL;
	errno = 0;
	*v = strtoull(*p, &end, 10);
	*p = end;
	return errno ? -EINVAL : 0;
}

int cut_edge__parse(const char *text, struct cut_edge *e)
{
	const char *p = text;
	uint64_t unit = 100000000;

	if (!strncmp(p, "step:", 5)) {
		p += 5;
		e->kind = EDGE_STEP;
		return digits(&p, &e->value) || *p || !e->value ? -EINVAL : 0;
	}
	if (*p != '+') {
		e->kind = EDGE_TIME;
		return digits(&p, &e->value) || *p ? -EINVAL : 0;
	}
	p++;
	e->kind = EDGE_AFTER;
	if (digits(&p, &e->value) || e->value > UINT64_MAX / 2000000000)
		return -EINVAL;
	e->value *= 1000000000;
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
			e->value += (uint64_t)(*p - '0') * unit;
	}
	return *p ? -EINVAL : 0;
}

struct looking {
	struct steps *steps;
	uint64_t want[2]; /* step to begin with, step to end with; 0 = none */
	uint64_t found[2]; /* times */
};

static int on_item(struct looking *l, const struct item *it)
{
	struct step_change c[2];
	int n = steps__item(l->steps, it, c), i;

	for (i = 0; i < n; i++) {
		if (c[i].begin && c[i].number == l->want[0] && !l->found[0])
			l->found[0] = it->time;
		if (!c[i].begin && c[i].number == l->want[1])
			l->found[1] = it->time + 1;
	}
	return n < 0 ? n : 0;
}

/* One reading of the files for all that has to be known of them. */
static int look(const char *path, struct looking *l, struct texts *texts, uint64_t *first)
{
	const struct in_want want = { .events = 1u << ROW_MSTX | 1u << ROW_SYSTEM };
	struct in_stream *s = NULL;
	struct in_counts counts;
	struct in_set set;
	struct item it;
	int err = in_set__find(path, &set);

	if (err)
		return err;
	err = in_stream__open(&set, &want, texts, &s);
	while (!err && (err = in_stream__next(s, &it)) > 0)
		err = on_item(l, &it);
	if (s) {
		in_stream__counts(s, &counts);
		*first = counts.first;
	}
	in_stream__close(s);
	in_set__free(&set);
	return err;
}

static int edge(const char *path, const struct cut_edge *e, uint64_t first, uint64_t found,
		const char *what, uint64_t *time)
{
	switch (e->kind) {
	case EDGE_TIME:
		*time = e->value;
		return 0;
	case EDGE_AFTER:
		if (__builtin_add_overflow(first, e->value, time))
			*time = UINT64_MAX;
		return 0;
	case EDGE_STEP:
		*time = found;
		if (found)
			return 0;
		pr_err("%s: step %llu does not %s in it: steps are mstx ranges named \"step "
		       "start\"",
		       cli__text(path), (unsigned long long)e->value, what);
		return -ENOENT;
	default:
		return 0;
	}
}

int cut_window__find(const char *path, const struct cut_edge *from, const struct cut_edge *to,
		     struct cut_window *w)
{
	struct looking l = { .want = { from->kind == EDGE_STEP ? from->value : 0,
				       to->kind == EDGE_STEP ? to->value : 0 } };
	struct texts *texts = NULL;
	uint64_t first = 0;
	int err = 0;

	*w = (struct cut_window){ 0, UINT64_MAX };
	if (from->kind > EDGE_TIME || to->kind > EDGE_TIME) {
		texts = texts__new(OFFLINE_TEXTS);
		l.steps = texts ? steps__new(texts) : NULL;
		err = l.steps ? look(path, &l, texts, &first) : -ENOMEM;
	}
	if (!err)
		err = edge(path, from, first, l.found[0], "begin", &w->from);
	if (!err)
		err = edge(path, to, first, l.found[1], "end", &w->to);
	if (!err && w->from >= w->to) {
		pr_err("%s: the window ends before it begins: --from must be earlier than --to",
		       cli__text(path));
		err = -EINVAL;
	}
	steps__free(l.steps);
	texts__free(texts);
	return err;
}
