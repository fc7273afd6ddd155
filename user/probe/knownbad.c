// SPDX-License-Identifier: Apache-2.0
/* Defects of kernels that trying would trigger: by release, with the fixing commit. */
#include "probe/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/base.h"

#define R(a, b, c) ((a) << 16 | (b) << 8 | (c))

static const struct {
	const char *text;
	struct {
		unsigned int from, before; /* releases; 0, 0: no more */
	} in[6];
} defects[KNOWNBAD_MAX] = {
	/*
	 * tracers.md R68: seccomp filters see the uretprobe() system call of commit
	 * ff474a78cef5 (6.11) and kill the process; let through by commit cf6cb56ef244.
	 */
	[KNOWNBAD_URETPROBE_SECCOMP] = { "return probes kill processes with a seccomp filter on "
					 "this kernel (6.11 to 6.12.13, "
					 "6.13 to 6.13.2)",
					 { { R(6, 11, 0), R(6, 12, 14) },
					   { R(6, 13, 0), R(6, 13, 3) } } },
	/*
	 * tracers.md R73: since commit cfa7f3d2c526 (6.12, stable 6.1.113, 6.6.55, 6.10.14,
	 * 6.11.3) the walk of a user stack looks at what uprobes know of the thread, which is
	 * freed under it when the thread ends; commit b583ef82b671 (6.13, stable 6.1.131,
	 * 6.6.83, 6.12.19). No profiler of ours is needed for that, any will do.
	 */
	[KNOWNBAD_UTASK_RACE] = { "this kernel can panic when a probed process ends while another "
				  "profiler (perf, BPF) "
				  "takes its stacks, unless commit b583ef82b671 is in it (in "
				  "6.1.131, 6.6.83, 6.12.19): "
				  "run none beside memtap",
				  { { R(6, 1, 113), R(6, 1, 131) },
				    { R(6, 6, 55), R(6, 6, 83) },
				    { R(6, 10, 14), R(6, 11, 0) },
				    { R(6, 11, 3), R(6, 12, 19) } } },
};

/* a.b.c as a number; 0 on anything else. */
static unsigned int number(const char *text)
{
	unsigned int a, b, c = 0;

	if (sscanf(text, "%u.%u.%u", &a, &b, &c) < 2 || a > 255)
		return 0;
	return R(a, MT_MIN(b, 255u), MT_MIN(c, 255u));
}

/*
 * Debian's names of a stable series end in 0 (6.1.0-30): "#1 SMP … Debian 6.1.124-1" in
 * the version is what it is.
 */
static unsigned int release_of(const char *release, const char *version)
{
	const char *debian = strstr(version, "Debian ");
	unsigned int a = number(release), b = debian ? number(debian + 7) : 0;

	return a >> 8 == b >> 8 ? MT_MAX(a, b) : a; /* of one series */
}

const char *knownbad__in(enum knownbad which, const char *machine, const char *release,
			 const char *version)
{
	unsigned int r = release_of(release, version), i;
	const char *env = getenv("MEMTAP_KNOWNBAD");

	/* Both are about code of x86 alone. */
	if (strcmp(machine, "x86_64") != 0 || (env && strcmp(env, "ignore") == 0))
		return NULL;
	for (i = 0; i < MT_ARRAY_SIZE(defects[which].in); i++)
		if (r >= defects[which].in[i].from && r < defects[which].in[i].before)
			return defects[which].text;
	return NULL;
}

const char *knownbad__here(enum knownbad which)
{
	struct utsname u;

	if (uname(&u))
		return NULL;
	return knownbad__in(which, u.machine, u.release, u.version);
}
