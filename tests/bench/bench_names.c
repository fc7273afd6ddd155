// SPDX-License-Identifier: Apache-2.0
/*
 * What names cost: time and memory to make the table of each file, and to look up
 * an address in it, new and asked before.
 *
 *   bench-names FILE...    prints "FILE<TAB>what<TAB>number" lines
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/elfview.h"

#define ADDRESSES 20000u

/* CPU time of this thread, ns: the machine may be busy. */
static uint64_t cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static uint64_t string_bytes(int fd)
{
	const Elf64_Shdr *sh;
	struct elf_view v;
	uint64_t n = 0;

	if (elf_view__map(fd, &v))
		return 0;
	sh = elf_view__section(&v, ".strtab", 0);
	if (!sh)
		sh = elf_view__section(&v, ".dynstr", 0);
	if (sh)
		n = sh->sh_size;
	elf_view__close(&v);
	return n;
}

/* Addresses spread over the code of a file, as a stack has them: in no order. */
static size_t pick(const char *path, uint64_t *v)
{
	struct elf_image *img;
	const struct fde *f;
	size_t n, i, k = 0;

	if (elf_image__open(path, &img))
		return 0;
	if (!elf_image__fdes(img, &f, &n))
		for (; k < ADDRESSES; k++) {
			i = (size_t)((k * 0x9e3779b97f4a7c15ULL) >> 20) % n;
			v[k] = f[i].start + (f[i].end - f[i].start) / 2;
		}
	elf_image__close(img);
	return k;
}

static int run(const char *path)
{
	static uint64_t v[ADDRESSES];
	struct symbols *s = symbols__new(NULL);
	int fd = open(path, O_RDONLY | O_CLOEXEC), debug_fd;
	size_t n = pick(path, v), i, named = 0;
	uint64_t t0, t1, t2;
	struct symbols_stats st;
	struct symbol_name name;
	struct symtab *t = NULL;
	struct file_id id;
	const char *base = strrchr(path, '/');
	int err = fd < 0 || !s || !n ? -1 : symbols__add(s, fd, path, NULL, &id);

	base = base ? base + 1 : path;
	if (err < 0)
		goto out;
	symbols__files(s, &id, &fd, &debug_fd);
	t0 = cpu();
	err = symtab__open(fd, debug_fd, &t);
	t1 = cpu();
	if (err)
		goto out;
	printf("%s\tsymbols\t%zu\n", base, symtab__count(t));
	printf("%s\ttable ms\t%.1f\n", base, (double)(t1 - t0) / 1e6);
	printf("%s\ttable bytes\t%zu\n", base, symtab__bytes(t));
	printf("%s\tbytes of names in the file\t%ju\n", base, (uintmax_t)string_bytes(fd));
	symtab__close(t);
	symbols__name(s, &id, v[0], &name); /* makes the table */
	t0 = cpu();
	for (i = 0; i < n; i++)
		named += !symbols__name(s, &id, v[i], &name) && name.name;
	t1 = cpu();
	for (i = 0; i < n; i++)
		symbols__name(s, &id, v[i], &name);
	t2 = cpu();
	symbols__stats(s, &st);
	printf("%s\tnew ns\t%.0f\n", base, (double)(t1 - t0) / (double)n);
	printf("%s\tknown ns\t%.0f\n", base, (double)(t2 - t1) / (double)n);
	printf("%s\tnamed percent\t%.0f\n", base, 100.0 * (double)named / (double)n);
	printf("%s\tbytes with answers\t%zu\n", base, st.bytes);
	fflush(stdout);
out:
	if (err)
		fprintf(stderr, "%s: cannot be read\n", path);
	symbols__free(s);
	return err;
}

int main(int argc, char **argv)
{
	int i, err = 0;

	for (i = 1; i < argc; i++)
		err |= run(argv[i]);
	return err ? 1 : 0;
}
