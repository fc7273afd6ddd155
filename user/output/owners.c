// SPDX-License-Identifier: Apache-2.0
/* owners_<ts>.csv: what blocks of the dump beside it were found to be while they lived. */
#include "output/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

static const char header[] = "Process Id,Device Id,Event Type,allocation_id,Ptr,Size(byte),"
			     "Timestamp(ns),Owner,Confidence\n";

int owners_file__create(struct sink *s, struct outdir *dir, const char *ts)
{
	char name[64], *p;
	int fd, err;

	snprintf(name, sizeof(name), OWNERS_STEM "%s.csv", ts);
	fd = openat(dir->dump_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = outdir__note(dir, "dump", name);
	if (err) {
		close(fd);
		return err;
	}
	err = sink__init(s, fd, 0);
	if (err)
		return err;
	p = sink__room(s, sizeof(header));
	if (!p)
		return s->err;
	sink__commit(s, PUT_LIT(p, header));
	return 0;
}

int owners_file__row(struct sink *s, const struct out_owner *w)
{
	size_t n = strlen(w->owner);
	char *p = sink__room(s, 288 + n);

	if (!p)
		return s->err;
	p = put_u64(p, w->pid);
	*p++ = ',';
	p = device__put(p, w->device);
	*p++ = ',';
	p = put_mem(p, row_type__name(w->type), strlen(row_type__name(w->type)));
	*p++ = ',';
	if (w->allocation_id)
		p = put_u64(p, w->allocation_id);
	*p++ = ',';
	p = put_u64(p, w->ptr);
	*p++ = ',';
	p = put_s64(p, w->size);
	*p++ = ',';
	p = put_u64(p, w->time);
	*p++ = ',';
	p = put_mem(p, w->owner, n);
	*p++ = ',';
	p += snprintf(p, 32, "%.2f", w->confidence);
	*p++ = '\n';
	sink__commit(s, p);
	return s->err;
}
