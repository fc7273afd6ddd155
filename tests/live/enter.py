#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes a command in another root directory, as a container manager does.

    enter.py [--pivot] [--overlay LOWER UPPER WORK] [--bind DIR]… [--proc] [--sys] [--chdir DIR] [--init] ROOT CMD ARG…

Runs in the mount namespace that the caller has made (unshare -m); plain chroot needs none.
--init: stays as the container's first process, until the last one has ended: when the first ends, the
kernel kills the others. Exit status 77 and a line on stderr: the system forbids a step.
"""
import argparse
import ctypes
import os
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
MS_REC, MS_PRIVATE, MS_BIND, MS_RDONLY = 1 << 14, 1 << 18, 1 << 12, 1
MNT_DETACH = 2
PIVOT_ROOT = {'x86_64': 155, 'aarch64': 41}


def step(what, result):
    if result:
        print(f'enter: {what}: {os.strerror(ctypes.get_errno())}', file=sys.stderr)
        sys.exit(77)


def mount(source, target, kind, flags, data=None):
    b = [x.encode() if x is not None else None for x in (source, target, kind, data)]
    step(f'mount {kind or source} on {target}', libc.mount(b[0], b[1], b[2], ctypes.c_ulong(flags), b[3]))


def init(argv):
    """Runs a command as a child; waits for it and all others; its exit status."""
    child, status = os.fork(), 0
    if not child:
        os.execv(argv[0], argv)
    while True:
        try:
            pid, s = os.wait()
        except ChildProcessError:
            # The rest came in by nsenter: not our children, but PIDs of this namespace.
            if not any(d.isdigit() and int(d) != os.getpid() for d in os.listdir('/proc')):
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
            continue
        if pid == child:
            status = s


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--pivot', action='store_true')
    p.add_argument('--overlay', nargs=3, metavar=('LOWER', 'UPPER', 'WORK'))
    p.add_argument('--bind', action='append', default=[])
    p.add_argument('--proc', action='store_true')
    p.add_argument('--sys', action='store_true')
    p.add_argument('--chdir', default='/')
    p.add_argument('--init', action='store_true')
    p.add_argument('root')
    p.add_argument('command', nargs=argparse.REMAINDER)
    a = p.parse_args()
    if a.pivot:
        mount(None, '/', None, MS_REC | MS_PRIVATE)
    if a.overlay:
        lower, upper, work = a.overlay
        mount('overlay', a.root, 'overlay', 0, f'lowerdir={lower},upperdir={upper},workdir={work}')
    elif a.pivot:
        mount(a.root, a.root, None, MS_BIND | MS_REC)  # pivot_root wants a mount
    for d in a.bind:
        os.makedirs(a.root + d, exist_ok=True)
        mount(d, a.root + d, None, MS_BIND | MS_REC)
    if a.proc:
        mount('proc', a.root + '/proc', 'proc', 0)
    if a.sys:
        mount('/sys', a.root + '/sys', None, MS_BIND | MS_REC)
    os.chdir(a.root)
    if a.pivot:
        step('pivot_root', libc.syscall(PIVOT_ROOT[os.uname().machine], b'.', b'.'))
        step('umount of the old root', libc.umount2(b'.', MNT_DETACH))
    else:
        os.chroot('.')
    os.chdir(a.chdir)
    if a.init:
        sys.exit(init(a.command))
    os.execv(a.command[0], a.command)


if __name__ == '__main__':
    main()
