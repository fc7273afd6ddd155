// SPDX-License-Identifier: Apache-2.0
/* owners_<ts>.csv beside leaks_dump_<ts>.csv or .db: what its blocks were found to be. */
#include "input/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE 512

/* NULL: the name is none of a dump of memtap's, or no memory. */
static char *path_of(const char *dump)
{
	static const char stem[] = "leaks_dump_";
	const char *slash = strrchr(dump, '/'), *name = slash ? slash + 1 : dump, *ts;
	size_t digits;
	char *path;

	if (strncmp(name, stem, sizeof(stem) - 1) != 0)
		return NULL;
	ts = name + sizeof(stem) - 1;
	digits = strspn(ts, "0123456789");
	if (!digits ||
	    asprintf(&path, "%.*sowners_%.*s.csv", (int)(name - dump), dump, (int)digits, ts) < 0)
		return NULL;
	return path;
}

/* The next field, of digits; empty is 0. False: something else. */
static bool number(char **p, uint64_t *v)
{
	char *field = strsep(p, ",");
	size_t n = field ? strlen(field) : 0;

	if (!field || n > 19 || strspn(field, "0123456789") != n)
		return false;
	*v = n ? strtoull(field, NULL, 10) : 0;
	return true;
}

static bool pool(const char *field, enum row_type *type)
{
	int t;

	for (t = ROW_HAL; field && t <= ROW_MINDSPORE; t++) {
		*type = (enum row_type)t;
		if (!strcmp(field, row_type__name(*type)))
			return true;
	}
	return false;
}

static bool is_owner(const char *s)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_@.-";

	return s && *s && *s != '@' && *s != '-' && strspn(s, letters) == strlen(s);
}

static bool parse(char *line, struct in_owner *o)
{
	uint64_t pid, device, size;
	const char *confidence;
	char *p = line, *end;

	if (!number(&p, &pid) || !number(&p, &device) || !pool(strsep(&p, ","), &o->type) ||
	    !number(&p, &o->alloc) || !number(&p, &o->ptr) || !number(&p, &size) ||
	    !number(&p, &o->time))
		return false;
	o->owner = strsep(&p, ",");
	confidence = strsep(&p, ",");
	if (p || !confidence || !is_owner(o->owner) || pid > UINT32_MAX || device > INT32_MAX ||
	    size > INT64_MAX)
		return false;
	o->pid = (uint32_t)pid;
	o->device = (int32_t)device;
	o->size = (int64_t)size;
	o->confidence = strtod(confidence, &end);
	return end != confidence && !*end && o->confidence >= 0 && o->confidence <= 1;
}

static int each_line(FILE *f, int (*fn)(void *ctx, const struct in_owner *o), void *ctx,
		     uint64_t *bad)
{
	bool first = true, whole = true;
	char line[MAX_LINE];
	struct in_owner o;
	int err = 0;

	while (!err && fgets(line, sizeof(line), f)) {
		char *nl = strchr(line, '\n');
		bool begins = whole;

		whole = nl;
		/* The header; the rest of a line that is too long; a last one that is not whole. */
		if (first || !begins || !nl) {
			*bad += !begins || (!nl && !feof(f));
			first = false;
			continue;
		}
		*nl = '\0';
		if (parse(line, &o))
			err = fn(ctx, &o);
		else
			++*bad;
	}
	return err ? err : ferror(f) ? -EIO : 0;
}

int in_owners__each(const char *dump, int (*fn)(void *ctx, const struct in_owner *o), void *ctx,
		    uint64_t *bad)
{
	char *path = path_of(dump);
	struct stat st;
	FILE *f = NULL;
	int fd, err = 0;

	*bad = 0;
	if (!path)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		err = errno == ENOENT ? 0 : -errno;
	} else if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		err = -EINVAL;
	} else if (!(f = fdopen(fd, "r"))) {
		err = -errno;
	}
	if (err)
		pr_err("%s: the owners beside the dump cannot be read: %s; move the file away to "
		       "do without them",
		       path, err == -EINVAL ? "no regular file" : strerror(-err));
	if (f)
		err = each_line(f, fn, ctx, bad);
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	free(path);
	return err;
}
