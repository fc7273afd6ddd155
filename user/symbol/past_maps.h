/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes had mapped a moment ago: a library that was loaded, called and closed again is
 * in no mapping that anybody could read afterwards, but its notice is here. Not thread safe.
 */
#ifndef MEMTAP_SYMBOL_PAST_MAPS_H
#define MEMTAP_SYMBOL_PAST_MAPS_H

#include <sys/types.h>

#include "base/base.h"
#include "memtap/unwind.h"

struct past_map {
	struct mt_uw_map map;
	uint64_t from, until; /* boot time in which it was there, as far as is known */
};

/* By process. Zero-initialise. */
struct past_maps {
	struct hmap by_pid;
};

/* Note one; those of more than some seconds ago are forgotten. 0 or -ENOMEM. */
int past_maps__add(struct past_maps *p, pid_t pid, const struct past_map *m);
/*
 * What a process had mapped at a time: what is known of that time, and for the rest `base`,
 * which was read at another time; sorted, not overlapping, fresh memory. Their number or -ENOMEM.
 */
ssize_t past_maps__at(const struct past_maps *p, pid_t pid, uint64_t time,
		      const struct mt_uw_map *base, size_t n_base, struct mt_uw_map **out);
/*
 * Changes whenever what a process has mapped has changed: by it things that are true of one
 * time are told from those of another.
 */
uint64_t past_maps__epoch(const struct past_maps *p, pid_t pid, uint64_t time);
/* What is known to have been at an address of a process at a time; NULL: nothing is known. */
const struct mt_uw_map *past_maps__address(const struct past_maps *p, pid_t pid, uint64_t time,
					   uint64_t addr);
/* Where a process had a file at a time: the mapping that holds an address of the file. */
const struct mt_uw_map *past_maps__file(const struct past_maps *p, pid_t pid, uint64_t time,
					uint32_t file, uint64_t vaddr);
void past_maps__forget(struct past_maps *p, pid_t pid);
void past_maps__free(struct past_maps *p);

#endif
