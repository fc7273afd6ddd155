// SPDX-License-Identifier: Apache-2.0
/* A stack walked over a copy of it, by libdw, with the code of a process as it was then. */
#include "symbol/copy_unwind.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbol/elfview.h"

/* Elf files that are open at once: a stack goes through some ten. */
#define MAX_OPEN 64
#define MAX_READS 20000 /* words of a walk: 256 frames take some thousand */

struct module {
	struct copy_space *space;
	uint32_t file;
	bool tried;
	uint64_t bias, start, end;
	struct elf_view view;
	Elf *elf; /* ours, beside the one of libdwfl */
};

struct copy_space {
	struct mt_uw_map *maps;
	size_t n_maps;
	struct module *modules;
	size_t n_modules, n_open;
	struct copy_files files;
	Dwfl *dwfl;
	bool attached;
	bool unread; /* since the last frame something could not be read */
	uint32_t reads; /* of the walk, so far */
	const struct stack_copy *now;
	struct copy_frame *frames;
	uint32_t n, max;
};

/* ---- modules ---- */

bool copy_space__low(int fd, uint64_t *low)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	unsigned int i;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_phentsize != sizeof(ph))
		return false;
	for (i = 0; i < eh.e_phnum; i++) {
		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + i * sizeof(ph))) != sizeof(ph))
			return false;
		if (ph.p_type != PT_LOAD)
			continue;
		/* As libdwfl counts it. */
		*low = ph.p_align ? ph.p_vaddr & -ph.p_align : ph.p_vaddr;
		return true;
	}
	return false;
}

static void open_module(struct module *m)
{
	struct copy_space *s = m->space;
	int fd;

	if (m->tried || s->n_open >= MAX_OPEN)
		return;
	m->tried = true;
	fd = s->files.fd(s->files.ctx, m->file);
	if (fd < 0 || elf_view__map_copy(fd, &m->view))
		return;
	s->n_open++;
	m->elf = elf_memory((char *)m->view.data, m->view.size);
}

/* Opened when a frame is in it: most are in none. */
static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		    char **file_name, Elf **elf)
{
	struct module *m = *userdata;

	(void)mod;
	(void)name;
	(void)base;
	(void)file_name;
	if (m)
		open_module(m);
	if (m && m->elf)
		*elf = elf_begin(-1, ELF_C_READ, m->elf);
	return -1; /* by no descriptor */
}

/* Never from another file: what names one is the target's. */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **out)
{
	(void)mod;
	(void)userdata;
	(void)name;
	(void)base;
	(void)file;
	(void)link;
	(void)crc;
	(void)out;
	return -1;
}

static const Dwfl_Callbacks callbacks = { .find_elf = find_elf, .find_debuginfo = find_debuginfo };

/* Mappings of one file at one place are one module; files side by side are not mixed. */
static void find_modules(struct copy_space *s)
{
	size_t i;

	for (i = 0; i < s->n_maps; i++) {
		const struct mt_uw_map *m = &s->maps[i];
		struct module *last = s->n_modules ? &s->modules[s->n_modules - 1] : NULL;

		if (!m->file)
			continue;
		if (last && last->file == m->file && last->bias == m->bias) {
			last->end = m->end;
			continue;
		}
		s->modules[s->n_modules++] = (struct module){ .space = s,
							      .file = m->file,
							      .bias = m->bias,
							      .start = m->start,
							      .end = m->end };
	}
}

static struct module *module_of(const struct copy_space *s, uint64_t addr)
{
	size_t i;

	for (i = 0; i < s->n_modules; i++)
		if (addr >= s->modules[i].start && addr < s->modules[i].end)
			return &s->modules[i];
	return NULL;
}

/* All at once: libdw 0.188 does not find one that is added while it walks. */
static void report_modules(struct copy_space *s)
{
	char name[32];
	size_t i;

	dwfl_report_begin(s->dwfl);
	for (i = 0; i < s->n_modules; i++) {
		struct module *m = &s->modules[i];
		Dwfl_Module *mod;
		uint64_t low;
		void **data;

		if (!s->files.low(s->files.ctx, m->file, &low) || m->bias + low >= m->end)
			continue;
		snprintf(name, sizeof(name), "%u@%llx", m->file, (unsigned long long)m->bias);
		mod = dwfl_report_module(s->dwfl, name, m->bias + low, m->end);
		if (mod && dwfl_module_info(mod, &data, NULL, NULL, NULL, NULL, NULL, NULL))
			*data = m;
	}
	dwfl_report_end(s->dwfl, NULL, NULL);
}

const struct mt_uw_map *copy_space__map(const struct copy_space *s, uint64_t addr)
{
	size_t lo = 0, hi = s->n_maps;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (addr < s->maps[mid].start)
			hi = mid;
		else if (addr >= s->maps[mid].end)
			lo = mid + 1;
		else
			return &s->maps[mid];
	}
	return NULL;
}

/* ---- a thread that is not there any more ---- */

/* The return address that a probe replaced: the innermost that was entered with sp here or above.
 */
static uint64_t original(const struct mt_copy *c, uint64_t addr)
{
	uint64_t slot = UINT64_MAX, orig = c->trampoline;
	unsigned int i;

	for (i = 0; i < MT_COPY_RETURNS; i++) {
		/* A second probe of a function found the trampoline of the first. */
		if (c->returns[i].slot < addr || c->returns[i].slot >= slot ||
		    c->returns[i].orig == c->trampoline)
			continue;
		slot = c->returns[i].slot;
		orig = c->returns[i].orig;
	}
	return orig;
}

static bool read_stack(const struct stack_copy *c, uint64_t addr, uint64_t *v)
{
	if (addr < c->from || addr - c->from > c->n || c->n - (addr - c->from) < sizeof(*v))
		return false;
	memcpy(v, c->bytes + (addr - c->from), sizeof(*v));
	return true;
}

/* What a file has, and its process cannot have written: from a section that is loaded so. */
static bool read_file(struct copy_space *s, uint64_t addr, uint64_t *v)
{
	struct module *m;
	size_t i;

	m = module_of(s, addr);
	if (m)
		open_module(m);
	for (i = 0; m && i < m->view.nsh; i++) {
		const Elf64_Shdr *sh = &m->view.sh[i];
		uint64_t at = addr - m->bias - sh->sh_addr;

		if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_flags & SHF_WRITE ||
		    sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL || at > sh->sh_size ||
		    sh->sh_size - at < sizeof(*v))
			continue;
		memcpy(v, m->view.data + sh->sh_offset + at, sizeof(*v));
		return true;
	}
	return false;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, void *arg)
{
	struct copy_space *s = arg;
	uint64_t v;

	(void)dwfl;
	/* Expressions of a hostile file may read for ever. */
	if (s->reads++ > MAX_READS || (!read_stack(s->now, addr, &v) && !read_file(s, addr, &v))) {
		s->unread = true;
		return false;
	}
	if (s->now->head.trampoline && v == s->now->head.trampoline)
		v = original(&s->now->head, addr);
#if defined(__aarch64__)
	/* A signed return address; libdw 0.188 leaves the signature in. */
	if (v >> 48 && copy_space__map(s, (v & ((1ULL << 48) - 1)) - 1))
		v &= (1ULL << 48) - 1;
#endif
	*result = v;
	return true;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl;
	(void)tid;
	*thread_arg = arg;
	return true;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	bool first = !*thread_arg;

	(void)dwfl;
	*thread_arg = arg;
	return first ? 1 : 0;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct copy_space *s = arg;
	const uint64_t *r = (const uint64_t *)s->now->head.regs;
	Dwarf_Word words[MT_UW_REGS];
	unsigned int i;

	for (i = 0; i < MT_UW_REGS; i++)
		words[i] = r[i];
#if defined(__aarch64__)
	dwfl_thread_state_register_pc(thread, words[32]);
	return dwfl_thread_state_registers(thread, 0, 32, words);
#else
	return dwfl_thread_state_registers(thread, 0, 17, words);
#endif
}

static const Dwfl_Thread_Callbacks threads = { .next_thread = next_thread,
					       .get_thread = get_thread,
					       .memory_read = memory_read,
					       .set_initial_registers = set_registers };

static int on_frame(Dwfl_Frame *f, void *arg)
{
	struct copy_space *s = arg;
	Dwarf_Addr pc;
	bool exact;

	/* dwfl_frame_pc looks at the caller already. */
	s->unread = false;
	if (s->n == s->max || !dwfl_frame_pc(f, &pc, &exact))
		return DWARF_CB_ABORT;
	/* Out of all code: a wrong turn, not a frame. */
	if (s->n && !copy_space__map(s, pc - !exact))
		return DWARF_CB_ABORT;
	s->frames[s->n++] = (struct copy_frame){ pc, exact };
	return DWARF_CB_OK;
}

int copy_space__unwind(struct copy_space *s, const struct stack_copy *c, struct copy_frame *frames,
		       uint32_t max, bool *root)
{
	int err;

	*root = false;
	s->now = c;
	s->reads = 0;
	s->frames = frames;
	s->n = 0;
	s->max = max;
	/* It looks for a module to know the machine by. */
	if (!s->attached && !dwfl_attach_state(s->dwfl, NULL, 1, &threads, s))
		return -ENOEXEC;
	s->attached = true;
	err = dwfl_getthread_frames(s->dwfl, 1, on_frame, s);
	/* A return address that cannot be read is for libdw the same as one that is not defined. */
	*root = !err && s->n && !s->unread;
	s->now = NULL;
	return (int)s->n;
}

/* ---- */

int copy_space__new(const struct mt_uw_map *maps, size_t n, const struct copy_files *files,
		    struct copy_space **out)
{
	struct copy_space *s = calloc(1, sizeof(*s));

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->files = *files;
	s->n_maps = n;
	s->maps = malloc(n * sizeof(*maps) + 1);
	s->modules = calloc(n + 1, sizeof(*s->modules));
	elf_version(EV_CURRENT);
	s->dwfl = dwfl_begin(&callbacks);
	if (!s->maps || !s->modules || !s->dwfl) {
		copy_space__free(s);
		return -ENOMEM;
	}
	memcpy(s->maps, maps, n * sizeof(*maps));
	find_modules(s);
	report_modules(s);
	*out = s;
	return 0;
}

bool copy_space__is(const struct copy_space *s, const struct mt_uw_map *maps, size_t n)
{
	return s && s->n_maps == n && !memcmp(s->maps, maps, n * sizeof(*maps));
}

void copy_space__free(struct copy_space *s)
{
	size_t i;

	if (!s)
		return;
	if (s->dwfl)
		dwfl_end(s->dwfl);
	for (i = 0; i < s->n_modules; i++) {
		if (s->modules[i].elf)
			elf_end(s->modules[i].elf);
		elf_view__close(&s->modules[i].view);
	}
	free(s->modules);
	free(s->maps);
	free(s);
}
