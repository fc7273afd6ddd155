// SPDX-License-Identifier: Apache-2.0
/* Which files are meant: a file, or a folder in the layout of any generation. */
#include "input/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* memscopeDumpResults/msmemscope_…/device_N/dump is the deepest. */
#define DEPTH 5

struct in_file {
	struct csv_in *csv;
	struct db_in *db;
};

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && !strcmp(s + n - m, with);
}

/* leaks_dump_<digits>.csv and the like. *newer: of V-now, one file a device. */
static bool is_dump(const char *name, bool *newer)
{
	const char *p;

	*newer = !strncmp(name, "memscope_dump_", 14);
	if (!*newer && strncmp(name, "leaks_dump_", 11))
		return false;
	p = name + (*newer ? 14 : 11);
	p += strspn(p, "0123456789");
	return p[-1] != '_' && (!strcmp(p, ".csv") || !strcmp(p, ".db"));
}

static int add(struct in_set *set, const char *dir, const char *name)
{
	char **p;

	if (set->n == IN_MAX_FILES) {
		pr_err("%s: holds more than %d dump files: name some of them", dir, IN_MAX_FILES);
		return -E2BIG;
	}
	p = reallocarray(set->paths, set->n + 1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	set->paths = p;
	if (name ? asprintf(&p[set->n], "%s/%s", dir, name) < 0 : !(p[set->n] = strdup(dir)))
		return -ENOMEM;
	set->n++;
	return 0;
}

static int walk(struct in_set *set, const char *path, unsigned int depth)
{
	struct dirent **list = NULL;
	const char *first = NULL;
	bool newer;
	int n, i, err = 0;

	n = scandir(path, &list, NULL, alphasort);
	if (n < 0) {
		err = -errno;
		pr_err("%s: cannot be read: %s", path, strerror(errno));
		return err;
	}
	for (i = 0; i < n && !err; i++) {
		const char *name = list[i]->d_name;
		struct stat st;
		char *sub;

		if (name[0] == '.')
			continue;
		if (is_dump(name, &newer)) {
			/* One run writes one such file a folder, of the newer one a device. */
			if (first && !newer) {
				pr_err("%s: holds several captures (%s, %s): name the file that is "
				       "meant",
				       path, first, name);
				err = -EEXIST;
				break;
			}
			first = name;
			err = add(set, path, name);
			continue;
		}
		if (!depth)
			continue;
		if (asprintf(&sub, "%s/%s", path, name) < 0) {
			err = -ENOMEM;
			break;
		}
		/* A link could lead anywhere, also in a circle. */
		if (!lstat(sub, &st) && S_ISDIR(st.st_mode))
			err = walk(set, sub, depth - 1);
		free(sub);
	}
	for (i = 0; i < n; i++)
		free(list[i]);
	free(list);
	return err;
}

int in_set__find(const char *path, struct in_set *set)
{
	size_t len = strlen(path);
	struct stat st;
	char *dir;
	int err;

	memset(set, 0, sizeof(*set));
	if (stat(path, &st)) {
		err = -errno;
		pr_err("%s: %s", path, strerror(errno));
		return err;
	}
	if (!S_ISDIR(st.st_mode)) {
		err = add(set, path, NULL);
		goto out;
	}
	while (len > 1 && path[len - 1] == '/')
		len--;
	dir = strndup(path, len);
	err = dir ? walk(set, dir, DEPTH) : -ENOMEM;
	free(dir);
	if (!err && !set->n) {
		pr_err("%s: no leaks_dump_*.csv or .db, nor memscope_dump_*, in it or below: name "
		       "the folder that memtap record -o or the vendor's tool has written",
		       path);
		err = -ENOENT;
	}
out:
	if (err)
		in_set__free(set);
	return err;
}

void in_set__free(struct in_set *set)
{
	size_t i;

	for (i = 0; i < set->n; i++)
		free(set->paths[i]);
	free(set->paths);
	memset(set, 0, sizeof(*set));
}

/* A db whatever its name is: they all begin so. */
static bool is_db(const char *path)
{
	static const char magic[16] = "SQLite format 3";
	char head[16];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool is;

	if (fd < 0)
		return ends(path, ".db");
	is = read(fd, head, sizeof(head)) == sizeof(head) && !memcmp(head, magic, sizeof(head));
	close(fd);
	return is || ends(path, ".db");
}

int in_file__open(const char *path, struct in_file **out)
{
	struct in_file *f;
	struct stat st;
	int err;

	if (stat(path, &st)) {
		err = -errno;
		pr_err("%s: %s", path, strerror(errno));
		return err;
	}
	if (!S_ISREG(st.st_mode)) {
		pr_err("%s: is no regular file: write it to one first", path);
		return -EINVAL;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	err = is_db(path) ? db_in__open(path, &f->db) : csv_in__open(path, &f->csv);
	if (err) {
		free(f);
		return err;
	}
	*out = f;
	return 0;
}

int in_file__next(struct in_file *f, struct in_row *r)
{
	return f->db ? db_in__next(f->db, r) : csv_in__next(f->csv, r);
}

void in_file__counts(const struct in_file *f, struct in_counts *c)
{
	*c = f->db ? *db_in__counts(f->db) : *csv_in__counts(f->csv);
}

void in_file__close(struct in_file *f)
{
	if (!f)
		return;
	csv_in__close(f->csv);
	db_in__close(f->db);
	free(f);
}
