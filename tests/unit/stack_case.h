/* SPDX-License-Identifier: Apache-2.0 */
/* A stored stack (data-stacks/README.md), as the test reads and walks it. */
#ifndef MEMTAP_UNIT_STACK_CASE_H
#define MEMTAP_UNIT_STACK_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <memtap/unwind.h>

#define CASE_FRAMES (MT_UW_MAX_FRAMES + 2)
#define CASE_ANY 1 /* a frame of which only is known that it is there */

struct stack_case {
	char arch[16], what[64];
	uint64_t pc, sp, fp, lr, more[17];
	/* Maps, pages, rows (one chunk) and rules, as the unwinder finds them. */
	struct mt_uw_map *maps;
	struct mt_uw_page *pages;
	struct mt_uw_chunk *rows;
	struct mt_uw_rule *rules;
	uint32_t n_maps, n_pages, n_rows;
	struct case_bytes {
		uint64_t addr;
		size_t n;
		uint8_t *bytes;
	} * memory;
	size_t n_memory;
	uint64_t frames[CASE_FRAMES];
	uint32_t n_frames;
	int end, guessed;
};

struct case_walk {
	uint64_t frames[CASE_FRAMES];
	uint32_t n;
	int end, guessed;
	uint32_t in_runs; /* frames that need no step of their own once they are remembered */
	bool same; /* and they lead to the same */
};

/* NULL: not such a file; *line is where it stops being one. */
struct stack_case *stack_case__read(const char *path, int *line);
void stack_case__free(struct stack_case *c);
/* The unwinder of one architecture, compiled for this one. */
void stack_case__walk_x86(const struct stack_case *c, struct case_walk *w);
void stack_case__walk_arm64(const struct stack_case *c, struct case_walk *w);

#endif
