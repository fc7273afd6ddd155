// SPDX-License-Identifier: Apache-2.0
/* Losses that the table has no room for: their number is told, site by site. */
#include <criterion/criterion.h>

#define bpf_map_get_next_key fake_next_key
#define bpf_map_lookup_elem fake_lookup
#define libbpf_num_possible_cpus fake_cpus
#include "../../user/capture/losses.c" // NOLINT(bugprone-suspicious-include)

enum { LOSSES = 3, STATS };

static const struct mt_loss_key keys[] = { { .site = 1, .reason = MT_LOSS_FAULT, .device = 0 },
					   { .site = 1, .reason = MT_LOSS_FAULT, .device = 1 },
					   { .site = 3, .reason = MT_LOSS_RING, .device = -1 } };
static const uint64_t counts[] = { 10, 5, 7 }; /* on each of two processors */
static const uint64_t lost[] = { 99, 15, 40, 10 }; /* by site, the same */

int libbpf_num_possible_cpus(void)
{
	return 2;
}

int bpf_map_get_next_key(int fd, const void *prev, void *next)
{
	size_t i;

	if (!prev) {
		memcpy(next, &keys[0], sizeof(keys[0]));
		return 0;
	}
	for (i = 0; i + 1 < MT_ARRAY_SIZE(keys); i++)
		if (!memcmp(prev, &keys[i], sizeof(keys[i]))) {
			memcpy(next, &keys[i + 1], sizeof(keys[i]));
			return 0;
		}
	return -ENOENT;
}

int bpf_map_lookup_elem(int fd, const void *key, void *out)
{
	size_t i, k;

	if (fd == STATS) {
		for (i = 0; i < 2; i++)
			((struct mt_site_stat *)out)[i].lost = lost[*(const unsigned int *)key];
		return 0;
	}
	for (k = 0; k < MT_ARRAY_SIZE(keys); k++)
		if (!memcmp(key, &keys[k], sizeof(keys[k])))
			for (i = 0; i < 2; i++)
				((struct mt_loss_val *)out)[i] =
					(struct mt_loss_val){ counts[k], 100, 200 };
	return 0;
}

Test(losses, what_is_not_listed)
{
	struct loss *v;
	size_t n;

	cr_assert_eq(losses__read(LOSSES, &v, &n), 0);
	cr_expect_eq(n, 6);
	free(v);
	/* Site 0 is not of the list, 1 is listed in full, 2 not at all, 3 in part. */
	cr_assert_eq(losses__read_all(LOSSES, STATS, 4, 1000, 2000, &v, &n), 0);
	cr_assert_eq(n, 8);
	cr_expect_eq(v[6].site, 2);
	cr_expect_eq(v[6].count, 80);
	cr_expect_eq(v[7].site, 3);
	cr_expect_eq(v[7].count, 6);
	cr_expect_str_eq(loss__reason(v[7].reason), "not listed");
	cr_expect_eq(v[7].device, -1);
	cr_expect_eq(v[7].cpu, NO_CPU);
	cr_expect_eq(v[7].first, 1000);
	cr_expect_eq(v[7].last, 2000);
	free(v);
}

Test(losses, whose_devices)
{
	cr_expect(!loss__is_physical(MT_FN_PTA_REPORT));
	cr_expect(!loss__is_physical(MT_FN_C10_REPORT));
	cr_expect(!loss__is_physical(MT_FN_PTA_ALLOC));
	cr_expect(!loss__is_physical(MT_FN_PTA_FREE));
	cr_expect(loss__is_physical(MT_FN_HAL_ALLOC));
	cr_expect(loss__is_physical(MT_FN_OOM));
}
