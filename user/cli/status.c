// SPDX-License-Identifier: Apache-2.0
/* The live line on a terminal: events a second, losses, pools. Quiet otherwise. */
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool shown;

void status__clear(void)
{
	if (!shown)
		return;
	shown = false;
	(void)fd__write_all(STDERR_FILENO, "\r\033[K", 4);
}

void status__draw(struct session *s)
{
	static uint64_t last_events, last_time;
	struct pool_state *pools;
	struct drain_stats d;
	uint64_t now = clock__boot();
	char line[256];
	size_t n, i;
	int len;

	if (s->opts.quiet || !isatty(STDERR_FILENO))
		return;
	drain__stats(s->drain, &d);
	pools = model__pool_list(s->model, &n);
	len = snprintf(line, sizeof(line), "\r\033[K%.0f s  %llu events (%.0f/s)  lost %llu",
		       (double)(now - s->t_attached) / 1e9, (unsigned long long)d.received,
		       last_time ? (double)(d.received - last_events) * 1e9 /
					   (double)(now - last_time)
				 : 0.0,
		       (unsigned long long)s->lost_total);
	for (i = 0; i < n && len < 120; i++) {
		if (!pools[i].used)
			continue;
		len += snprintf(line + len, sizeof(line) - (size_t)len, "  %s %d: %s",
				row_type__name(pools[i].type), (int)pools[i].device,
				cli__bytes(pools[i].used));
	}
	free(pools);
	last_events = d.received;
	last_time = now;
	log__set_hook(status__clear);
	(void)fd__write_all(STDERR_FILENO, line, MT_MIN((size_t)len, sizeof(line) - 1));
	shown = true;
}
