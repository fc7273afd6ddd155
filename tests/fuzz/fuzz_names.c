// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: symbol tables, debug links and C++ names, on any bytes. See run.sh. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/debugfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct symtab *t, const struct elf_image *img, struct strbuf *sb)
{
	struct symbol s;
	uint64_t v = 0, off;
	unsigned int i;

	for (i = 0; i < 256; i++, v += 37) {
		strbuf__reset(sb);
		/* By file offset: these are more likely to be code. */
		if (elf_image__vaddr(img, v, &off))
			off = v;
		if (!symtab__find(t, off, &s, sb) && (off < s.start || off - s.start >= s.size))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char name[256], text[SYMTAB_SOURCES_TEXT];
	uint8_t id[BUILD_ID_MAX];
	struct strbuf sb = { 0 };
	struct elf_image *img;
	struct elf_view v;
	struct symtab *t;
	uint32_t crc;
	size_t n;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (!elf_view__memory(data, size, &v)) {
		elf_view__build_id(&v, id);
		elf_view__debuglink(&v, name, sizeof(name), &crc);
		elf_view__altlink(&v, name, sizeof(name), id, &n);
		debugfile__check(&v, &v);
		elf_view__close(&v);
	}
	/* As its own debug file, too. */
	if (!symtab__open(fd, size & 1 ? fd : -1, &t)) {
		if (!elf_image__open_fd(fd, "fuzz", &img)) {
			look_up(t, img, &sb);
			elf_image__close(img);
		}
		symtab__sources(t, text);
		symtab__close(t);
	}
	n = MT_MIN(size, sizeof(name) - 3);
	memcpy(name, "_Z", 2);
	memcpy(name + 2, data, n);
	name[n + 2] = '\0';
	strbuf__reset(&sb);
	demangle(name, &sb);
	strbuf__free(&sb);
	return 0;
}
