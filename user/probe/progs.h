/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by progs.c, which loads programs, and clone.c, which makes them ready to attach. */
#ifndef MEMTAP_PROBE_PROGS_H
#define MEMTAP_PROBE_PROGS_H

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "memtap/event.h"
#include "probe/probe.h"

/* A program of a loaded object. */
struct prog {
	const char *name; /* in its object */
	struct bpf_program *base;
	char *why; /* not loaded: reason */
	bool lazy; /* not wanted so far: loaded when it is */
	bool ready; /* loaded as it will be attached: needs no clone */
	uint32_t attach_type, mode; /* of one that is ready */
};

struct clone {
	const struct prog *prog;
	uint32_t attach_type, site;
	int fd;
};

struct progs {
	const struct features *features;
	struct progs_opts opts;
	size_t whole; /* which object has all programs */
	const char *no_stacks; /* why they walk no call stacks */
	char verdict[320];
	struct bpf_object **objs;
	size_t n_objs;
	struct prog *progs;
	size_t n_progs;
	struct clone *clones;
	size_t n_clones;
	const struct prog *mains[MT_MAX_MAINS]; /* by index in the map `mains` */
	uint32_t n_mains;
	struct bpf_link *life[4];
	size_t n_life;
};

/* By its name, loaded if it was left out so far; NULL if there is none. */
const struct prog *progs__find(struct progs *p, const char *name);
/* Give every `rX = magic` another value. */
void prog__patch(struct bpf_insn *insns, size_t n, uint32_t magic, uint32_t value);

#endif
