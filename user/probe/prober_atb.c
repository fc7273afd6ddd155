// SPDX-License-Identifier: Apache-2.0
/* Probes of ATB: whether they can be read, and what their programs are to know. */
#include <errno.h>
#include <stdio.h>

#include "probe/prober.h"

int atb__check(const struct batch *b, const struct probe_def *d, struct probe_report *rep)
{
	bool known = d->fn == MT_FN_ATB_RUN	 ? b->atb.operation
		     : d->fn == MT_FN_ATB_LAUNCH ? b->atb.kernel
						 : true;

	if (known)
		return 0;
	snprintf(rep->why, sizeof(rep->why), "%s", b->atb.why ? b->atb.why : "not understood");
	return -ENOTSUP;
}

void atb__site(const struct batch *b, const struct probe_def *d, struct mt_site *s)
{
	const struct prober_opts *o = &b->pr->opts;

	if (d->fn == MT_FN_ATB_RUN ? o->atb_access : o->kernel_access)
		s->flags |= MT_SITE_ACCESS;
	switch (d->fn) {
	case MT_FN_ATB_POOL:
		s->off[0] = b->atb.mstx;
		break;
	case MT_FN_ATB_RUN:
		s->off[0] = b->atb.operation;
		break;
	case MT_FN_ATB_LAUNCH:
		s->off[0] = b->atb.kernel;
		s->off[1] = b->atb.in;
		s->off[2] = b->atb.stride;
		s->off[3] = b->atb.out;
		break;
	default:
		break;
	}
}
