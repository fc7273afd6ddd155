// SPDX-License-Identifier: Apache-2.0
/*
 * The interpreter of a process: its file, its release, the layout of its
 * memory; and the checks that what the layout says is what the memory holds.
 */
#include "symbol/python.h"

#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "probe/elf.h"
#include "probe/pymethod.h"
#include "target/target.h"

#define MAX_FILES 16 /* of those that may hold an interpreter */
#define MAX_TRIED 64 /* files with Python in their names: a target may map any number */
/* The target runs on while it is looked at: a frame may have gone when it is read. */
#define TRIES 20
#define PAUSE_NS 2000000
/* From 3.13 on it describes itself, as soon as its data is mapped (ascend-abi.md 3.1). */
#define DESCRIBED_FROM 13

struct candidate {
	char path[PATH_MAX];
	struct elf_image *img;
	uint64_t bias, runtime;
	unsigned int rank; /* lowest first */
};

struct lookup {
	struct python *py;
	char exe[PATH_MAX];
	uint64_t exe_ino;
	struct candidate *c;
	size_t n, tried;
	uint64_t last; /* of those, by its number */
	int trouble; /* first -errno of a file that could not be looked into */
	char trouble_path[PATH_MAX];
};

static void say(struct python *py, enum mt_py_why why, const char *fmt, ...) MT_PRINTF(3, 4);

static void say(struct python *py, enum mt_py_why why, const char *fmt, ...)
{
	va_list ap;

	py->why = why;
	py->offsets.why = (uint8_t)why;
	va_start(ap, fmt);
	vsnprintf(py->text, sizeof(py->text), fmt, ap);
	va_end(ap);
}

/* Where the segment of a mapping would be without relocation; false: no such segment. */
static bool bias_of(const struct elf_image *img, const struct mapping *m, uint64_t *bias)
{
	size_t i;

	for (i = 0; i < img->nsegs; i++) {
		const struct elf_seg *s = &img->segs[i];

		/* The mapping starts at the page of the segment's first byte, up to 64 KiB. */
		if (m->offset > s->off || s->off - m->offset >= 65536 || !(s->flags & PF_X))
			continue;
		*bias = m->start - m->offset - (s->vaddr - s->off);
		return true;
	}
	return false;
}

static bool find_runtime(const struct elf_image *img, uint64_t *vaddr)
{
	/* The section has only the runtime in it (from 3.13), also in stripped files. */
	return !py_elf__data(img, "_PyRuntime", vaddr) ||
	       !py_elf__section(img, ".PyRuntime", vaddr);
}

/* The executable, a shared libpython, and what bears Python in its name (embedders' plugins). */
static int rank_of(const struct lookup *l, const struct mapping *m)
{
	const char *base = strrchr(m->path, '/') + 1;

	/* By its number too: in another root the link's text is another path. */
	if (strcmp(m->path, l->exe) == 0 || (m->ino && m->ino == l->exe_ino))
		return 0;
	if (!fnmatch("libpython3*.so*", base, 0))
		return 1;
	return fnmatch("*python*", base, 0) ? -1 : 2;
}

static int look_file(void *ctx, const struct mapping *m)
{
	struct lookup *l = ctx;
	struct candidate *c = &l->c[l->n];
	int rank = rank_of(l, m), fd, err;
	uint64_t runtime, id = m->ino ^ (uint64_t)m->dev_major << 52 ^ (uint64_t)m->dev_minor << 44;
	size_t i;

	if (rank < 0)
		return 0;
	/* Extension modules lie in lib-dynload and end so. */
	if (rank == 2 && strstr(m->path, ".cpython-"))
		return 0;
	for (i = 0; i < l->n; i++)
		if (strcmp(l->c[i].path, m->path) == 0)
			return 0;
	/* Segments of a file stand next to each other. */
	if (id == l->last || l->tried == MAX_TRIED)
		return 0;
	l->last = id;
	l->tried++;
	fd = mapping__open(l->py->proc.pid, m);
	err = fd < 0 ? fd : elf_image__open_fd(fd, m->path, &c->img);
	if (fd >= 0)
		close(fd);
	if (err) {
		if (!l->trouble) {
			l->trouble = err;
			snprintf(l->trouble_path, sizeof(l->trouble_path), "%s", m->path);
		}
		return 0;
	}
	if (!find_runtime(c->img, &runtime) || !bias_of(c->img, m, &c->bias)) {
		elf_image__close(c->img);
		return 0;
	}
	snprintf(c->path, sizeof(c->path), "%s", m->path);
	c->runtime = c->bias + runtime;
	c->rank = (unsigned int)rank;
	return ++l->n == MAX_FILES;
}

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* 3.N: told by a constant (from 3.11), else by names: of the library, the file, what is mapped. */
static unsigned int minor_of(const struct python *py, const struct candidate *c)
{
	const char *names[2] = { elf_image__soname(c->img), strrchr(c->path, '/') + 1 };
	const uint8_t *p;
	uint64_t vaddr;
	unsigned int minor;
	size_t i;
	int m;

	if (!py_elf__data(c->img, "Py_Version", &vaddr)) {
		p = elf_image__at(c->img, vaddr, 8);
		if (p && rd64(p) >> 24 == 3)
			return PY_MINOR(rd64(p));
	}
	for (i = 0; i < 2; i++) {
		const char *s = names[i] ? strstr(names[i], "python3.") : NULL;

		if (s && sscanf(s, "python3.%u", &minor) == 1)
			return minor;
	}
	m = pymethod__python_minor(c->path, py->proc.pid);
	return m > 0 ? (unsigned int)m : 0;
}

static int find_layout(struct python *py, const struct candidate *c)
{
	uint8_t head[PY_DEBUG_OFFSETS_SIZE];
	unsigned int minor;
	int err;

	if (py_mem__read(py->mem, c->runtime, head, sizeof(head)))
		memset(head, 0, sizeof(head)); /* small: then it describes nothing either */
	err = py_layout__described(head, sizeof(head), &py->layout);
	if (err == -ENOENT) {
		minor = minor_of(py, c);
		if (minor >= DESCRIBED_FROM) {
			say(py, MT_PY_NOT_READY, "CPython 3.%u in %s is being loaded", minor,
			    c->path);
			return -EAGAIN;
		}
		err = py_layout__table(minor, elf_image__machine(c->img), &py->layout);
		if (err && minor) {
			say(py, MT_PY_UNKNOWN_VERSION,
			    "CPython 3.%u in %s: its layout is not known, only that of 3.8 to 3.15",
			    minor, c->path);
			return err;
		}
	}
	if (err == -ENOTSUP && py->layout.version)
		say(py, py->layout.free_threaded ? MT_PY_FREE_THREADED : MT_PY_UNKNOWN_VERSION,
		    "CPython %u.%u in %s: its layout is not known, only that of 3.8 to 3.15",
		    py->layout.version >> 24, PY_MINOR(py->layout.version), c->path);
	else if (err)
		say(py, MT_PY_UNKNOWN_VERSION, "CPython in %s: its release cannot be told",
		    c->path);
	return err;
}

/* Is this a code object with a name and a file that can be read? */
static bool is_code(struct python *py, uint64_t code)
{
	struct strbuf text = { 0 };
	char type[8];
	uint64_t obj;
	bool ok;

	ok = !py_object__type(py->mem, &py->layout, code, type, sizeof(type)) &&
	     strcmp(type, "code") == 0 &&
	     !py_mem__u64(py->mem, code + py->layout.code_name, &obj) &&
	     !py_object__str(py->mem, &py->layout, obj, &text, 4096) &&
	     !py_mem__u64(py->mem, code + py->layout.code_file, &obj) &&
	     !py_object__str(py->mem, &py->layout, obj, &text, 65536) && text.len;
	strbuf__free(&text);
	return ok;
}

/* 1: a frame was seen and is one; 0: none runs Python; -1: what was seen is none. */
static int check_frames(struct python *py, const struct py_thread_state *t, size_t n)
{
	struct mt_py_stack *s = malloc(sizeof(*s));
	int seen = 0;
	size_t i;

	if (!s)
		return -1;
	for (i = 0; i < n && i < 64 && seen != 1; i++) {
		py_walk__state(py->mem, &py->offsets, t[i].addr, MT_PY_DEPTH, s);
		if (!s->n) {
			if (s->why == MT_PY_UNREADABLE)
				seen = -1;
			continue;
		}
		/* The outermost stays while the inner ones come and go. */
		seen = is_code(py, s->frame[s->n - 1].code & MT_PY_CODE) ? 1 : -1;
	}
	free(s);
	return seen;
}

/* Do the numbers that the interpreter has of its threads belong to threads of the process? */
static bool check_numbers(const struct python *py, const struct py_thread_state *t, size_t n)
{
	char path[64];
	size_t i;

	if (!py->offsets.native_id)
		return false;
	for (i = 0; i < n; i++) {
		/* Of another PID namespace: the first thread's number there is known at least. */
		snprintf(path, sizeof(path), "/proc/%d/task/%u", (int)py->proc.pid,
			 (unsigned int)t[i].native);
		if (t[i].native &&
		    (!access(path, F_OK) || t[i].native == proc__nspid(py->proc.pid)))
			return true;
	}
	return false;
}

static bool try_layout(struct python *py, const struct candidate *c)
{
	struct py_thread_state *t = calloc(PY_MAX_THREADS, sizeof(*t));
	struct mt_py_offsets *o = &py->offsets;
	const char *where;
	ssize_t n = -ENOMEM;
	int frames = -1;

	if (t)
		n = py_threads__read(py->mem, o, t, PY_MAX_THREADS);
	if (n == -EAGAIN || n == 0) {
		say(py, MT_PY_NOT_READY, "CPython in %s is not initialised yet", c->path);
		goto out;
	}
	if (n > 0)
		frames = check_frames(py, t, (size_t)n);
	if (n < 0 || frames < 0) {
		say(py, MT_PY_UNVERIFIED,
		    "CPython 3.%u in %s: its memory is not as the layout %s says",
		    PY_MINOR(py->layout.version), c->path,
		    py->layout.described ? "it describes" : "of this release");
		goto out;
	}
	if (py_slot__find(py, c->img, c->bias, t, (size_t)n) && !check_numbers(py, t, (size_t)n)) {
		say(py, MT_PY_UNVERIFIED,
		    "CPython 3.%u in %s: where its threads keep their state was not found",
		    PY_MINOR(py->layout.version), c->path);
		goto out;
	}
	where = o->find == MT_PY_FIND_LIST   ? "the interpreter's list"
		: o->find == MT_PY_FIND_SLOT ? "a slot of the thread"
					     : "a block of the thread";
	say(py, MT_PY_OK, "CPython 3.%u%s in %s, layout %s, thread states in %s%s",
	    PY_MINOR(py->layout.version),
	    /* With copies of the code for each thread, from 3.14 on: by its headers, never run. */
	    py->layout.code_tlbc       ? " (free-threaded, untried)"
	    : py->layout.free_threaded ? " (free-threaded)"
				       : "",
	    c->path, py->layout.described ? "described by itself" : "of the table", where,
	    frames ? "" : "; no thread runs Python now");
out:
	free(t);
	return py->why == MT_PY_OK;
}

static void use_candidate(struct python *py, const struct candidate *c)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t none;
	int i;

	py->runtime = c->runtime;
	if (find_layout(py, c))
		return;
	if (!py_layout__offsets(&py->layout, c->runtime, &py->offsets)) {
		say(py, MT_PY_UNVERIFIED, "CPython 3.%u in %s: it describes an impossible layout",
		    PY_MINOR(py->layout.version), c->path);
		return;
	}
	if (!py_elf__data(c->img, "_Py_NoneStruct", &none))
		py->offsets.none = c->bias + none;
	py_loop__find(c->img, c->bias, &py->loop);
	for (i = 0; i < TRIES && !try_layout(py, c); i++) {
		if (py->why == MT_PY_NOT_READY)
			return;
		nanosleep(&pause, NULL);
	}
}

int python__open(pid_t pid, struct python **out)
{
	struct python *py = calloc(1, sizeof(*py));
	struct lookup l = { .py = py };
	struct stat st;
	char link[64];
	ssize_t n;
	size_t i;
	int r;

	if (py)
		l.c = calloc(MAX_FILES, sizeof(*l.c));
	if (!l.c) {
		free(py);
		return -ENOMEM;
	}
	py_process__open(&py->proc, pid);
	py->mem = &py->proc.mem;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, l.exe, sizeof(l.exe) - 1);
	l.exe[MT_MAX(n, 0)] = '\0';
	if (!stat(link, &st))
		l.exe_ino = st.st_ino;
	r = proc__each_mapping(pid, look_file, &l);
	if (r < 0)
		say(py, MT_PY_PROCESS_GONE, "process %d: %s", (int)pid, strerror(-r));
	else if (l.trouble)
		say(py, MT_PY_NO_INTERPRETER, "process %d: no interpreter found, and %s: %s",
		    (int)pid, l.trouble_path, strerror(-l.trouble));
	else
		say(py, MT_PY_NO_INTERPRETER, "process %d runs no Python", (int)pid);
	/* Several may be mapped, of which one runs. */
	qsort(l.c, l.n, sizeof(*l.c), by_rank);
	for (i = 0; i < l.n && py->why != MT_PY_OK; i++)
		use_candidate(py, &l.c[i]);
	for (i = 0; i < l.n; i++)
		elf_image__close(l.c[i].img);
	free(l.c);
	*out = py;
	return 0;
}

struct python *python__share(struct python *py)
{
	if (py)
		__atomic_add_fetch(&py->others, 1, __ATOMIC_RELAXED);
	return py;
}

void python__silence(struct python *py)
{
	__atomic_store_n(&py->silent, true, __ATOMIC_RELEASE);
}

bool python__is_silent(const struct python *py)
{
	return __atomic_load_n(&py->silent, __ATOMIC_ACQUIRE);
}

void python__close(struct python *py)
{
	if (!py || __atomic_fetch_sub(&py->others, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	pycodes__free(py->codes);
	py_process__close(&py->proc);
	free(py);
}

const struct mt_py_offsets *python__offsets(const struct python *py)
{
	return &py->offsets;
}

unsigned int python__why(const struct python *py)
{
	return py->why;
}

bool python__has_loop(const struct python *py)
{
	return py->loop.n > 0;
}

bool python__in_loop(const struct python *py, uint64_t addr)
{
	return py_loop__has(&py->loop, addr);
}

const char *python__text(const struct python *py)
{
	return py->text;
}

ssize_t python__threads(struct python *py, struct python_thread *t, size_t max)
{
	struct py_thread_state *s;
	ssize_t n, i;

	if (py->why != MT_PY_OK)
		return -ENODATA;
	s = calloc(max ? max : 1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	n = py_threads__read(py->mem, &py->offsets, s, max);
	for (i = 0; i < n; i++)
		t[i] = (struct python_thread){ .pointer = s[i].id - (uint64_t)py->offsets.self,
					       .tid = (uint32_t)s[i].native };
	free(s);
	return n;
}

void python__walk(struct python *py, const struct python_thread *t, uint32_t max,
		  struct mt_py_stack *out)
{
	py_walk__memory(py->mem, &py->offsets, t->pointer, t->tid, max, out);
}
