// SPDX-License-Identifier: Apache-2.0
/* ELF reading: this program, the C library, made files, and broken ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <dlfcn.h>

#include "data-elf/mkelf.h"

/* A function that the compiler keeps, of known name; not static: in .symtab as global. */
__attribute__((noinline)) int elf_test_landmark(int x);
int elf_test_landmark(int x)
{
	return x * 3 + 1;
}

static int libc_path(struct dl_phdr_info *info, size_t size, void *ctx)
{
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	snprintf(ctx, 256, "%s", info->dlpi_name);
	return 1;
}

static struct elf_image *open_libc(void)
{
	struct elf_image *img;
	char path[256] = "";

	dl_iterate_phdr(libc_path, path);
	if (!*path)
		cr_skip("no shared C library in this process");
	cr_assert_eq(elf_image__open(path, &img), 0);
	cr_assert_str_eq(elf_image__name(img), path);
	return img;
}

static int self_base(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uintptr_t *)ctx = info->dlpi_addr;
	return 1; /* the program is first */
}

Test(elf, this_program)
{
	uint64_t vaddr, size, off, back;
	struct elf_image *img;
	const struct fde *fde;
	uintptr_t base = 0;
	const void *p;

	cr_assert_eq(elf_image__open("/proc/self/exe", &img), 0);
	dl_iterate_phdr(self_base, &base);
	cr_assert_eq(elf_image__symbol(img, "elf_test_landmark", &vaddr, &size), 0);
	cr_expect_eq(base + vaddr, (uintptr_t)elf_test_landmark);
	cr_assert_eq(elf_image__offset(img, vaddr, &off), 0);
	cr_assert_eq(elf_image__vaddr(img, off, &back), 0);
	cr_expect_eq(back, vaddr);
	p = elf_image__at(img, vaddr, size);
	cr_assert(p);
	cr_expect_arr_eq(p, (void *)elf_test_landmark, size);
	fde = elf_image__fde_at(img, vaddr + size - 1);
	cr_assert(fde);
	cr_expect_eq(fde->start, vaddr);
	cr_expect_geq(fde->end, vaddr + size);
	cr_expect_eq(elf_image__symbol(img, "no such function", &vaddr, &size), -ENOENT);
	/* imported, not defined */
	cr_expect_eq(elf_image__symbol(img, "dl_iterate_phdr", &vaddr, &size), -ENOENT);
	elf_image__close(img);
}

static int count_names(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	unsigned int *n = ctx;

	cr_assert(vaddr && *name);
	n[0]++;
	n[1] += !strcmp(name, "malloc");
	return 0;
}

static int stop_at_once(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	return 42;
}

Test(elf, c_library)
{
	struct elf_image *img = open_libc();
	uint8_t id[BUILD_ID_MAX];
	uint64_t vaddr, size, off, delta = 99;
	const struct fde *fdes;
	unsigned int n[2] = { 0 };
	size_t nfdes, i;
	const char *name;

	cr_expect_str_eq(elf_image__soname(img), "libc.so.6");
	cr_assert(elf_image__needed(img, 0));
	cr_expect_eq(strncmp(elf_image__needed(img, 0), "ld-linux", 8), 0);
	cr_expect_null(elf_image__needed(img, 1000));
	cr_expect_eq(elf_image__build_id(img, id), 20);
	cr_assert_eq(elf_image__each_symbol(img, count_names, n), 0);
	cr_expect_gt(n[0], 1000);
	cr_expect_eq(n[1], 1);
	cr_expect_eq(elf_image__each_symbol(img, stop_at_once, NULL), 42);

	cr_assert_eq(elf_image__symbol(img, "malloc", &vaddr, &size), 0);
	cr_assert_eq(elf_image__offset(img, vaddr, &off), 0);
	name = elf_image__name_at(img, off + 3, &delta);
	cr_assert(name);
	cr_expect_str_eq(name, "malloc");
	cr_expect_eq(delta, 3);
	cr_expect_null(elf_image__name_at(img, UINT64_MAX, &delta));
	cr_expect_null(elf_image__name_at(img, 0, &delta));

	cr_assert_eq(elf_image__fdes(img, &fdes, &nfdes), 0);
	cr_assert_gt(nfdes, 1000);
	for (i = 1; i < nfdes; i++)
		cr_assert(fdes[i - 1].start < fdes[i - 1].end && fdes[i - 1].end <= fdes[i].start);
	for (i = 0; i < nfdes; i += 97) {
		cr_expect_eq(elf_image__fde_at(img, fdes[i].start), &fdes[i]);
		cr_expect_eq(elf_image__fde_at(img, fdes[i].end - 1), &fdes[i]);
	}
	cr_expect_null(elf_image__fde_at(img, 0));
	cr_expect_null(elf_image__fde_at(img, UINT64_MAX));
	elf_image__close(img);
}

#ifdef __x86_64__
Test(elf, default_version)
{
	struct elf_image *img = open_libc();
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	uint64_t vaddr, size, other;

	/* glibc has pthread_cond_wait@GLIBC_2.2.5 and @@GLIBC_2.3.2: programs get the second */
	cr_assert_eq(elf_image__symbol(img, "pthread_cond_wait", &vaddr, &size), 0);
	cr_assert_eq(elf_image__symbol(img, "fork", &other, NULL), 0);
	cr_expect_eq((uintptr_t)dlsym(libc, "pthread_cond_wait") - vaddr,
		     (uintptr_t)dlsym(libc, "fork") - other);
	/* an indirect function has no address to probe */
	cr_expect_eq(elf_image__symbol(img, "memcpy", &vaddr, &size), -ENOENT);
	elf_image__close(img);
}
#endif

Test(elf, refused)
{
	struct elf_image *img = (void *)1;
	struct mkelf m;

	cr_expect_eq(elf_image__open("/does/not/exist", &img), -ENOENT);
	cr_expect_null(img);
	cr_expect_eq(elf_image__open("/proc", &img), -ENOEXEC);
	cr_expect_eq(elf_image__open("/dev/null", &img), -ENOEXEC);
	mkelf_init(&m, EM_X86_64);
	mkelf_finish(&m);
	cr_expect_eq(mkelf_open_bytes(&m, 63, &img), -ENOEXEC);
	m.b[EI_CLASS] = ELFCLASS32;
	cr_expect_eq(mkelf_open_bytes(&m, MKELF_SIZE, &img), -ENOEXEC);
	m.b[EI_CLASS] = ELFCLASS64;
	m.b[EI_DATA] = ELFDATA2MSB;
	cr_expect_eq(mkelf_open_bytes(&m, MKELF_SIZE, &img), -ENOEXEC);
	m.b[EI_DATA] = ELFDATA2LSB;
	/* the segment is cut off */
	cr_expect_eq(mkelf_open_bytes(&m, MKELF_SIZE - 1, &img), -ENOEXEC);
	cr_assert_eq(mkelf_open_bytes(&m, MKELF_SIZE, &img), 0);
	elf_image__close(img);
	elf_image__close(NULL);
}

Test(elf, made_file)
{
	const uint8_t code[] = { 0xc3, 0x53, 0x5b, 0xc3 };
	const struct fde *fdes;
	struct elf_image *img;
	uint64_t v, size;
	struct mkelf m;
	size_t n;

	mkelf_init(&m, EM_X86_64);
	mkelf_code(&m, code, sizeof(code));
	mkelf_fde(&m, 0, 1, false);
	mkelf_fde(&m, 1, 3, false);
	mkelf_symbol(&m, "one", 0, 1);
	mkelf_symbol(&m, "two", 1, 3);
	img = mkelf_open(&m);
	cr_expect_eq(elf_image__machine(img), EM_X86_64);
	cr_assert_eq(elf_image__symbol(img, "two", &v, &size), 0);
	cr_expect_eq(v, MKELF_AT(1));
	cr_expect_eq(size, 3);
	cr_assert_eq(elf_image__fdes(img, &fdes, &n), 0);
	cr_assert_eq(n, 2);
	cr_expect_eq(fdes[1].start, MKELF_AT(1));
	cr_expect_eq(fdes[1].end, MKELF_AT(4));
	cr_expect_eq(elf_image__vaddr(img, MKELF_SIZE, &v), -ERANGE);
	cr_expect_eq(elf_image__offset(img, MKELF_BASE - 1, &v), -ERANGE);
	cr_expect_null(elf_image__at(img, MKELF_AT(0), MKELF_SIZE));
	cr_expect_null(elf_image__at(img, MKELF_AT(0), SIZE_MAX));
	cr_expect_null(elf_image__soname(img));
	cr_expect_null(elf_image__runpath(img));
	elf_image__close(img);
	/* an FDE that its search table contradicts is not believed */
	m.b[MKELF_HDR + 12 + 8] ^= 1;
	cr_assert_eq(mkelf_open_bytes(&m, MKELF_SIZE, &img), 0);
	cr_assert_eq(elf_image__fdes(img, &fdes, &n), 0);
	cr_expect_eq(n, 1);
	elf_image__close(img);
	/* without a table (DW_EH_PE_omit) all records are read */
	m.b[MKELF_HDR + 2] = m.b[MKELF_HDR + 3] = 0xff;
	cr_assert_eq(mkelf_open_bytes(&m, MKELF_SIZE, &img), 0);
	cr_assert_eq(elf_image__fdes(img, &fdes, &n), 0);
	cr_expect_eq(n, 2);
	elf_image__close(img);
}

/* A library that is overwritten while it is open reads as zeros, and ends nobody. */
Test(elf, truncated_while_open)
{
	const uint8_t code[] = { 0x53, 0x5b, 0xc3 };
	int fd = memfd_create("shrinks", MFD_CLOEXEC);
	struct elf_image *img;
	const struct fde *f;
	struct mkelf m;
	struct site s;
	size_t n;

	mkelf_init(&m, EM_X86_64);
	mkelf_code(&m, code, sizeof(code));
	mkelf_fde(&m, 0, sizeof(code), false);
	mkelf_symbol(&m, "f", 0, sizeof(code));
	mkelf_finish(&m);
	cr_assert_eq(write(fd, &m, MKELF_SIZE), MKELF_SIZE);
	cr_assert_eq(elf_image__open_fd(fd, "shrinks", &img), 0);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_expect_neq(elf_image__fdes(img, &f, &n), 0);
	cr_expect_eq(site__returns(img, MKELF_AT(0), &s, 1), -EINVAL);
	site__entry(img, MKELF_AT(0), 1, 0, &s);
	elf_image__close(img);
	close(fd);
}

static int ignore(void *ctx, const char *name, uint64_t vaddr, uint64_t size)
{
	struct site s, r[4];
	uint64_t delta;

	site__entry(ctx, vaddr, 3, ~0u, &s);
	site__returns(ctx, vaddr, r, 4);
	elf_image__name_at(ctx, vaddr & 0xfff, &delta);
	return 0;
}

/* Everything the interface can do, on whatever the file is. */
static void use(const uint8_t *b, size_t n)
{
	struct pta_derived d;
	struct elf_image *img;
	const struct fde *f;
	struct site s, r[4];
	uint8_t id[BUILD_ID_MAX];
	uint64_t v;
	size_t nf, i;

	if (mkelf_open_bytes(b, n, &img))
		return;
	elf_image__build_id(img, id);
	for (i = 0; i < 4; i++)
		elf_image__needed(img, i);
	elf_image__each_symbol(img, ignore, img);
	elf_image__symbol(img, "malloc", &v, &v);
	if (!elf_image__fdes(img, &f, &nf)) {
		for (i = 0; i < nf && i < 50; i++) {
			site__entry(img, f[i].start, 2, 0, &s);
			site__returns(img, f[i].start, r, 4);
		}
	}
	pta__derive(img, &d);
	pymethod__find(img, "f", &v);
	elf_image__close(img);
}

/* A small generator, so that a failure can be repeated from its seed. */
static uint32_t next(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static void mutate(const uint8_t *b, size_t n, unsigned int rounds, size_t head)
{
	uint8_t *copy = malloc(n);
	uint32_t seed = 2463534242u;
	unsigned int i, k;

	for (i = 0; i < rounds; i++) {
		memcpy(copy, b, n);
		for (k = 0; k <= next(&seed) % 8; k++) {
			size_t at = next(&seed) % (next(&seed) % 2 ? head : n);

			copy[at] = next(&seed) % 3 ? (uint8_t)next(&seed)
						   : (uint8_t)(next(&seed) % 2 ? 0xff : 0);
		}
		use(copy, next(&seed) % 8 ? n : next(&seed) % n);
	}
	free(copy);
}

Test(elf, broken_made_files, .timeout = 100)
{
	const uint8_t x86[] = { 0x48, 0x85, 0xff, 0x74, 0x01, 0x53, 0xe8, 0, 0, 0, 0, 0xc3 };
	const uint32_t a64[] = { 0xa9be7bfd, 0x90000001, 0xf9400021, 0x94000000, 0xd65f03c0 };
	struct mkelf m;
	int i;

	for (i = 0; i < 2; i++) {
		mkelf_init(&m, i ? EM_AARCH64 : EM_X86_64);
		mkelf_code(&m, i ? (const void *)a64 : x86, i ? sizeof(a64) : sizeof(x86));
		mkelf_fde(&m, 0, m.code, false);
		mkelf_symbol(&m, "f", 0, m.code);
		mkelf_finish(&m);
		mutate(m.b, MKELF_SIZE, 3000, 0x500);
	}
}

/* A real file has what made ones lack: dynamic entries, hashes, relocations, notes. */
Test(elf, broken_real_file, .timeout = 100)
{
	uint8_t *b = malloc(1 << 20);
	ssize_t n;
	int fd;

	fd = open("/proc/self/exe", O_RDONLY);
	cr_assert_geq(fd, 0);
	n = read(fd, b, 1 << 20);
	cr_assert_gt(n, 4096);
	close(fd);
	use(b, (size_t)n);
	mutate(b, (size_t)n, 1500, 0x2000);
	free(b);
}
