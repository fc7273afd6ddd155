// SPDX-License-Identifier: Apache-2.0
/* Ground truth for extension modules, which link to nothing: the recorder is looked up if loaded.
 */
#ifndef SIM_PY_TRUTH_H
#define SIM_PY_TRUTH_H

#include "../truth/sim_truth.h"

#include <dlfcn.h>
#include <string.h>

static void (*py_truth_put)(const struct sim_truth_rec *);

static int py_truth_on(void)
{
	static int *enabled;
	static int looked;

	if (!looked) {
		enabled = dlsym(RTLD_DEFAULT, "sim_truth_enabled");
		*(void **)&py_truth_put = dlsym(RTLD_DEFAULT, "sim_truth_put");
		looked = 1;
	}
	return enabled && py_truth_put && *enabled;
}

static uint64_t py_truth_begin(void)
{
	return py_truth_on() ? sim_truth_now() : 0;
}

static void py_truth_note(uint64_t t0, const char *fn, const char *text, uint64_t id, int isvoid)
{
	struct sim_truth_rec r = { .fn = fn, .name = text, .t0 = t0, .t1 = sim_truth_now() };

	r.ret = (int64_t)id;
	r.nargs = 1;
	r.args[0] = id;
	r.has = isvoid ? SIM_T_NORET : 0;
	py_truth_put(&r);
}

#endif
