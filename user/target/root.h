/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to target/: paths as a process sees them, resolved beneath its root.
 *
 * What a target names may be anything: a link to an absolute path, which means
 * the target's root and not ours; a FIFO, which would block; a device, which
 * does something when it is opened. So every path is resolved without opening
 * it, within the root, and only regular files and directories are opened.
 */
#ifndef MEMTAP_ROOT_H
#define MEMTAP_ROOT_H

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

/* The root directory of a process, for the calls below. fd or -errno (-ESRCH: gone). */
int root__of(pid_t pid);
/* Open a regular file for reading. fd; -EISDIR a directory, -EINVAL neither; or -errno. */
int root__open_file(int root, const char *path);
/* Open a directory for reading. NULL and errno when there is none. */
DIR *root__open_dir(int root, const char *path);
/*
 * Texts that the kernel prints for a process (maps, exe, cwd) are paths below
 * our root; a process that has changed its root (chroot) sees a shorter one.
 * `path` is shortened in place, root_text is what root__text gives. 0, or
 * -EXDEV when it lies outside of the process's root.
 */
int root__inside(const char *root_text, char *path);
/* buf of PATH_MAX bytes. 0 or -errno. */
int root__text(pid_t pid, char *buf);
/*
 * A link of /proc/PID (exe, cwd) as the process sees it, without the mark
 * " (deleted)"; buf of PATH_MAX bytes. 0 or -errno.
 */
int root__link(pid_t pid, const char *what, char *buf);

#endif
