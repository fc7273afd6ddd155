// SPDX-License-Identifier: Apache-2.0
/* What the stand-ins for the vendor's preloaded libraries share: counted calls, told at exit. */
#ifndef SIM_HOOKS_H
#define SIM_HOOKS_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

/* A line "<name> <calls>" of SIM_HOOKS_LOG.<pid> for each function that was called. */
struct hook_count {
	const char *name;
	atomic_ulong calls;
};

static inline void hook_counts_write(const struct hook_count *c, size_t n)
{
	const char *base = getenv("SIM_HOOKS_LOG");
	char path[4096];
	FILE *f;

	if (!base ||
	    (size_t)snprintf(path, sizeof(path), "%s.%d", base, (int)getpid()) >= sizeof(path))
		return;
	f = fopen(path, "a");
	if (!f)
		return;
	for (size_t i = 0; i < n; i++)
		if (c[i].calls)
			fprintf(f, "%s %lu\n", c[i].name, (unsigned long)c[i].calls);
	fclose(f);
}

/* The function behind a hook: its library may have been loaded for its users alone. */
static inline void *hook_real(const char *name)
{
	static const char *const libs[] = { "libascend_hal.so", "libacl_rt_impl.so",
					    "libruntime.so" };
	void *fn = dlsym(RTLD_NEXT, name);

	for (size_t i = 0; !fn && i < sizeof(libs) / sizeof(libs[0]); i++) {
		void *h = dlopen(libs[i], RTLD_NOW | RTLD_NOLOAD);

		fn = h ? dlsym(h, name) : NULL;
	}
	if (!fn)
		abort();
	return fn;
}

#endif
