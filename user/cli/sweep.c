// SPDX-License-Identifier: Apache-2.0
/* Calls that will never return: their threads are gone. Else they fill the map of open calls. */
#include "cli/session.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#define SWEEP_NS 60000000000ULL
#define OLD_NS 3600000000000ULL
#define MAX_STEPS 65536 /* calls that end meanwhile may make the walk begin anew */

/* No such thread, or a younger one with its number, or a return that was missed. */
static bool is_over(uint32_t tid, uint64_t begin, uint64_t now)
{
	uint32_t start;
	int err;

	if (begin + OLD_NS < now)
		return true;
	/* /proc/TID is there for threads too; ticks are of 10 ms, low 32 bits. */
	err = proc__start((pid_t)tid, &start);
	return err ? err == -ENOENT || err == -ESRCH
		   : (int32_t)(start - (uint32_t)(begin / 10000000)) > 0;
}

static void sweep(struct session *s, int fd, uint64_t now)
{
	struct mt_inflight_key key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next);
	struct mt_inflight f;
	unsigned int left = MAX_STEPS;

	while (more && left--) {
		key = next;
		/* Before it may go: behind a key that is not there the walk begins anew. */
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (!bpf_map_lookup_elem(fd, &key, &f) && is_over(key.tid, f.begin, now) &&
		    !bpf_map_delete_elem(fd, &key))
			s->swept++;
	}
}

void session__sweep(struct session *s)
{
	const char *env = getenv("MEMTAP_SWEEP_MS"); /* tests */
	uint64_t now = clock__boot(), period = env ? strtoull(env, NULL, 10) * 1000000 : SWEEP_NS;

	/* The keys hold numbers of the initial PID namespace, which are not seen in another. */
	if (s->cfg.pidns_inum || now - MT_MAX(s->t_swept, s->t_start) < period)
		return;
	sweep(s, progs__map(s->progs, "inflight"), now);
	s->t_swept = clock__boot();
}
