// SPDX-License-Identifier: Apache-2.0
/* Simulated driver: failures and delays on demand, each switched on by an environment variable. */
#include "hal_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct every {
	_Atomic long n; /* -1: not read yet, 0: off */
	_Atomic long seen;
};

static struct every huge = { -1, 0 }, frees = { -1, 0 }, creates = { -1, 0 }, nested = { -1, 0 },
		    slow = { -1, 0 };
static long slow_us;

static int every(struct every *e, const char *name)
{
	if (atomic_load_explicit(&e->n, memory_order_relaxed) < 0) {
		const char *v = getenv(name);
		long n = v ? strtol(v, NULL, 0) : 0;

		atomic_store(&e->n, n > 0 ? n : 0);
	}
	if (atomic_load_explicit(&e->n, memory_order_relaxed) == 0)
		return 0;
	return (atomic_fetch_add(&e->seen, 1) + 1) % e->n == 0;
}

int fault_huge(void)
{
	return every(&huge, "SIM_FAIL_HUGE");
}

int fault_free(void)
{
	return every(&frees, "SIM_FAIL_FREE");
}

int fault_create(void)
{
	return every(&creates, "SIM_FAIL_CREATE");
}

int fault_nested(void)
{
	return every(&nested, "SIM_NESTED");
}

/* SIM_SLOW_US=n:us - every nth allocation or free takes us microseconds more. */
void fault_slow(void)
{
	if (slow.n < 0) {
		const char *v = getenv("SIM_SLOW_US");
		long n = 0, us = 0;

		if (v && sscanf(v, "%ld:%ld", &n, &us) == 2)
			slow_us = us;
		else
			n = 0;
		slow.n = n > 0 ? n : 0;
	}
	if (every(&slow, "SIM_SLOW_US")) {
		struct timespec ts = { slow_us / 1000000, slow_us % 1000000 * 1000 };

		nanosleep(&ts, NULL);
	}
}
