# SPDX-License-Identifier: Apache-2.0
"""stacks_mixed.py LIBRARY HAL NUMBER NOTES FRAMES [switched] [START:END...]: allocates below C that calls Python.

FRAMES: a line of JSON for each allocation: [thread id, [[file, line, function, calls], ...]], innermost first;
calls: how many calls of the evaluation loop were on the C stack when the function ran by itself, as glibc's
backtrace() sees it, so that functions with the same number are run by the same call; null where the function is
not of this file. NOTES: what stackcall.c writes. Says "loop START END" of the evaluation loop.
With "switched" it allocates on a C stack of its own, where the callers cannot be seen. Runs on CPython 3.8 and
later.
"""
import _thread
import ctypes
import functools
import json
import os
import random
import sys
import threading

LIBRARY, HAL, NUMBER, NOTES, FRAMES = sys.argv[1:6]
lib = ctypes.CDLL(LIBRARY)
holding = ctypes.PyDLL(LIBRARY)  # calls keep the interpreter's lock
libc = ctypes.CDLL(None)
notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if lib.stackcall_open(notes, HAL.encode(), None):
    sys.exit('no simulated driver')
start = ctypes.c_uint64()
size = lib.stackcall_loop(ctypes.byref(start))
loop = [[0, size]] if size > 0 else []
for word in sys.argv[6:]:
    if word != 'switched':
        loop.append([int(v) for v in word.split(':')])
        lib.stackcall_part(*map(ctypes.c_long, loop[-1]))
here = holding.stackcall_calls
frames = open(FRAMES, 'w')
lock = threading.Lock()
left = [int(NUMBER)]
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
PLAIN = ctypes.CFUNCTYPE(None)
seen = here()  # of the module itself


def say(f):
    chain = []
    while f:
        calls = seen if f.f_code.co_name == '<module>' else f.f_locals.get('seen')
        chain.append([f.f_code.co_filename, f.f_lineno, f.f_code.co_name, calls])
        f = f.f_back
    with lock:
        frames.write(json.dumps([threading.get_native_id(), chain]) + '\n')


def leaf(call):
    seen = here()
    with lock:
        left[0] -= 1
    say(sys._getframe()); call(4096)


class Thing:
    def __init__(self, call):
        self.call = call

    @property
    def value(self):
        seen = here()
        leaf(self.call)
        return 1

    def __lt__(self, other):
        seen = here()
        leaf(self.call)
        return id(self) < id(other)

    def __getattr__(self, name):
        seen = here()
        leaf(self.__dict__['call'])
        return name

    def __getitem__(self, i):
        seen = here()
        leaf(self.call)
        return i


class Begins:
    """Allocates when it is made: what makes it is C."""

    def __init__(self, call):
        seen = here()
        leaf(call)


class Ends:
    """Allocates when it goes: when its function does, from 3.12 on below a call of the loop that runs nothing."""

    def __init__(self, call):
        self.call = call

    def __del__(self):
        seen = here()
        leaf(self.call)


def recursion(call, n):
    seen = here()
    if n:
        recursion(call, n - 1)
    else:
        leaf(call)


def generator(call):
    seen = here()

    def inner():
        seen = here()
        yield leaf(call)
        seen = here()
        yield leaf(call)
    yield from inner()


def owner(call):
    seen = here()
    thing = Ends(call)
    return thing.__class__ is Ends


def ends(call):
    seen = here()
    owner(call)
    list(map(owner, [call]))
    max([call, call], key=owner)
    sorted([call], key=lambda c: owner(c))


def callbacks(call):
    seen = here()
    sorted([3, 1, 2], key=lambda v: [seen := here(), leaf(call), v][2])
    sorted([Thing(call), Thing(call)])
    functools.reduce(lambda a, b: [seen := here(), leaf(call)][1], [1, 2, 3])
    functools.partial(recursion, call)(2)
    list(map(lambda x: [seen := here(), recursion(call, 2)], [1]))
    for _ in range(3):
        Thing(call).value, Thing(call).missing, Thing(call)[1]
    Begins(call)
    list(map(Begins, [call]))


def generators(call):
    seen = here()
    for _ in generator(call):
        pass
    list(generator(call))
    called = map(lambda x: [seen := here(), leaf(call)], [1])
    sum(1 for _ in called)


def comprehension(call):
    seen = here()
    return [leaf(call) for _ in range(2)]


def foreign(call):
    """C that calls Python from within its own loop: libc's qsort."""
    seen = here()
    values = (ctypes.c_int * 3)(3, 1, 2)

    def compare(a, b):
        seen = here()
        leaf(call)
        return ctypes.cast(a, ctypes.POINTER(ctypes.c_int))[0] - ctypes.cast(b, ctypes.POINTER(ctypes.c_int))[0]
    libc.qsort(values, ctypes.c_size_t(3), ctypes.c_size_t(4), COMPARE(compare))


def natives(call):
    """Threads of C: one that never runs Python, one that calls it."""
    seen = here()
    lib.stackcall_native(None)

    def called():
        seen = here()
        leaf(call)
    lib.stackcall_native(PLAIN(called))


def switched():
    seen = here()
    for _ in range(int(NUMBER)):
        leaf(holding.stackcall)


def everything(call):
    seen = here()
    list(map(lambda w: [seen := here(), w(call)], [callbacks, generators, foreign, ends]))


WAYS = [leaf, lambda c: [seen := here(), recursion(c, 30)], callbacks, generators, comprehension, foreign, natives,
        ends, everything]


def work(seed):
    seen = here()
    r = random.Random(seed)
    while left[0] > 0:
        r.choice(WAYS)(r.choice([lib.stackcall, holding.stackcall]))


def worker(seed, done):
    seen = here()
    work(seed)
    done.release()


print('loop', json.dumps([[start.value + v for v in part] for part in loop]), flush=True)
print('up', flush=True)
sys.stdin.readline()
if 'switched' in sys.argv[6:]:
    holding.stackcall_switched(PLAIN(switched))
    left[0] = 0
done = [threading.Lock() for i in range(2)]
for i, d in enumerate(done):
    d.acquire()
    _thread.start_new_thread(worker, (i, d))  # nothing of threading below, which says nothing of itself
work(3)
for d in done:
    d.acquire()
frames.close()
print('done', flush=True)
sys.stdin.readline()
