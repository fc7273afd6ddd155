# SPDX-License-Identifier: Apache-2.0
"""stacks_py.py LIBRARY HAL ACL NUMBER NOTES FRAMES: allocates from many places, and writes who called.

FRAMES: a line of JSON for each allocation: [thread id, [[file, line, function], ...]], innermost first;
NOTES: what stackcall.c writes. Runs on CPython 3.8 and later, with NumPy if it is there.
"""
import ctypes
import functools
import json
import os
import random
import sys
import threading

try:
    import numpy
except ImportError:
    numpy = None

LIBRARY, HAL, ACL, NUMBER, NOTES, FRAMES = sys.argv[1:]
lib = ctypes.CDLL(LIBRARY)
notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if lib.stackcall_open(notes, HAL.encode(), ACL.encode()):
    sys.exit('no simulated driver')
frames = open(FRAMES, 'w')
lock = threading.Lock()
left = [int(NUMBER)]


def say(f):
    chain = []
    while f:
        chain.append([f.f_code.co_filename, f.f_lineno, f.f_code.co_name])
        f = f.f_back
    with lock:
        frames.write(json.dumps([threading.get_native_id(), chain]) + '\n')


def leaf(call):
    with lock:
        left[0] -= 1
    say(sys._getframe()); call(4096)


class Thing:
    @property
    def value(self):
        leaf(self.call)
        return 1

    def __init__(self, call):
        self.call = call

    def __lt__(self, other):
        leaf(self.call)
        return id(self) < id(other)

    def __getattr__(self, name):
        leaf(self.__dict__['call'])
        return name


def recursion(call, n):
    if n:
        recursion(call, n - 1)
    else:
        leaf(call)


def generator(call):
    def inner():
        yield leaf(call)
    yield from inner()


def deep(call):
    recursion(call, 40)


def callbacks(call):
    sorted([Thing(call), Thing(call)])
    functools.reduce(lambda a, b: leaf(call), [1, 2, 3])
    list(map(lambda x: leaf(call), [1]))
    Thing(call).value, Thing(call).missing
    [leaf(call) for _ in range(2)]
    list(generator(call))


def ufunc(call):
    numpy.frompyfunc(lambda x: leaf(call) or x, 1, 1)(numpy.arange(3))
    numpy.apply_along_axis(lambda x: leaf(call) or x, 0, numpy.ones((2, 2)))


WAYS = [leaf, deep, callbacks, lambda c: recursion(c, 3)] + ([ufunc] if numpy else [])


def work(seed):
    r = random.Random(seed)
    while left[0] > 0:
        # Only the first thread has a device.
        r.choice(WAYS)(r.choice([lib.stackcall, lib.stackcall_acl] if seed == 3 else [lib.stackcall]))


print('up', flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for t in threads:
    t.start()
work(3)
for t in threads:
    t.join()
frames.close()
print('done', 'with NumPy' if numpy else 'without NumPy', flush=True)
sys.stdin.readline()
