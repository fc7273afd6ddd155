// SPDX-License-Identifier: Apache-2.0
/* mstx markers around steps; now and then with text that is hard to write into a CSV file. */
#include "sim.h"

#include <stdio.h>

static const char *const odd[] = {
	"loss, \"quoted\"",  "two\nlines",
	"comma,comma,comma", "tab\there",
	"percent %s %d",     "caf\xc3\xa9 \xe6\xad\xa5",
	"{json: [1, 2]}",    "",
};

void marks_step_begin(struct worker *w, uint64_t *range)
{
	*range = lib.mstxRangeStartA("step start", w->stream);
}

void marks_step_end(struct worker *w, uint64_t range)
{
	char text[64];

	if (w->steps % 5 == 0) {
		snprintf(text, sizeof(text), "rank %d thread %d step %llu", w->rank, w->id,
			 (unsigned long long)w->steps);
		lib.mstxMarkA(text, w->stream);
	}
	if (w->steps % 7 == 3)
		lib.mstxMarkA(odd[w->steps / 7 % (sizeof(odd) / sizeof(odd[0]))], NULL);
	if (w->steps % 11 == 5) {
		void *d = lib.mstxDomainCreateA("sim");
		uint64_t id = lib.mstxDomainRangeStartA(d, "in a domain", w->stream);

		lib.mstxDomainMarkA(d, "domain mark", NULL);
		lib.mstxDomainRangeEnd(d, id);
	}
	lib.mstxRangeEnd(range);
}
