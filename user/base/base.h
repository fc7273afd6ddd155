/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small things every folder needs: messages, growing buffers, a hash table,
 * safe creation of output files, bounded reads of /proc files.
 */
#ifndef MEMTAP_BASE_H
#define MEMTAP_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define MT_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- messages: stderr, one line each, prefixed "memtap: " ---- */

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Messages above `level` are dropped. Default LOG_INFO. */
void log__set_level(enum log_level level);
enum log_level log__level(void);
/* Called before each message, e.g. to clear a status line. NULL = none. */
void log__set_hook(void (*before)(void));
/* Errors printed so far. */
unsigned int log__errors(void);
void log__print(enum log_level level, const char *fmt, ...) MT_PRINTF(2, 3);
void log__vprint(enum log_level level, const char *fmt, va_list ap);

#define pr_err(...) log__print(LOG_ERROR, __VA_ARGS__)
#define pr_warn(...) log__print(LOG_WARN, __VA_ARGS__)
#define pr_info(...) log__print(LOG_INFO, __VA_ARGS__)
#define pr_debug(...) log__print(LOG_DEBUG, __VA_ARGS__)

/* ---- growing byte buffer; data is NUL-terminated after strbuf__printf ---- */

struct strbuf {
	char *data;
	size_t len;
	size_t cap;
	bool failed; /* an allocation failed: contents are incomplete */
};

/* Room for `n` more bytes; returns where to write them, NULL if no memory. */
char *strbuf__reserve(struct strbuf *sb, size_t n);
void strbuf__add(struct strbuf *sb, const void *data, size_t n);
void strbuf__puts(struct strbuf *sb, const char *s);
void strbuf__printf(struct strbuf *sb, const char *fmt, ...) MT_PRINTF(2, 3);
void strbuf__reset(struct strbuf *sb); /* keeps the memory */
void strbuf__free(struct strbuf *sb);

/* Decimal digits of v at p (no NUL); returns the number of bytes, at most 20. */
size_t fmt__u64(char *p, uint64_t v);
size_t fmt__s64(char *p, int64_t v);

/*
 * ---- hash table with two 64-bit words as key ----
 *
 * Open addressing, values are caller-owned 64-bit words (a pointer or an
 * index). Not thread safe. Zero-initialise before use.
 */
struct hkey {
	uint64_t a, b;
};

struct hmap {
	struct hslot *slots;
	size_t n; /* live entries */
	size_t used; /* live + deleted */
	size_t cap; /* power of two, 0 before the first insert */
};

/* Value of a key; NULL if absent. Valid until the next insert. */
uint64_t *hmap__get(const struct hmap *m, struct hkey k);
/* Insert or find; *fresh tells which. NULL: no memory. New values are 0. */
uint64_t *hmap__put(struct hmap *m, struct hkey k, bool *fresh);
/* Remove; returns true and the old value in *v (v may be NULL) if present. */
bool hmap__del(struct hmap *m, struct hkey k, uint64_t *v);
/* Iterate: start with *pos = 0; false at the end. The map must not change. */
bool hmap__next(const struct hmap *m, size_t *pos, struct hkey *k, uint64_t *v);
void hmap__free(struct hmap *m);
uint64_t hash__bytes(const void *p, size_t n, uint64_t seed);

/* ---- files ---- */

/* mkdir -p with mode 0750 for what is missing. 0 or -errno. */
int path__mkdirs(const char *path);
/*
 * Create a file of mode 0600 that must not exist; never follows a symbolic
 * link in the last component. Returns fd or -errno.
 */
int path__create(const char *path);
/* Write everything or fail: 0 or -errno (short writes are retried). */
int fd__write_all(int fd, const void *p, size_t n);
/*
 * Whole small file (procfs included) into a fresh NUL-terminated buffer of at
 * most `max` bytes. Caller frees *out. Returns length or -errno (-EFBIG).
 */
ssize_t file__read(const char *path, size_t max, char **out);
/* The same from a descriptor, which stays the caller's, from where it stands. */
ssize_t fd__read_all(int fd, size_t max, char **out);
/* On an overlay file system, where device and inode numbers are not those of the file below? */
bool fd__on_overlay(int fd);

/*
 * Raise the priority of the calling thread to a nice value, where that is
 * permitted and nobody has chosen another one than 0.
 */
void thread__nice(int value);

/* ---- clocks, ns ---- */
/* Time since boot as the kernel has it, also in a time namespace. */
uint64_t clock__boot(void);
/* What CLOCK_BOOTTIME and /proc/PID/stat say beyond that in our time namespace; else 0. */
int64_t clock__boot_offset(void);
uint64_t clock__real(void);
/* Wall clock minus boot time, from the closest of several readings. */
int64_t clock__boot_to_real(void);

#endif
