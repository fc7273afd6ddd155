// SPDX-License-Identifier: Apache-2.0
/*
 * Processes and the programs that they run one after the other: a thread (stack_thread.c) reads
 * their mappings and interpreters; births, execs and ends are told meanwhile, and may be told
 * later than a look at the process shows them.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"
#include "target/target.h"

#define RETRY_NS 200000000ULL

/* ---- programs of a process; with the lock held ---- */

struct sproc *stacks__newest(const struct stacks *s, uint32_t tgid, uint32_t start)
{
	uint64_t *v = hmap__get(&s->by_proc, (struct hkey){ tgid, start });

	return v ? (struct sproc *)(uintptr_t)*v : NULL;
}

struct sproc *stacks__proc(struct stacks *s, uint32_t tgid, uint32_t start, uint64_t time)
{
	struct sproc *p = stacks__newest(s, tgid, start);

	while (p && p->since > time && p->older)
		p = p->older;
	return p;
}

static struct sproc *keep(struct stacks *s, pid_t pid, uint32_t start, uint64_t since)
{
	void *more = realloc(s->procs, (s->n_procs + 1) * sizeof(*s->procs));
	struct sproc *p;

	if (!more)
		return NULL;
	s->procs = more;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->start = start;
	p->since = since;
	p->why = MT_PY_NOT_READY;
	p->no = ++s->last_proc_no;
	s->procs[s->n_procs++] = p;
	return p;
}

/* What it runs from a time on; what it ran before is still there for what happened then. */
static struct sproc *next_program(struct stacks *s, pid_t pid, uint32_t start, uint64_t since)
{
	struct sproc *old = stacks__newest(s, (uint32_t)pid, start),
		     *p = keep(s, pid, start, since);
	uint64_t *v = p ? hmap__put(&s->by_proc, (struct hkey){ (uint64_t)pid, start }, NULL)
			: NULL;

	if (!v)
		return NULL; /* it is freed with the others */
	*v = (uint64_t)(uintptr_t)p;
	p->older = old;
	if (old)
		old->over = true;
	return p;
}

/* What it runs by a look at it: another program than before, if an exec has not been told yet. */
static struct sproc *program(struct stacks *s, pid_t pid, uint32_t start, uint64_t id)
{
	struct sproc *p = stacks__newest(s, (uint32_t)pid, start);

	if (!p || (p->id && id && p->id != id)) {
		bool untold = p;

		p = next_program(s, pid, start, untold ? clock__boot() : 0);
		if (p)
			p->untold = untold;
	}
	if (p && id)
		p->id = id;
	return p;
}

/* The youngest process of a number. */
static struct sproc *latest(struct stacks *s, pid_t pid)
{
	size_t i;

	for (i = s->n_procs; i-- > 0;)
		if (s->procs[i]->pid == pid && !s->procs[i]->over)
			return s->procs[i];
	return NULL;
}

static void set_parent(struct sproc *p, struct sproc *from)
{
	p->parent = from->py ? from : from->parent;
	if (p->parent)
		p->parent->children++;
}

/* As its parent: its mappings, and its code objects, are where the parent's are. */
static void inherit(struct sproc *p, struct sproc *from)
{
	if (!p->maps) {
		p->maps = malloc(from->n_maps * sizeof(*p->maps) + 1);
		p->n_maps = p->maps ? from->n_maps : 0;
		if (p->n_maps)
			memcpy(p->maps, from->maps, p->n_maps * sizeof(*p->maps));
	}
	p->id = from->id;
	if (!p->parent)
		set_parent(p, from);
	p->read = true;
}

/* ---- the thread that reads processes ---- */

/* Tells the programs apart that a process runs: where its stack begins is chosen by each exec. */
static uint64_t program_id(pid_t pid)
{
	unsigned long long v = 0;
	char path[32], *buf, *p;
	ssize_t n;
	int field;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	n = file__read(path, 4096, &buf);
	if (n < 0)
		return 0;
	p = strrchr(buf, ')');
	for (field = 2; p && field < 28; field++) /* startstack, proc_pid_stat(5) */
		p = strchr(p + 1, ' ');
	if (!p || sscanf(p, " %llu", &v) != 1)
		v = 0;
	free(buf);
	return v;
}

/* The interpreter, and what the programs need of it. *silent: its memory does not answer. */
static struct python *open_python(struct stacks *s, pid_t pid, bool *silent)
{
	const struct mt_py_offsets *o;
	struct python *py;
	uint32_t key = (uint32_t)pid;
	int err = stack_names__open(s, pid, &py);

	*silent = err == -ETIMEDOUT;
	if (*silent)
		pr_warn("pid %d: its interpreter cannot be looked at: its memory, or a file that "
			"it maps, does not answer (userfaultfd, or a file system that hangs); its "
			"Python stacks have no names",
			(int)pid);
	if (err)
		return NULL;
	o = python__offsets(py);
	if (bpf_map_update_elem(s->opts.maps.py_procs, &key, o, BPF_ANY))
		pr_debug("pid %d: its interpreter cannot be shown to the programs: %s", (int)pid,
			 strerror(errno));
	pr_debug("pid %d: %s", (int)pid, python__text(py));
	return py;
}

static bool python_settled(unsigned int why)
{
	return why != MT_PY_NOT_READY && why != MT_PY_NO_INTERPRETER && why != MT_PY_UNVERIFIED;
}

/* What the process had mapped, and has no more. */
static void keep_vanished(struct stacks *s, const struct sproc *p)
{
	struct past_map gone = { .until = clock__boot() };
	uint32_t i, j = 0;

	for (i = 0; i < p->n_maps; i++) {
		const struct mt_uw_map *m = &p->maps[i];

		while (j < s->n_fresh && s->fresh_maps[j].start < m->start)
			j++;
		if (!m->file || (j < s->n_fresh && s->fresh_maps[j].start == m->start &&
				 s->fresh_maps[j].file == m->file))
			continue;
		gone.map = *m;
		past_maps__add(&s->past, p->pid, &gone);
	}
}

/* With the lock held: what was read is of this program. Returns what is to be closed. */
static struct python *publish(struct stacks *s, struct sproc *p, bool maps, struct python *py)
{
	struct python *old = NULL;

	if (maps && s->fresh_maps) {
		keep_vanished(s, p);
		free(p->maps);
		p->maps = s->fresh_maps;
		p->n_maps = s->n_fresh;
		s->fresh_maps = NULL;
	}
	p->read = true;
	if (py) {
		old = p->py;
		p->py = py;
		p->why = python__why(py);
	}
	return old;
}

uint64_t stacks__stamp(struct stacks *s, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint64_t n = 0, *told;

	bpf_map_lookup_elem(s->opts.maps.changes, &key, &n);
	pthread_mutex_lock(&s->lock);
	told = hmap__get(&s->told, (struct hkey){ key, 0 });
	n += told ? *told : 0;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* With the lock held. */
static bool wants_python(const struct stacks *s, const struct sproc *p, uint64_t id)
{
	if (!s->opts.python || (p && p->silent && p->id == id))
		return false;
	return !p || !p->py || !python_settled(p->why) || (p->id && p->id != id);
}

/*
 * Its interpreter, its mappings, and some of the tables that these need: what is left is asked
 * for again, behind what others wait for.
 */
void stacks__read(struct stacks *s, pid_t pid)
{
	uint64_t id = program_id(pid), again = 0, began, spent = 0;
	bool want_python, silent = false;
	struct python *py = NULL;
	struct sproc *p;
	uint32_t start;
	int err = 0;

	if (proc__start(pid, &start))
		return;
	pthread_mutex_lock(&s->lock);
	want_python = wants_python(s, stacks__newest(s, (uint32_t)pid, start), id);
	pthread_mutex_unlock(&s->lock);
	if (want_python)
		py = open_python(s, pid, &silent);
	s->stamp = stacks__stamp(s, pid);
	s->read_old = false;
	if (s->opts.c) {
		began = clock__boot();
		err = unwind_store__look(s->unwind, pid, &again);
		/* Tables are made once. */
		spent = again ? 0 : clock__boot() - began;
	}
	if (err)
		pr_debug("pid %d: its mappings cannot be read: %s", (int)pid, strerror(-err));
	pthread_mutex_lock(&s->lock);
	stacks__charge(s, pid, spent);
	if (program_id(pid) != id) {
		/* An exec or its end in between. */
		s->read_old = true;
	} else {
		p = program(s, pid, start, id);
		if (p && silent && !p->silent) {
			p->silent = true;
			s->silent++;
		}
		if (p)
			py = publish(s, p, !err, py);
	}
	if (again)
		stacks__ask_at(s, pid, again);
	if (s->read_old)
		stacks__ask(s, pid);
	if (s->unwind)
		unwind_store__stats(s->unwind, &s->unwind_stats);
	pthread_mutex_unlock(&s->lock);
	python__close(py);
}

void stacks__forget_process(struct stacks *s, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	if (s->unwind)
		unwind_store__forget(s->unwind, pid);
	pthread_mutex_lock(&s->lock);
	hmap__del(&s->told, (struct hkey){ key, 0 }, NULL);
	if (s->unwind)
		unwind_store__stats(s->unwind, &s->unwind_stats);
	pthread_mutex_unlock(&s->lock);
	if (s->opts.python)
		bpf_map_delete_elem(s->opts.maps.py_procs, &key);
}

/* ---- what is told ---- */

void stacks__process(struct stacks *s, pid_t pid)
{
	pthread_mutex_lock(&s->lock);
	stacks__ask(s, pid);
	pthread_mutex_unlock(&s->lock);
}

void stacks__forked(struct stacks *s, pid_t parent, pid_t pid, uint32_t start)
{
	struct sproc *from, *p, *first;

	pthread_mutex_lock(&s->lock);
	from = latest(s, parent);
	if (!from || !from->read)
		goto out;
	p = stacks__newest(s, (uint32_t)pid, start);
	if (!p) {
		p = next_program(s, pid, start, 0);
		if (p)
			inherit(p, from);
	} else if (p->id == from->id) {
		if (!p->parent)
			set_parent(p, from);
	} else if (!p->older) {
		/* A mapping of its next program was told first, and it was looked at then. */
		first = keep(s, pid, start, 0);
		if (first) {
			inherit(first, from);
			first->over = true;
			p->older = first;
			p->since = clock__boot();
			p->untold = true;
		}
	}
out:
	stacks__ask(s, pid);
	pthread_mutex_unlock(&s->lock);
}

void stacks__exec(struct stacks *s, pid_t pid, uint32_t start, uint64_t time)
{
	struct sproc *p;

	pthread_mutex_lock(&s->lock);
	p = stacks__newest(s, (uint32_t)pid, start);
	if (p && p->untold) {
		p->since = time;
		p->untold = false;
	} else {
		next_program(s, pid, start, time);
	}
	/* The programs have forgotten the old one by themselves (procs__exec). */
	stacks__ask(s, pid);
	pthread_mutex_unlock(&s->lock);
}

void stacks__gone(struct stacks *s, pid_t pid)
{
	struct sproc *p;

	pthread_mutex_lock(&s->lock);
	p = latest(s, pid);
	if (p) {
		p->gone = true;
		p->gone_at = clock__boot();
	}
	stacks__ask_forget(s, pid);
	pthread_mutex_unlock(&s->lock);
}

bool stacks__has_ended(const struct stacks *s, pid_t pid)
{
	size_t i;

	for (i = s->n_procs; i-- > 0;)
		if (s->procs[i]->pid == pid && s->procs[i]->gone)
			return true;
	return false;
}

void stacks__retry(struct stacks *s, uint64_t now)
{
	size_t i;

	pthread_mutex_lock(&s->lock);
	for (i = 0; i < s->n_procs; i++) {
		struct sproc *p = s->procs[i];

		if (p->gone || p->over || !p->read || p->silent || now < p->next_try ||
		    python_settled(p->why))
			continue;
		/* An interpreter starts in milliseconds or never; it may be loaded just now. */
		if (p->why == MT_PY_NO_INTERPRETER && p->tries > 5)
			continue;
		p->next_try = now + (RETRY_NS << MT_MIN(p->tries, 8u));
		p->tries++;
		stacks__ask(s, p->pid);
	}
	pthread_mutex_unlock(&s->lock);
}
