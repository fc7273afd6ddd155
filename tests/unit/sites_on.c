// SPDX-License-Identifier: Apache-2.0
/* The sites of a batch go on with the returns first, whatever their numbers. */
#include <criterion/criterion.h>

#define bpf_map_update_elem fake_update
#define progs__map fake_map
#include "../../user/probe/prober.c" // NOLINT(bugprone-suspicious-include)

static unsigned int order[16];
static size_t n;

int progs__map(const struct progs *p, const char *name)
{
	cr_assert_str_eq(name, "sites");
	return 3;
}

int bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	const struct mt_site *s = value;

	cr_assert_eq(s->flags & MT_SITE_OFF, 0);
	order[n++] = *(const unsigned int *)key;
	return 0;
}

Test(prober, returns_go_on_first)
{
	struct prober *pr = calloc(1, sizeof(*pr));
	size_t i;

	cr_assert(pr);
	/* An earlier batch; `ret` sites before their entry (C++, Python); an entry before its return. */
	pr->n_sites = 7;
	for (i = 0; i < pr->n_sites; i++)
		pr->sites[i].cfg.flags = MT_SITE_OFF;
	pr->sites[2].is_return = pr->sites[3].is_return = pr->sites[6].is_return = true;
	sites__on(pr, 2);
	cr_assert_eq(n, 5);
	for (i = 0; i < 3; i++)
		cr_expect(pr->sites[order[i]].is_return, "site %u is no return", order[i]);
	for (; i < n; i++)
		cr_expect(!pr->sites[order[i]].is_return, "site %u is a return", order[i]);
	cr_expect_eq(pr->sites[1].cfg.flags, MT_SITE_OFF);
	free(pr);
}
