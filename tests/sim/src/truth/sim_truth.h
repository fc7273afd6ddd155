// SPDX-License-Identifier: Apache-2.0
/* What the simulated libraries call to put a call or an event into the ground truth. */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SIM_T_OUT = 1 << 0, /* out: the address or handle that the call gave or took */
	SIM_T_SIZE = 1 << 1,
	SIM_T_DEV = 1 << 2,
	SIM_T_STREAM = 1 << 3,
	SIM_T_SID = 1 << 4, /* sid: the id behind the stream pointer */
	SIM_T_TOTALS = 1 << 5, /* alloc, reserved, active */
	SIM_T_ATYPE = 1 << 6, /* atype: 0 inner, 1 external */
	SIM_T_NORET = 1 << 7, /* void function, or an event that is no call */
	SIM_T_USED = 1 << 8, /* bytes in use as the pool counts them */
};

#define SIM_T_MAXARGS 8

/* Handed over by value and copied; fn must be a string constant, name may be anything. */
struct sim_truth_rec {
	const char *fn;
	const char *name;
	uint64_t t0, t1;
	int64_t ret;
	uint64_t out;
	uint64_t size;
	uint64_t stream;
	int64_t alloc, reserved, active;
	uint64_t args[SIM_T_MAXARGS];
	int32_t device;
	int32_t sid;
	uint16_t has;
	uint8_t nargs;
	uint8_t atype;
};

extern int sim_truth_enabled;

void sim_truth_put(const struct sim_truth_rec *rec);
/* Writes what is in memory; called at exit, call it yourself before _exit() or exec. */
void sim_truth_flush(void);
/* 0 off, 1 on; on needs SIM_TRUTH in the environment at load time or a path here. */
int sim_truth_start(const char *path);

static inline uint64_t sim_truth_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* 0 when the truth is off: the caller then skips its record. */
static inline uint64_t sim_truth_begin(void)
{
	if (__builtin_expect(sim_truth_enabled, 0))
		return sim_truth_now();
	return 0;
}

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* SIM_TRUTH(t0, "halMemFree", ARGS(p), .ret = rc) */
#define SIM_NARGS_(a, b, c, d, e, f, g, h, n, ...) n
#define SIM_NARGS(...) SIM_NARGS_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SIM_ARGS(...) .nargs = SIM_NARGS(__VA_ARGS__), .args = { __VA_ARGS__ }
#define SIM_TRUTH(t, func, ...)                                                             \
	do {                                                                                \
		if (__builtin_expect((t) != 0, 0)) {                                        \
			struct sim_truth_rec r_ = { .fn = (func), .t0 = (t), __VA_ARGS__ }; \
			r_.t1 = sim_truth_now();                                            \
			sim_truth_put(&r_);                                                 \
		}                                                                           \
	} while (0)
#define U64(x) ((uint64_t)(uintptr_t)(x))
#endif
#endif
