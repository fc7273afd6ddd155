// SPDX-License-Identifier: Apache-2.0
/* Executable file mappings of a process and the files behind them. */
#include "target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "target/root.h"

/* \040 and the like: the kernel escapes newline only, but be exact. */
static void unescape(char *s)
{
	char *d = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] == '0' && s[2] == '1' && s[3] == '2') {
			*d++ = '\n';
			s += 3;
		} else {
			*d++ = *s;
		}
	}
	*d = '\0';
}

static int each_mapping(pid_t pid, bool all, int (*fn)(void *ctx, const struct mapping *m),
			void *ctx)
{
	char path[64], root[PATH_MAX], *line = NULL;
	size_t cap = 0;
	FILE *f;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	if (root__text(pid, root))
		root[0] = '\0';
	/* Line by line, executable ones only: processes with 100 k mappings exist (R67). */
	while (!r && getline(&line, &cap, f) > 0) {
		unsigned long long start, end, off, ino;
		unsigned int maj, min;
		struct mapping m;
		char perm[8];
		int at = 0;
		size_t n;

		if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, perm, &off, &maj,
			   &min, &ino, &at) < 7 ||
		    perm[2] != 'x' || !at || (line[at] != '/' && !all))
			continue;
		n = strlen(line);
		if (n && line[n - 1] == '\n')
			line[n - 1] = '\0';
		m = (struct mapping){ .start = start,
				      .end = end,
				      .offset = off,
				      .ino = ino,
				      .dev_major = maj,
				      .dev_minor = min,
				      .path = line + at };
		n = strlen(m.path);
		if (n > 10 && strcmp(m.path + n - 10, " (deleted)") == 0) {
			m.deleted = true;
			line[at + (int)n - 10] = '\0';
		}
		unescape(line + at);
		m.outside = *m.path == '/' && root__inside(root, line + at) != 0;
		r = fn(ctx, &m);
	}
	free(line);
	fclose(f);
	return r;
}

int proc__each_mapping(pid_t pid, int (*fn)(void *ctx, const struct mapping *m), void *ctx)
{
	return each_mapping(pid, false, fn, ctx);
}

int proc__each_code(pid_t pid, int (*fn)(void *ctx, const struct mapping *m), void *ctx)
{
	return each_mapping(pid, true, fn, ctx);
}

/* By its path there may be another file by now: bound over it, or put in its place. */
static bool is_file_of(int fd, const struct mapping *m)
{
	struct stat st;

	if (!m->ino)
		return true;
	if (fstat(fd, &st))
		return false;
	/* maps may tell the number of the file below (tracers.md R55). */
	return st.st_ino == m->ino || fd__on_overlay(fd);
}

int mapping__open(pid_t pid, const struct mapping *m)
{
	char buf[128];
	int fd;

	snprintf(buf, sizeof(buf), "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	fd = open(buf, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	/* No CAP_CHECKPOINT_RESTORE, or the mapping was just changed. */
	if (m->deleted || m->outside)
		return -errno;
	fd = proc__open(pid, m->path);
	if (fd >= 0 && !is_file_of(fd, m)) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

bool path__is_stub(const char *path)
{
	/* ascend-abi.md 1.2: devlib/ and lib64/stub/ hold link-time stubs. */
	return strstr(path, "/devlib/") || strstr(path, "/stub/");
}
