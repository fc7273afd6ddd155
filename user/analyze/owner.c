// SPDX-License-Identifier: Apache-2.0
/* The words of owners (msleaks.md 8): which of them say something of the kind of memory. */
#include "analyze/internal.h"

size_t owner__weak(const char *owner, enum row_type type, bool refine)
{
	const char *const weak[] = { "PTA@ops@aten", "PTA@ops", row_type__name(type) };
	size_t i, n;

	if (owner[0] == '@')
		return 0;
	for (i = 0; refine && i < MT_ARRAY_SIZE(weak); i++) {
		n = strlen(weak[i]);
		if (strncmp(owner, weak[i], n) != 0 || (owner[n] && owner[n] != '@'))
			continue;
		/* PTA@model@weight and PTA@weight say more than the pool. */
		if (i < 2 || (strncmp(owner + n, "@model@", 7) != 0 &&
			      strncmp(owner + n, "@weight", 7) != 0 &&
			      strncmp(owner + n, "@gradient", 9) != 0 &&
			      strncmp(owner + n, "@optimizer_state", 16) != 0))
			return n;
	}
	return SIZE_MAX;
}

const char *owner__of_pool(enum row_type type)
{
	return type == ROW_HAL ? "CANN" : row_type__name(type);
}
