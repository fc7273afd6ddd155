/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of a recording from outside: `memtap ctl` and the socket it talks to.
 *
 * A request is a line of words, "[pid=N] WORD [TEXT]"; its answer is a line of JSON,
 * {"ok":true,…} or {"ok":false,"error":"…"}.
 */
#ifndef MEMTAP_CLI_CONTROL_H
#define MEMTAP_CLI_CONTROL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of a request and of an answer, newline included. */
#define CONTROL_LINE 4096
#define CONTROL_TEXT 254 /* of a mark or name: as the vendor prints at most */

struct session;
struct row;

/* ---- in the recorder ---- */

/*
 * Opens the socket, when all is attached. A recording goes on without it: then it is said why
 * nobody can control it.
 */
void control__open(struct session *s);
/* Takes requests and gives answers; never waits. */
void control__tick(struct session *s);
/* All events up to this boot time are in the model: requests from before it take effect. */
void control__due(struct session *s, uint64_t time);
/* Does a request for a start wait for its time? */
bool control__starts(const struct session *s);
/* No more requests: those that wait are answered. Removes the socket. */
void control__close(struct session *s);

/* ---- where sockets are (control_dir.c) ---- */

/* Folders that may hold sockets: of the system, of the user, of the user `owner`. */
#define CONTROL_DIRS 4
/* The path of folder i into buf; false: there is none. */
bool control_dir__path(unsigned int i, uid_t owner, char buf[PATH_MAX]);
/*
 * Opens the folder at path: one of our own or of root, which nobody else may write to or list, and
 * no symbolic link. With `make` it is made when missing. Descriptor or -errno.
 */
int control_dir__open(const char *path, bool make);
/* "PID.sock" */
void control_dir__name(pid_t pid, char buf[32]);
/* The PID of such a name; 0: it is none. */
pid_t control_dir__pid(const char *name);
/*
 * Connects to a socket of the folder, through its descriptor: what the folder is called may change.
 * Waits ms at most, also to send. Descriptor or -errno: -ECONNREFUSED: nobody listens.
 */
int control_dir__connect(int dir, const char *name, unsigned int ms);
/*
 * A socket of this name that listens, in place of one to which nobody does. Descriptor or -errno:
 * -EADDRINUSE: somebody does.
 */
int control_dir__listen(int dir, const char *name, int backlog);
/* Removes sockets of recorders that were killed. */
void control_dir__sweep(int dir);

#endif
