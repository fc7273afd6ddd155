// SPDX-License-Identifier: Apache-2.0
/*
 * Names of the frames of Python stacks, from the memory of their process. That may be served by
 * somebody who never does (userfaultfd, FUSE): so it is read by another thread, without any lock,
 * and given up when that takes too long.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/stacks_internal.h"

/* A stack takes 0.1 ms, or 100 pages from a swap disk; a machine that is overloaded, more. */
#define NAMING_MS 1000
#define OPENING_MS 2000

/* Whose code objects a frame's may be. */
enum { OWN, PARENT, NOBODY };

struct named {
	bool found, own;
	uint32_t at, len; /* in text */
};

struct name_job {
	struct deadline_job job;
	struct python *py[2]; /* its own, its parent's; NULL */
	int reading; /* which of them now; NOBODY: and none any more */
	uint32_t n;
	struct mt_py_frame frames[MT_PY_DEPTH];
	struct named out[MT_PY_DEPTH];
	struct strbuf text;
};

static void job__free(struct name_job *j)
{
	python__close(j->py[OWN]);
	python__close(j->py[PARENT]);
	strbuf__free(&j->text);
	free(j);
}

/* Go on to an interpreter, unless the job has been given up: then it may be somebody else's. */
static bool turn_to(struct name_job *j, int which)
{
	int was = __atomic_load_n(&j->reading, __ATOMIC_ACQUIRE);

	return was != NOBODY && __atomic_compare_exchange_n(&j->reading, &was, which, false,
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Its own interpreter, or while that is not known the one that it has from its parent. */
static bool name_of(struct name_job *j, const struct mt_py_frame *f, struct python_name *name)
{
	int i;

	for (i = OWN; i <= PARENT; i++)
		if (j->py[i] && !python__is_silent(j->py[i]) && turn_to(j, i) &&
		    !python__name(j->py[i], f, name))
			return true;
	return false;
}

static void run(struct deadline_job *job)
{
	struct name_job *j = (struct name_job *)job;
	struct python_name name;
	uint32_t i;

	for (i = 0; i < j->n; i++) {
		struct named *to = &j->out[i];

		if (!name_of(j, &j->frames[i], &name))
			continue;
		to->found = true;
		to->own = name.own;
		to->at = (uint32_t)j->text.len;
		if (name.line)
			strbuf__printf(&j->text, "%s(%d): %s", name.file, name.line, name.name);
		else
			strbuf__printf(&j->text, "%s(NA): %s", name.file, name.name);
		to->len = (uint32_t)j->text.len - to->at;
	}
}

static void drop(struct deadline_job *job)
{
	job__free((struct name_job *)job);
}

static bool has_base(const struct python *py)
{
	return py && python__offsets(py)->base;
}

static bool is_mute(const struct name_job *j)
{
	return (j->py[OWN] && python__is_silent(j->py[OWN])) ||
	       (j->py[PARENT] && python__is_silent(j->py[PARENT]));
}

/* It is late: what it reads is not read any more, what it has not come to may be. */
static void give_up(struct name_job *j, struct python *const py[2], pid_t pid)
{
	int which = __atomic_exchange_n(&j->reading, NOBODY, __ATOMIC_ACQ_REL);

	python__silence(py[which]);
	pr_warn("pid %d: its memory does not answer (userfaultfd, or a file system that hangs): "
		"the functions of its Python stacks have no names from here on",
		(int)pid);
}

/* NULL: no memory, or there is nothing to be had. */
static struct name_job *read_names(struct stacks *s, const struct mt_pywalk *r,
				   struct python *const py[2])
{
	struct name_job *j = calloc(1, sizeof(*j));
	int err;

	if (!j)
		return NULL;
	j->job = (struct deadline_job){ run, drop };
	j->py[OWN] = python__share(py[OWN]);
	j->py[PARENT] = python__share(py[PARENT]);
	j->n = r->s.n;
	memcpy(j->frames, r->s.frame, r->s.n * sizeof(r->s.frame[0]));
	err = deadline__run(&s->naming, &j->job, NAMING_MS);
	if (err == -ETIMEDOUT) {
		give_up(j, py, (pid_t)r->h.tgid);
		s->unanswered += r->s.n;
		return NULL;
	}
	if (err || j->text.failed) {
		s->unanswered += err == -EBUSY ? r->s.n : 0;
		job__free(j);
		return NULL;
	}
	return j;
}

/* The frames of a stack that are shown. */
struct shown {
	uint32_t n, lines[MT_PY_DEPTH];
	uint8_t begins[MT_PY_DEPTH];
	uint32_t begins_behind;
};

/* False: a frame that is not shown. */
static bool line_of(struct stacks *s, const struct name_job *j, uint32_t i, uint32_t *line)
{
	*line = 0;
	if (!j || !j->out[i].found) {
		s->unnamed++;
		s->unanswered += j && is_mute(j);
		return true;
	}
	if (j->out[i].own)
		return false;
	*line = stack_store__line(&s->store, j->text.data + j->out[i].at, j->out[i].len);
	return true;
}

static void show_frames(struct stacks *s, const struct mt_pywalk *r, const struct name_job *j,
			bool base, struct shown *out)
{
	uint32_t i, begins = 0;

	out->n = 0;
	for (i = 0; i < r->s.n; i++) {
		begins += (uint32_t)(r->s.frame[i].code >> MT_PY_BEGINS_SHIFT);
		if (!line_of(s, j, i, &out->lines[out->n]))
			continue;
		out->begins[out->n++] = (uint8_t)MT_MIN(begins, UINT8_MAX);
		begins = 0;
	}
	begins += r->s.begins;
	/* From 3.15 on a thread has a shim of its own around all. */
	if (r->s.why == MT_PY_OK && begins && base)
		begins--;
	out->begins_behind = MT_MIN(begins, UINT8_MAX);
}

int stack_names__define(struct stacks *s, const struct mt_pywalk *r, size_t size, bool *later)
{
	struct python *py[2] = { NULL, NULL };
	struct name_job *j = NULL;
	struct shown shown;
	struct sproc *p;
	struct kept *k;
	bool silent = false;
	int err = 0;

	if (!r->s.n || r->s.n > MT_PY_DEPTH || r->s.why >= MT_PY_WHY_MAX ||
	    size < offsetof(struct mt_pywalk, s.frame) + r->s.n * sizeof(r->s.frame[0]))
		return -EBADMSG;
	pthread_mutex_lock(&s->lock);
	p = stacks__proc(s, r->h.tgid, r->h.start, r->h.time);
	if (*later && !(p && (p->py || p->parent || p->silent))) {
		err = -EAGAIN;
	} else if (p) {
		py[OWN] = python__share(p->py);
		py[PARENT] = python__share(p->parent ? p->parent->py : NULL);
		silent = !p->py && p->silent;
	}
	pthread_mutex_unlock(&s->lock);
	if (err)
		return err;
	*later = false;
	err = stack_store__known(&s->store, (const uint64_t *)r->hash, true);
	if (err) {
		err = stacks__not_added(s, err);
		goto out;
	}
	stack_store__trim(&s->store);
	if (py[OWN] || py[PARENT])
		j = read_names(s, r, py);
	else if (silent)
		s->unanswered += r->s.n;
	show_frames(s, r, j, has_base(py[OWN] ? py[OWN] : py[PARENT]), &shown);
	k = stack_store__add(&s->store, (const uint64_t *)r->hash, true, shown.n, &err);
	if (!k)
		goto out;
	k->end = (uint8_t)r->s.why;
	k->begins = (uint8_t)shown.begins_behind;
	memcpy(k->lines, shown.lines, shown.n * sizeof(shown.lines[0]));
	memcpy(kept__begins(k), shown.begins, shown.n);
out:
	if (j)
		job__free(j);
	python__close(py[OWN]);
	python__close(py[PARENT]);
	return err;
}

/* ---- interpreters ---- */

struct open_job {
	struct deadline_job job;
	pid_t pid;
	struct python *py;
	int err;
};

static void open_run(struct deadline_job *job)
{
	struct open_job *j = (struct open_job *)job;

	j->err = python__open(j->pid, &j->py);
}

static void open_drop(struct deadline_job *job)
{
	struct open_job *j = (struct open_job *)job;

	if (!j->err)
		python__close(j->py);
	free(j);
}

int stack_names__open(struct stacks *s, pid_t pid, struct python **out)
{
	struct open_job *j = calloc(1, sizeof(*j));
	int err;

	if (!j)
		return -ENOMEM;
	j->job = (struct deadline_job){ open_run, open_drop };
	j->pid = pid;
	j->err = -ENODATA;
	err = deadline__run(&s->opening, &j->job, OPENING_MS);
	if (err == -ETIMEDOUT)
		return err;
	if (!err)
		err = j->err;
	if (!err)
		*out = j->py;
	free(j);
	return err;
}
