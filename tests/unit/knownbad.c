// SPDX-License-Identifier: Apache-2.0
/* Kernels with known defects, by what uname says of them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "probe/probe.h"

static bool has(enum knownbad which, const char *release)
{
	return knownbad__in(which, "x86_64", release, "#1 SMP") != NULL;
}

/* Lists of releases that end with NULL. */
static void check(enum knownbad which, const char *const *bad, const char *const *good)
{
	for (; *bad; bad++)
		cr_expect(has(which, *bad), "%s", *bad);
	for (; *good; good++)
		cr_expect(!has(which, *good), "%s", *good);
}

Test(knownbad, uretprobe_seccomp)
{
	static const char *const bad[] = { "6.11.0", "6.11.11-1.el9", "6.12.0", "6.12.13-amd64",
					   "6.13", "6.13.2-arch1-1", NULL };
	static const char *const good[] = { "6.10.14", "6.12.14", "6.12.74+deb13-amd64", "6.13.3",
					    "6.14.0", "5.10.0-34-amd64", "7.0.0", "nonsense", "", NULL };

	check(KNOWNBAD_URETPROBE_SECCOMP, bad, good);
	cr_expect_null(knownbad__in(KNOWNBAD_URETPROBE_SECCOMP, "aarch64", "6.12.0", "#1"));
}

Test(knownbad, utask_race)
{
	static const char *const bad[] = { "6.1.113", "6.1.130", "6.6.55", "6.6.58-talos",
					   "6.6.77-amd64-desktop-hwe", "6.10.14", "6.11.3", "6.11.11",
					   "6.12.0", "6.12.18", NULL };
	static const char *const good[] = { "6.1.112", "6.1.131", "6.6.54", "6.6.83", "6.6.84",
					    "6.10.13", "6.11.2", "6.12.19", "6.13.0", "6.18.44",
					    "5.15.0-130-generic", "6.8.0-52-generic", NULL };

	check(KNOWNBAD_UTASK_RACE, bad, good);
	cr_expect_null(knownbad__in(KNOWNBAD_UTASK_RACE, "aarch64", "6.6.58", "#1"));
}

/* Debian's kernels of a stable series all have one name. */
Test(knownbad, debian)
{
	cr_expect(knownbad__in(KNOWNBAD_UTASK_RACE, "x86_64", "6.1.0-30-amd64",
			       "#1 SMP PREEMPT_DYNAMIC Debian 6.1.124-1 (2025-01-12)"));
	cr_expect_null(knownbad__in(KNOWNBAD_UTASK_RACE, "x86_64", "6.1.0-34-amd64",
				    "#1 SMP PREEMPT_DYNAMIC Debian 6.1.135-1 (2025-04-25)"));
	/* Of another series than the release says: not of this kernel. */
	cr_expect_null(knownbad__in(KNOWNBAD_UTASK_RACE, "x86_64", "6.18.1",
				    "#1 SMP Debian 6.1.124-1"));
}

Test(knownbad, override)
{
	cr_expect(has(KNOWNBAD_URETPROBE_SECCOMP, "6.12.0"));
	setenv("MEMTAP_KNOWNBAD", "ignore", 1);
	cr_expect(!has(KNOWNBAD_URETPROBE_SECCOMP, "6.12.0"));
	cr_expect(!has(KNOWNBAD_UTASK_RACE, "6.12.0"));
}
