/* SPDX-License-Identifier: Apache-2.0 */
/* Rows out of thin air, and a writer that gets killed: for the tests of order. */
#ifndef MEMTAP_OUT_KILL_H
#define MEMTAP_OUT_KILL_H

#include "out_test.h"

#include <signal.h>
#include <sys/wait.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static struct row block_row(enum row_event e, enum row_type t, uint64_t id, uint32_t pid,
			    uint64_t ptr)
{
	return (struct row){ .id = id,
			     .event = e,
			     .type = t,
			     .time = 1700000000000000000ULL + id * 1000,
			     .pid = pid,
			     .tid = pid,
			     .ptr = ptr,
			     .allocation_id = id,
			     .size = 512,
			     .total = 4096,
			     .used = 512,
			     .attrs = ATTR_BLOCK | (t == ROW_HAL ? 0 : ATTR_POOL) };
}

static struct row plain_row(enum row_type t, uint64_t id, uint32_t pid)
{
	return (struct row){ .id = id,
			     .event = t == ROW_KERNEL ? ROW_KERNEL_LAUNCH : ROW_SYSTEM,
			     .type = t,
			     .time = 1700000000000000000ULL + id * 1000,
			     .pid = pid,
			     .tid = pid,
			     .device = t == ROW_KERNEL ? 0 : DEV_NA,
			     .name = t == ROW_KERNEL ? "k" : NULL,
			     .name_len = 1,
			     .stream_id = -1 };
}

static uint64_t seed = 88172645463325252ULL;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

/*
 * A writer that flushes and tells how far it is, until it is killed. Returns
 * the number of rows that were flushed.
 */
static uint64_t killed_writer(struct out_opts opts, int ms)
{
	int pipefd[2], status;
	uint64_t flushed = 0, got;
	pid_t pid;

	cr_assert(!pipe(pipefd));
	pid = fork();
	cr_assert(pid >= 0);
	if (!pid) {
		struct row r;
		struct out *o;
		uint64_t i;

		close(pipefd[0]);
		if (out__open(&opts, &o))
			_exit(1);
		r = plain_row(ROW_START_TRACE, 1, 5);
		out__row(o, &r);
		/* Address i lives for 40 rows; each hundredth stays. */
		for (i = 2;; i++) {
			r = block_row(ROW_MALLOC, ROW_PTA, i, 5, i);
			if (i > 42 && i % 2 && (i - 41) % 100)
				r = block_row(ROW_FREE, ROW_PTA, i, 5, i - 41);
			out__row(o, &r);
			if (i % 50)
				continue;
			out__flush(o);
			if (write(pipefd[1], &i, 8) != 8 || i > 190000)
				_exit(2);
			if (i > 20000)
				usleep(1000); /* the file would get long */
		}
	}
	close(pipefd[1]);
	cr_assert_eq(read(pipefd[0], &flushed, 8), 8);
	usleep((useconds_t)ms * 1000);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status));
	while (read(pipefd[0], &got, 8) == 8)
		flushed = got;
	close(pipefd[0]);
	cr_assert_gt(flushed, 0);
	return flushed;
}

/* Each ID up to `flushed` once, and none twice. */
static void check_ids(const bool *seen_twice, const uint8_t *seen, uint64_t flushed)
{
	uint64_t i;

	cr_expect(!*seen_twice);
	for (i = 1; i <= flushed; i++) {
		if (!seen[i])
			cr_assert(false, "row %lu of %lu is lost", i, flushed);
	}
}

static void check_csv(const char *dir, uint64_t flushed, bool vendor)
{
	char *s = read_found(dir, "dump", "leaks_dump_", ".csv"), *line, *save = NULL;
	uint8_t *seen = calloc(200000, 1);
	bool twice = false;
	int stops = 0, losts = 0;

	line = strtok_r(s, "\n", &save);
	cr_expect(!strncmp(line, "ID,Event", 8));
	while ((line = strtok_r(NULL, "\n", &save))) {
		uint64_t id = strtoull(line, NULL, 10);

		cr_assert_lt(id, 200000);
		stops += !!strstr(line, ",SYSTEM,STOP_TRACE,N/A,");
		losts += !!strstr(line, ",SYSTEM,LOST,N/A,");
		if (strstr(line, ",STOP_TRACE,"))
			cr_expect(strstr(line, "\"{recovered:true}\",,"), "%s", line);
		if (strstr(line, ",LOST,"))
			cr_expect(strstr(line, "{reason:killed,probe:all,count:N/A,first:"), "%s",
				  line);
		twice |= seen[id];
		seen[id] = 1;
	}
	cr_expect_eq(stops, vendor ? 0 : 1);
	cr_expect_eq(losts, vendor ? 0 : 1);
	check_ids(&twice, seen, flushed);
	free(seen);
	free(s);
}

static void check_trace_closed(const char *dir)
{
	char *t = read_found(dir, "trace", "npu0_trace_", ".json");
	size_t n = strlen(t);

	cr_assert_gt(n, 8);
	cr_expect_str_eq(t + n - 7, ",\n{\n}\n]");
	free(t);
}

static void put_file(const char *dir, const char *name, const void *data, size_t n)
{
	char *path;
	int fd;

	cr_assert(asprintf(&path, "%s/%s", dir, name) > 0);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	cr_assert(fd >= 0);
	cr_assert(!fd__write_all(fd, data, n));
	close(fd);
	free(path);
}

#pragma GCC diagnostic pop
#endif
