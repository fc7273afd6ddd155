// SPDX-License-Identifier: Apache-2.0
/* Debug files of what is mapped, from debuginfod: before anything is captured, for a bounded time.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "symbol/elfview.h"
#include "symbol/stacks_internal.h"

/* Is there anything that a debug file would add? */
static bool wanting(struct stacks *s, const struct file_id *id)
{
	int fd, debug_fd;
	struct elf_view v;
	bool names, sources;

	if (id->kind != FILE_ID_BUILD || symbols__files(s->symbols, id, &fd, &debug_fd) ||
	    debug_fd >= 0 || elf_view__map(fd, &v))
		return false;
	names = elf_view__section(&v, NULL, SHT_SYMTAB);
	sources = elf_view__has(&v, ".debug_info");
	elf_view__close(&v);
	return !names || (s->opts.lines && !sources);
}

/* The file of a number, from 0; false: there are no more. */
static bool next_file(struct stacks *s, uint32_t i, struct file_id *id, char *path, size_t n)
{
	bool there;

	id->kind = FILE_ID_NONE;
	pthread_mutex_lock(&s->lock);
	there = i < s->n_files;
	if (there) {
		stack_cell__meet(s, &s->files[i]);
		if (s->files[i].known)
			*id = s->files[i].id;
		snprintf(path, n, "%s", s->files[i].path ? s->files[i].path : "?");
	}
	pthread_mutex_unlock(&s->lock);
	return there;
}

int stacks__fetch(struct stacks *s, unsigned int ms, bool (*stop)(void *ctx), void *ctx,
		  unsigned int *asked)
{
	uint64_t end = clock__boot() + ms * 1000000ULL, now;
	char path[256];
	struct file_id id;
	int found = 0, fd;
	uint32_t i;

	*asked = 0;
	for (i = 0; next_file(s, i, &id, path, sizeof(path)); i++) {
		if (!wanting(s, &id))
			continue;
		now = clock__boot();
		if (now >= end)
			return found ? found : -ETIME;
		++*asked;
		fd = debuginfod__fetch(&id, (unsigned int)((end - now) / 1000000) + 1, stop, ctx);
		if (fd == -EOPNOTSUPP || fd == -EINTR)
			return fd;
		if (fd >= 0 && !symbols__debug(s->symbols, &id, fd))
			found++;
		pr_debug("debuginfod: %s: %s", path, fd < 0 ? strerror(-fd) : "found");
		if (fd >= 0)
			close(fd);
	}
	return found;
}
