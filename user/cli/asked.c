// SPDX-License-Identifier: Apache-2.0
/* What programs ask a recording for, and what probes need not do while nothing is collected. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/msleaks_options.h"
#include "cli/session.h"

int asked__mode(const char *word, bool *paused)
{
	*paused = !strcmp(word, "custom") || !strcmp(word, "deferred");
	return *paused || !strcmp(word, "full") || !strcmp(word, "immediate") ? 0 : -EINVAL;
}

#define MAX_TOLD 20 /* messages about config() */

/* ---- labels of blocks ---- */

void asked__label(void *ctx, uint32_t tgid, enum row_type type, uint64_t addr, const char *label)
{
	static bool told;
	struct session *s = ctx;
	int err = out__label(s->out, tgid, type, addr, label);

	if (!err || err == -ENOENT) { /* its rows are written: before a stop, or it is filtered */
		s->labels_lost += err != 0;
		return;
	}
	s->labels_lost++;
	if (told)
		return;
	told = true;
	pr_warn("pid %u: label '%s' of a block: %s", tgid, cli__text(label),
		err == -ENOTSUP ? "its row is written already; with --order=block rows wait for "
				  "what becomes of their block"
				: strerror(-err));
}

/* ---- config() ---- */

static void tell_config(uint32_t tgid, const char *option, const char *why)
{
	static unsigned int told;

	/* A program may call it in a loop. */
	if (told++ >= MAX_TOLD)
		return;
	pr_warn("pid %u: config('%s'): %s", tgid, cli__text(option), why);
}

static void one_config(struct session *s, uint32_t tgid, char *option, struct model_wants *w)
{
	const char *value = strchr(option, '=');
	bool none = false, traceback = false;
	struct model_wants old = *w;
	int err = 0;

	if (strncmp(option, "--", 2) != 0 || !value) {
		tell_config(tgid, option, "no option with a value");
		return;
	}
	value++;
	if (!strncmp(option, "--level=", 8)) {
		err = msleaks_list__level(value, &w->level);
	} else if (!strncmp(option, "--events=", 9)) {
		err = msleaks_list__events(value, &w->events, &none, &traceback);
	} else if (!strncmp(option, "--device=", 9)) {
		w->npus = w->cpu = false;
		w->npu_slots = 0;
		err = msleaks_list__device(value, &w->npus, &w->npu_slots, &w->cpu);
	} else {
		tell_config(tgid, option,
			    "cannot be changed in a recording that runs; give it to memtap");
		return;
	}
	if (err) {
		*w = old;
		tell_config(tgid, option, "the value is not valid");
	} else if (w->level & ~s->opts.level || w->events & ~s->opts.events) {
		tell_config(tgid, option,
			    "asks for more than memtap was started with; that is not recorded");
		w->level &= s->opts.level;
		w->events &= s->opts.events;
	}
}

void asked__config(void *ctx, uint32_t tgid, const char *text, size_t len,
		   struct model_wants *wants)
{
	char *copy = strndup(text, len), *word, *save = NULL;

	/* An option a line. */
	for (word = copy ? strtok_r(copy, "\n", &save) : NULL; word;
	     word = strtok_r(NULL, "\n", &save))
		one_config(ctx, tgid, word, wants);
	free(copy);
}

/* ---- launches and stacks while paused ---- */

static void write_pause(struct session *s, uint64_t at)
{
	uint32_t zero = 0;

	if (s->cfg.pause_at == at)
		return;
	s->cfg.pause_at = at;
	if (bpf_map_update_elem(s->cfg_fd, &zero, &s->cfg, BPF_ANY))
		pr_debug("pause: %s", strerror(errno));
}

void asked__resume(struct session *s)
{
	write_pause(s, 0);
}

void asked__tick(struct session *s)
{
	/*
	 * The programs count starts as they see them, and pause only while their count is ours: a
	 * start that is on its way to us has ended the pause already.
	 */
	if (model__all_paused(s->model) && !control__starts(s))
		write_pause(s, model__starts(s->model) + 1);
	else
		write_pause(s, 0);
}
