# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and tensors of the CPU, inside of ranges for the host's memory and outside."""
import ctypes
import os
import threading

import account

A = account.Account(history=False)
torch = A.torch
import numpy  # noqa: E402

# The module mstx imports the same library, and makes no other call.
lib = ctypes.CDLL('libms_tools_ext.so')
lib.mstxRangeStartA.restype = ctypes.c_uint64
lib.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
lib.mstxRangeEnd.argtypes = [ctypes.c_uint64]
lock = threading.Lock()
A.data['made'], A.data['gone'] = [], []


def made(address, size):
    with lock:
        A.data['made'].append([address, size])


def gone(address):
    with lock:
        A.data['gone'].append(address)


def work(inside, seed):
    """Sizes say where a block was made."""
    base = (3 if inside else 5) * 1000000 + seed * 10000
    for i in range(20):
        a = numpy.empty(base + i, dtype=numpy.uint8)
        b = numpy.zeros(base + 100 + i, dtype=numpy.uint8)
        t = torch.empty(base + 200 + i, dtype=torch.uint8)
        places = [a.ctypes.data, b.ctypes.data, t.data_ptr()]
        if inside:
            for place, size in zip(places, (a.nbytes, b.nbytes, t.numel())):
                made(place, size)
        del a, b, t
        for place in places if inside else ():
            gone(place)


A.ready()
for n in range(3):
    work(False, n)
    r = lib.mstxRangeStartA(b'report host memory info start', None)
    threads = [threading.Thread(target=work, args=(True, 10 * n + k)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lib.mstxRangeEnd(r)
work(False, 9)
print('host', len(A.data['made']), os.path.basename(numpy.__file__))
A.done()
