// SPDX-License-Identifier: Apache-2.0
/* Identity of a file: its build-id, else a hash of its size and of parts of its contents. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "symbol/symbol.h"

/*
 * What is hashed of a file without build-id: its size, its first and last 64 KiB
 * (headers, dynamic symbols, section headers) and 64 pages spread evenly between
 * them. One more instruction anywhere moves what is behind it, so two builds of
 * one size differ in one of these; and a library of 1 GB costs no more than 70 reads.
 */
#define EDGE 65536u
#define SAMPLES 64u
#define SAMPLE 4096u

struct hashing {
	int fd;
	uint64_t h[2];
	uint8_t buf[EDGE];
};

static int hash_part(struct hashing *x, uint64_t off, size_t n)
{
	size_t have = 0;
	int i;

	while (have < n) {
		ssize_t got = pread(x->fd, x->buf + have, n - have, (off_t)(off + have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			return -ESTALE; /* it became shorter */
		have += (size_t)got;
	}
	/* Chained, so that the order of the parts counts. */
	for (i = 0; i < 2; i++)
		x->h[i] = hash__bytes(x->buf, n, x->h[i]);
	return 0;
}

static int hash_file(int fd, uint64_t size, struct file_id *id)
{
	struct hashing x = { .fd = fd };
	uint64_t off, room;
	unsigned int i;
	int err;

	x.h[0] = hash__bytes(&size, sizeof(size), 0);
	x.h[1] = hash__bytes(&size, sizeof(size), 1);
	if (size <= 2 * EDGE + (uint64_t)SAMPLES * SAMPLE) {
		for (off = 0, err = 0; !err && off < size; off += EDGE)
			err = hash_part(&x, off, MT_MIN(size - off, (uint64_t)EDGE));
		goto out;
	}
	err = hash_part(&x, 0, EDGE);
	room = size - 2 * EDGE - SAMPLE;
	for (i = 0; !err && i < SAMPLES; i++)
		err = hash_part(&x, EDGE + room / SAMPLES * i, SAMPLE);
	if (!err)
		err = hash_part(&x, size - EDGE, EDGE);
out:
	if (err)
		return err;
	id->kind = FILE_ID_HASH;
	id->len = sizeof(x.h);
	memcpy(id->bytes, x.h, sizeof(x.h));
	return 0;
}

void file_id__of_build(const uint8_t *build_id, size_t len, struct file_id *id)
{
	*id = (struct file_id){ .kind = FILE_ID_BUILD };
	id->len = (uint8_t)MT_MIN(len, sizeof(id->bytes));
	memcpy(id->bytes, build_id, id->len);
}

int file_id__of_image(const struct elf_image *img, int fd, struct file_id *id)
{
	uint8_t build_id[BUILD_ID_MAX];
	size_t n = img ? elf_image__build_id(img, build_id) : 0;
	struct stat st;

	*id = (struct file_id){ .kind = FILE_ID_NONE };
	if (n) {
		file_id__of_build(build_id, n, id);
		return 0;
	}
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	return hash_file(fd, (uint64_t)st.st_size, id);
}

int file_id__of_fd(int fd, struct file_id *id)
{
	struct elf_image *img = NULL;
	int err = elf_image__open_fd(fd, "", &img);

	*id = (struct file_id){ .kind = FILE_ID_NONE };
	if (err && err != -ENOEXEC) /* what is no ELF file has an identity as well */
		return err;
	err = file_id__of_image(img, fd, id);
	elf_image__close(img);
	return err;
}

int file_id__cmp(const struct file_id *a, const struct file_id *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return memcmp(a->bytes, b->bytes, a->len);
}

uint64_t file_id__hash(const struct file_id *id)
{
	return hash__bytes(id->bytes, id->len, id->kind);
}

const char *file_id__text(const struct file_id *id, char buf[FILE_ID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	char *p = buf;
	unsigned int i;

	if (id->kind == FILE_ID_HASH) {
		memcpy(p, "hash-", 5);
		p += 5;
	}
	for (i = 0; i < id->len && i < sizeof(id->bytes); i++) {
		*p++ = digits[id->bytes[i] >> 4];
		*p++ = digits[id->bytes[i] & 15];
	}
	*p = '\0';
	return buf;
}
