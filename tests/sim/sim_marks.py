#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sim_marks.py: imports torch_npu._C when told to, and marks from Python until told to stop.

READY <pid>; a line: import; MARKING <pid>; a line: stop; DONE; with --wait one more line: end.
PYTHONPATH says which torch_npu, --root (default: this file's folder) where the truth's recorder is."""
import argparse
import ctypes
import glob
import os
import select
import sys
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument('--root', default=os.path.dirname(os.path.abspath(__file__)))
    p.add_argument('--truth')
    p.add_argument('--seconds', type=float, help='no READY: import at once, stop after so long')
    p.add_argument('--fork', choices=('early', 'late'),
                   help="only map the module's file; a child, forked before READY or when told, imports it")
    p.add_argument('--wait', action='store_true')
    return p.parse_args()


def line():
    os.read(0, 4096)


def told():
    return bool(select.select([0], [], [], 0)[0])


def mark(stop):
    from torch_npu import _C
    m, n = _C._mstx, 0
    print('MARKING', os.getpid(), flush=True)
    while not stop():
        m._mark('mark %d' % n, 'default')
        m._range_push_on_host('pushed %d' % n, 'default')
        r = m._range_start_on_host('range %d' % n, 'default')
        m._mark_on_host('inner %d' % n, 'default')
        m._range_end(r, 'default')
        m._range_pop('default')
        n += 1
        time.sleep(0.001)


def work():
    line()
    mark(told)
    line()


def forked(early):
    files = [f for d in sys.path for f in glob.glob(os.path.join(d, 'torch_npu', '_C.*.so'))]
    library = ctypes.CDLL(files[0])
    pid = os.fork() if early else 0
    if early and not pid:
        return work()
    print('READY', os.getpid(), flush=True)
    if not early:
        line()
        pid = os.fork()
        if not pid:
            mark(told)
            return line()
    assert library and not os.waitpid(pid, 0)[1]
    print('DONE', flush=True)


def main():
    a = arguments()
    if a.truth:
        os.environ['SIM_TRUTH'] = a.truth
    ctypes.CDLL(os.path.join(a.root, 'cann/lib64/libsim_truth.so'), mode=ctypes.RTLD_GLOBAL)
    me = os.getpid()
    if a.seconds:
        end = time.monotonic() + a.seconds
        mark(lambda: time.monotonic() > end)
    elif a.fork:
        forked(a.fork == 'early')
    else:
        print('READY', me, flush=True)
        work()
        print('DONE', flush=True)
    if a.wait and os.getpid() == me:
        line()


if __name__ == '__main__':
    main()
