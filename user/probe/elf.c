// SPDX-License-Identifier: Apache-2.0
/* An ELF file mapped read-only: headers, segments, dynamic entries, translations. */
#include "probe/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linkers make 2 to 12 of these; a bound keeps hostile files cheap. */
#define MAX_LOADS 256
#define MAX_DYN 4096 /* some 100 at most */
/* The largest known has 0.5 GB; there is no limit else for a file that is all hole. */
#define MAX_SIZE (4ULL << 30)
/*
 * What may be spent on a file (elf_image__spend): a share that does for any small one,
 * and by its size. Of all known libraries none needs a third of it.
 */
#define WORK_BASE 200000000ULL
#define WORK_PER_BYTE 40
#define WORK_SIZE_MAX (256ULL << 20)
#define COMPRESSION 8 /* at most, of file systems that do */

static bool in_file(const struct elf_image *img, uint64_t off, uint64_t n)
{
	return off <= img->size && n <= img->size - off;
}

static int seg_cmp(const void *a, const void *b)
{
	const struct elf_seg *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

const struct elf_seg *elf_image__seg(const struct elf_image *img, uint64_t vaddr)
{
	size_t lo = 0, hi = img->nsegs;

	/* The last that begins at or before it: they do not overlap. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (img->segs[mid].vaddr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || vaddr - img->segs[lo - 1].vaddr >= img->segs[lo - 1].filesz)
		return NULL;
	return &img->segs[lo - 1];
}

const uint8_t *elf_image__rest(const struct elf_image *img, uint64_t vaddr, size_t *n)
{
	const struct elf_seg *s = elf_image__seg(img, vaddr);

	*n = 0;
	if (!s)
		return NULL;
	*n = s->filesz - (vaddr - s->vaddr);
	return img->data + s->off + (vaddr - s->vaddr);
}

const void *elf_image__at(const struct elf_image *img, uint64_t vaddr, size_t n)
{
	size_t rest;
	const uint8_t *p = elf_image__rest(img, vaddr, &rest);

	return p && n <= rest ? p : NULL;
}

const char *elf_image__string(const struct elf_image *img, uint64_t vaddr)
{
	size_t rest;
	const uint8_t *p = elf_image__rest(img, vaddr, &rest);

	return p && elf__is_name((const char *)p, rest) ? (const char *)p : NULL;
}

int elf_image__offset(const struct elf_image *img, uint64_t vaddr, uint64_t *off)
{
	const struct elf_seg *s = elf_image__seg(img, vaddr);

	if (!s)
		return -ERANGE;
	*off = s->off + (vaddr - s->vaddr);
	return 0;
}

/*
 * Segments of mold-linked files share pages in the file, so an offset can lie
 * in one only: the ranges [off, off + filesz) themselves do not overlap.
 */
int elf_image__vaddr(const struct elf_image *img, uint64_t off, uint64_t *vaddr)
{
	size_t i;

	for (i = 0; i < img->nsegs; i++) {
		const struct elf_seg *s = &img->segs[i];

		if (off >= s->off && off - s->off < s->filesz) {
			*vaddr = s->vaddr + (off - s->off);
			return 0;
		}
	}
	return -ERANGE;
}

size_t elf_image__code(const struct elf_image *img, struct elf_code *seg, size_t max)
{
	size_t i, n = 0;

	for (i = 0; i < img->nsegs; i++) {
		const struct elf_seg *s = &img->segs[i];

		if (!(s->flags & PF_X))
			continue;
		if (n < max)
			seg[n] = (struct elf_code){ s->off, s->vaddr, s->filesz };
		n++;
	}
	return n;
}

const char *elf_image__dynstr(const struct elf_image *img, uint64_t off)
{
	if (off >= img->dynstr_len || !elf__is_name(img->dynstr + off, img->dynstr_len - off))
		return NULL;
	return img->dynstr + off;
}

static void read_notes(struct elf_image *img, uint64_t off, uint64_t n, uint64_t align)
{
	const uint8_t *p = img->data + off;

	/* Notes are padded to 4 bytes, in segments of alignment 8 to 8. */
	align = align == 8 ? 8 : 4;
	while (n >= sizeof(Elf64_Nhdr) && !img->build_id_len &&
	       elf_image__spend(img, 1, WORK_STEP)) {
		uint64_t namesz = rd32(p), descsz = rd32(p + 4);
		uint64_t name = sizeof(Elf64_Nhdr);
		uint64_t desc = (name + namesz + align - 1) & ~(align - 1);
		uint64_t next = (desc + descsz + align - 1) & ~(align - 1);

		if (desc > n || descsz > n - desc)
			return;
		if (rd32(p + 8) == NT_GNU_BUILD_ID && namesz == 4 && !memcmp(p + name, "GNU", 4)) {
			img->build_id_len = MT_MIN(descsz, (uint64_t)BUILD_ID_MAX);
			memcpy(img->build_id, p + desc, img->build_id_len);
		}
		if (next >= n)
			return;
		p += next;
		n -= next;
	}
}

/* Table at an address, of `bytes` or, if that is unknown, as far as its segment goes. */
static void set_table(const struct elf_image *img, struct elf_table *t, uint64_t vaddr,
		      uint64_t bytes, size_t entry)
{
	size_t rest;

	t->p = elf_image__rest(img, vaddr, &rest);
	t->n = t->p ? MT_MIN(bytes, (uint64_t)rest) / entry : 0;
}

/* Number of symbols from DT_GNU_HASH: the end of the last chain. */
static size_t gnu_hash_symbols(const struct elf_image *img, uint64_t vaddr)
{
	size_t rest, i, nbuckets, symoffset, bloom, max = 0;
	const uint8_t *p = elf_image__rest(img, vaddr, &rest), *buckets, *chain;

	if (!p || rest < 16)
		return 0;
	nbuckets = rd32(p);
	symoffset = rd32(p + 4);
	bloom = rd32(p + 8);
	rest -= 16;
	if (bloom > rest / 8 || nbuckets > (rest - bloom * 8) / 4)
		return 0;
	buckets = p + 16 + bloom * 8;
	chain = buckets + nbuckets * 4;
	rest -= bloom * 8 + nbuckets * 4;
	for (i = 0; i < nbuckets; i++)
		max = MT_MAX(max, (size_t)rd32(buckets + i * 4));
	if (max < symoffset)
		return symoffset; /* nothing is exported; imports come first */
	for (i = max - symoffset; i < rest / 4; i++)
		if (rd32(chain + i * 4) & 1)
			return symoffset + i + 1;
	return 0;
}

/* Number of entries of .dynsym from the section headers; 0 if there are none. */
static size_t section_symbols(const struct elf_image *img)
{
	uint64_t shoff = rd64(img->data + offsetof(Elf64_Ehdr, e_shoff)), i;
	uint64_t n = rd16(img->data + offsetof(Elf64_Ehdr, e_shnum));
	Elf64_Shdr sh;

	for (i = 0; i < n && in_file(img, shoff, (i + 1) * sizeof(sh)); i++) {
		memcpy(&sh, img->data + shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type == SHT_DYNSYM)
			return sh.sh_size / sizeof(Elf64_Sym);
	}
	return 0;
}

static void read_dynamic(struct elf_image *img, uint64_t off, uint64_t size)
{
	uint64_t v[DT_RELR + 1] = { 0 }, gnu_hash = 0, versym = 0, i, nsyms = 0;
	const uint8_t *p = img->data + off;
	size_t rest;

	for (i = 0; i < MT_MIN(size / sizeof(Elf64_Dyn), (uint64_t)MAX_DYN); i++) {
		uint64_t tag = rd64(p + i * 16), val = rd64(p + i * 16 + 8);

		if (tag == DT_NULL)
			break;
		if (tag <= DT_RELR)
			v[tag] = val;
		else if (tag == DT_GNU_HASH)
			gnu_hash = val;
		else if (tag == DT_VERSYM)
			versym = val;
	}
	img->dyn = (struct elf_table){ p, i };
	img->dynstr = (const char *)elf_image__rest(img, v[DT_STRTAB], &rest);
	img->dynstr_len = img->dynstr ? MT_MIN(v[DT_STRSZ], (uint64_t)rest) : 0;
	if (v[DT_SONAME])
		img->soname = elf_image__dynstr(img, v[DT_SONAME]);
	if (v[DT_RUNPATH])
		img->runpath = elf_image__dynstr(img, v[DT_RUNPATH]);
	else if (v[DT_RPATH])
		img->runpath = elf_image__dynstr(img, v[DT_RPATH]);
	if (v[DT_RELA])
		set_table(img, &img->rela, v[DT_RELA], v[DT_RELASZ], sizeof(Elf64_Rela));
	if (v[DT_JMPREL] && v[DT_PLTREL] == DT_RELA)
		set_table(img, &img->jmprel, v[DT_JMPREL], v[DT_PLTRELSZ], sizeof(Elf64_Rela));
	if (v[DT_RELR])
		set_table(img, &img->relr, v[DT_RELR], v[DT_RELRSZ], 8);
	if (v[DT_HASH]) {
		const uint8_t *h = elf_image__at(img, v[DT_HASH], 8);

		nsyms = h ? rd32(h + 4) : 0; /* nchain */
	}
	/* DT_GNU_HASH does not count imports when nothing is exported: take the most. */
	if (!nsyms && gnu_hash)
		nsyms = gnu_hash_symbols(img, gnu_hash);
	nsyms = MT_MAX(nsyms, section_symbols(img));
	if (v[DT_SYMTAB] && nsyms < UINT32_MAX)
		set_table(img, &img->dynsym, v[DT_SYMTAB], nsyms * sizeof(Elf64_Sym),
			  sizeof(Elf64_Sym));
	if (versym)
		set_table(img, &img->versym, versym, img->dynsym.n * 2, 2);
}

static int add_load(struct elf_image *img, const Elf64_Phdr *ph)
{
	struct elf_seg *s;

	if (ph->p_memsz < ph->p_filesz || ph->p_vaddr + ph->p_memsz < ph->p_vaddr ||
	    img->nsegs == MAX_LOADS)
		return -ENOEXEC;
	s = realloc(img->segs, (img->nsegs + 1) * sizeof(*s));
	if (!s)
		return -ENOMEM;
	img->segs = s;
	s[img->nsegs++] = (struct elf_seg){ .off = ph->p_offset,
					    .vaddr = ph->p_vaddr,
					    .filesz = ph->p_filesz,
					    .memsz = ph->p_memsz,
					    .flags = ph->p_flags };
	return 0;
}

static int parse(struct elf_image *img)
{
	uint64_t dyn_off = 0, dyn_size = 0, i;
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	int err;

	if (img->size < sizeof(eh))
		return -ENOEXEC;
	memcpy(&eh, img->data, sizeof(eh));
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || (eh.e_type != ET_DYN && eh.e_type != ET_EXEC) ||
	    eh.e_phentsize != sizeof(ph) || eh.e_phnum == PN_XNUM ||
	    !in_file(img, eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(ph)))
		return -ENOEXEC;
	img->machine = eh.e_machine;
	for (i = 0; i < eh.e_phnum; i++) {
		memcpy(&ph, img->data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		img->interp |= ph.p_type == PT_INTERP;
		if (ph.p_type != PT_LOAD && ph.p_type != PT_DYNAMIC && ph.p_type != PT_NOTE &&
		    ph.p_type != PT_GNU_EH_FRAME)
			continue;
		/* Debug files keep program headers without contents: not for probing. */
		if (!in_file(img, ph.p_offset, ph.p_filesz))
			return -ENOEXEC;
		if (ph.p_type == PT_LOAD) {
			err = add_load(img, &ph);
			if (err)
				return err;
		} else if (ph.p_type == PT_DYNAMIC) {
			dyn_off = ph.p_offset;
			dyn_size = ph.p_filesz;
		} else if (ph.p_type == PT_NOTE) {
			read_notes(img, ph.p_offset, ph.p_filesz, ph.p_align);
		} else {
			img->eh_hdr = ph.p_vaddr;
			img->eh_hdr_size = ph.p_filesz;
		}
	}
	if (img->nsegs)
		qsort(img->segs, img->nsegs, sizeof(*img->segs), seg_cmp);
	/* No linker lets them overlap; what is searched would be more than there is. */
	for (i = 1; i < img->nsegs; i++)
		if (img->segs[i].vaddr - img->segs[i - 1].vaddr < img->segs[i - 1].filesz)
			return -ENOEXEC;
	if (dyn_size)
		read_dynamic(img, dyn_off, dyn_size);
	return 0;
}

/* Holes cost time to search, and nothing to make: they do not count. */
static uint64_t work_for(const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size;

	if (st->st_blocks) /* some file systems of user space do not tell */
		size = MT_MIN(size, (uint64_t)st->st_blocks * 512 * COMPRESSION);
	return WORK_BASE + WORK_PER_BYTE * MT_MIN(size, WORK_SIZE_MAX);
}

int elf_image__open_fd(int fd, const char *name, struct elf_image **out)
{
	struct elf_image *img;
	struct stat st;
	void *p;
	int err;

	*out = NULL;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return -ENOEXEC;
	if ((uint64_t)st.st_size > MAX_SIZE)
		return -EFBIG;
	/* The mapping keeps the file; the descriptor is not needed again. */
	/* Not private: the kernel would put the breakpoints of uprobes into our copy, too. */
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	img = calloc(1, sizeof(*img));
	if (!img) {
		munmap(p, (size_t)st.st_size);
		return -ENOMEM;
	}
	img->data = p;
	img->size = (size_t)st.st_size;
	img->work = img->work_given = work_for(&st);
	if (getrandom(&img->hash_seed, sizeof(img->hash_seed), GRND_NONBLOCK) < 0)
		img->hash_seed = clock__boot();
	elf_guard__add(p, img->size);
	img->name = strdup(name);
	err = img->name ? parse(img) : -ENOMEM;
	if (!err && img->over)
		err = -E2BIG;
	if (err) {
		elf_image__close(img);
		return err;
	}
	*out = img;
	return 0;
}

int elf_image__open(const char *path, struct elf_image **out)
{
	/* Non-blocking: a path of a target may name a FIFO. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;

	*out = NULL;
	if (fd < 0)
		return -errno;
	err = elf_image__open_fd(fd, path, out);
	close(fd);
	return err;
}

void elf_image__close(struct elf_image *img)
{
	if (!img)
		return;
	pr_debug("%s: work of %" PRIu64 " of %" PRIu64 " ms", img->name ? img->name : "",
		 (img->work_given - img->work) / 1000000, img->work_given / 1000000);
	elf_guard__del(img->data);
	munmap((void *)img->data, img->size);
	hmap__free(&img->by_name);
	free(img->by_addr);
	free(img->syms);
	free(img->fdes);
	free(img->fde_recs);
	free(img->segs);
	free(img->name);
	free(img);
}

const char *elf_image__name(const struct elf_image *img)
{
	return img->name;
}

bool elf_image__over(const struct elf_image *img)
{
	return img->over;
}

const char *elf__why(int err)
{
	switch (err) {
	case -ENOEXEC:
		return "not an ELF file of 64 bits, little-endian";
	case -E2BIG:
		return "takes more work to read than any real library: damaged, or made to";
	case -EFBIG:
		return "too large for a library: more than 4 GiB";
	default:
		return strerror(-err);
	}
}

int elf_image__machine(const struct elf_image *img)
{
	return img->machine;
}

size_t elf_image__build_id(const struct elf_image *img, uint8_t id[BUILD_ID_MAX])
{
	memcpy(id, img->build_id, img->build_id_len);
	return img->build_id_len;
}

const char *elf_image__soname(const struct elf_image *img)
{
	return img->soname;
}

const char *elf_image__runpath(const struct elf_image *img)
{
	return img->runpath;
}

bool elf_image__interp(const struct elf_image *img)
{
	return img->interp;
}

const char *elf_image__needed(const struct elf_image *img, size_t i)
{
	size_t k;

	for (k = 0; k < img->dyn.n; k++) {
		const uint8_t *p = img->dyn.p + k * sizeof(Elf64_Dyn);

		if (rd64(p) == DT_NEEDED && !i--)
			return elf_image__dynstr(img, rd64(p + 8));
	}
	return NULL;
}
