// SPDX-License-Identifier: Apache-2.0
/*
 * What user/objects finds in a process, once for each line on stdin: "find" looks for
 * optimizers and modules and reads, "read" only reads. Printed: one line a storage, then
 * "done" and the counts; or "error" and why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objects/objects.h"

int main(int argc, char **argv)
{
	struct object_storage *v;
	struct objects_counts c;
	char why[400], line[64];
	struct objects *o;
	size_t n, i;
	int err;

	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	err = objects__open(atoi(argv[1]), &o, why, sizeof(why));
	if (err) {
		printf("error %d %s\n", err, why);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		err = *line == 'f' ? objects__find(o, 20000) : 0;
		if (!err)
			err = objects__read(o, 20000, &v, &n);
		if (err) {
			printf("error %d %s\n", err, strerror(-err));
			continue;
		}
		for (i = 0; i < n; i++)
			printf("%s %" PRIx64 " %" PRIu64 " %d\n",
			       object_kind__name((enum object_kind)v[i].kind), v[i].addr,
			       v[i].bytes, v[i].device);
		free(v);
		objects__counts(o, &c);
		printf("done walked %" PRIu64 " walk_us %" PRIu64 " read_us %" PRIu64
		       " optimizers %zu modules %zu tensors %zu cut %d torn %d\n",
		       c.walked, c.walk_ns / 1000, c.read_ns / 1000, c.optimizers, c.modules,
		       c.tensors, c.cut, c.torn);
	}
	objects__close(o);
	return 0;
}
