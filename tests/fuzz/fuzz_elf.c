// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: everything that reads an ELF file, on any bytes. See run.sh. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	struct elf_image *img = ctx;
	struct site s, r[4];
	uint64_t delta, off;

	site__entry(img, vaddr, 4, ~0u, &s);
	site__returns(img, vaddr, r, 4);
	if (!elf_image__offset(img, vaddr, &off))
		elf_image__name_at(img, off + 1, &delta);
	elf_image__symbol(img, name, &delta, &off);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct mspool_stats ms;
	struct pta_derived d;
	struct elf_image *img;
	const struct fde *f;
	uint8_t id[BUILD_ID_MAX];
	struct site s, r[4];
	uint64_t v;
	size_t n, i;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (elf_image__open_fd(fd, "fuzz", &img))
		return 0;
	elf_image__build_id(img, id);
	for (i = 0; i < 8; i++)
		elf_image__needed(img, i);
	elf_image__each_symbol(img, visit, img);
	if (!elf_image__fdes(img, &f, &n)) {
		for (i = 0; i < n && i < 64; i++) {
			site__entry(img, f[i].start, 2, 0, &s);
			site__returns(img, f[i].start, r, 4);
		}
	}
	pta__derive(img, &d);
	pymethod__find(img, "_mark", &v);
	for (i = 0; i < 2; i++)
		if (!mspool__derive(img, i, &ms) && (ms.used < 0 || ms.used > INT8_MAX ||
						     ms.reserved > INT8_MAX || ms.besides > INT8_MAX))
			abort(); /* struct mt_site has a byte for each */
	elf_image__close(img);
	return 0;
}
