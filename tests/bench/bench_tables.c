// SPDX-License-Identifier: Apache-2.0
/*
 * What unwind tables cost: time and memory to make that of each file.
 *
 *   bench-tables FILE...    prints "FILE<TAB>what<TAB>number" lines
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

/* CPU time of this thread, ms: the machine may be busy. */
static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int run(const char *path)
{
	const char *base = strrchr(path, '/');
	struct unwind_table *t = NULL;
	struct stat st;
	double t0, t1;
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	char warm[1 << 16];

	base = base ? base + 1 : path;
	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		return -1;
	}
	while (read(fd, warm, sizeof(warm)) > 0) /* the disk is not what is measured */
		;
	t0 = cpu();
	err = unwind_table__build_fd(fd, &t);
	t1 = cpu();
	close(fd);
	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(-err));
		return 0;
	}
	printf("%s\tfile MiB\t%.1f\n", base, (double)st.st_size / 1048576);
	printf("%s\trows\t%u\n", base, t->n_rows);
	printf("%s\trules\t%u\n", base, t->n_rules);
	printf("%s\ttable MiB\t%.1f\n", base, (double)t->n_rows * sizeof(*t->rows) / 1048576);
	printf("%s\tbuild ms\t%.1f\n", base, t1 - t0);
	fflush(stdout);
	unwind_table__free(t);
	return 0;
}

int main(int argc, char **argv)
{
	int i, err = 0;

	for (i = 1; i < argc; i++)
		err |= run(argv[i]);
	return err ? 1 : 0;
}
