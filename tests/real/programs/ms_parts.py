# SPDX-License-Identifier: Apache-2.0
"""Lists of blocks cut from one, and blocks of which parts are kept: the pool's own methods, which
MindSpore calls for fused communication and at the end of graphs, called on its pool directly."""
import ctypes
import random

import ms_account
from account import boot

GET = '_ZN9mindspore6device6ascend16AscendMemoryPool11GetInstanceEv'
# Places in the table of virtual functions of mindspore::device::DynamicMemPool (2.10.0).
ALLOC, ALLOC_LIST, FREE, FREE_PART, USED = 4, 5, 6, 9, 33
UNIT = 512


class Vector(ctypes.Structure):
    """std::vector of words, for one call."""
    _fields_ = [('begin', ctypes.c_void_p), ('end', ctypes.c_void_p), ('room', ctypes.c_void_p)]

    @classmethod
    def of(cls, words):
        v = cls()
        v.words = (ctypes.c_uint64 * max(1, len(words)))(*words)
        v.begin = ctypes.addressof(v.words)
        v.end = v.room = v.begin + 8 * len(words)
        return v

    def list(self):
        n = ((self.end or 0) - (self.begin or 0)) // 8
        return list((ctypes.c_uint64 * n).from_address(self.begin)) if n else []


class Pool:
    def __init__(self):
        path = [x.split()[-1] for x in open('/proc/self/maps', encoding='utf-8')
                if 'libmindspore_ascend_res_manager.so' in x][0]
        get = ctypes.CDLL(path)[GET]
        get.restype = ctypes.c_void_p
        support = get()
        # The pool is its virtual base: the table of virtual functions has its distance before it.
        table = ctypes.c_uint64.from_address(support).value
        self.this = support + ctypes.c_int64.from_address(table - 24).value

    def method(self, slot, result, *types):
        table = ctypes.c_uint64.from_address(self.this).value
        code = ctypes.c_uint64.from_address(table + 8 * slot).value
        return ctypes.CFUNCTYPE(result, *types)(code)

    def used(self):
        return self.method(USED, ctypes.c_uint64, ctypes.c_void_p)(self.this)

    def alloc(self, size):
        p, b, i = ctypes.c_void_p, ctypes.c_bool, ctypes.c_uint32
        return self.method(ALLOC, ctypes.c_uint64, p, ctypes.c_uint64, b, b, i)(self.this, size, False, False, 0)

    def alloc_list(self, sizes):
        out, p = Vector(), ctypes.c_void_p
        v = Vector.of(sizes)
        self.method(ALLOC_LIST, p, p, p, p, ctypes.c_uint32)(
            ctypes.addressof(out), self.this, ctypes.addressof(v), 0)
        return out.list()

    def free(self, address):
        a = ctypes.c_uint64(address)
        self.method(FREE, None, ctypes.c_void_p, ctypes.c_void_p)(self.this, ctypes.addressof(a))

    def free_part(self, free, keep, sizes):
        v = [Vector.of(x) for x in (free, keep, sizes)]
        p = ctypes.c_void_p
        self.method(FREE_PART, None, p, p, p, p)(self.this, *(ctypes.addressof(x) for x in v))


A = ms_account.Account()
pool = Pool()
rng = random.Random(11)
before = pool.alloc(16 * UNIT)  # of before the attach
assert pool.used() == A.stats()['allocated'], 'another pool than the statistics tell of'
A.ready()
blocks = {}  # what must be left after each operation


def note(kind, t0):
    A.op(kind, sorted(blocks.items()), 0, t0)


def take(addresses, sizes):
    blocks.update(zip(addresses, sizes))
    return addresses


for i in range(200):
    t0 = boot()
    sizes = [UNIT * rng.randrange(1, 400) for _ in range(rng.randrange(1, 100 if i % 20 == 0 else 9))]
    listed = take(pool.alloc_list(sizes), sizes)
    note('list', t0)
    unit = UNIT * rng.randrange(1, 9)
    t0 = boot()
    whole = take([pool.alloc(8 * unit) for _ in range(4)], [8 * unit] * 4)
    note('alloc', t0)
    # a beginning, a middle, two parts of one, nothing of the last; some twice, as graphs do
    keep = {whole[0]: unit, whole[1] + 2 * unit: 3 * unit, whole[2] + unit: unit, whole[2] + 4 * unit: 4 * unit}
    t0 = boot()
    pool.free_part(whole, list(keep), list(keep.values()))
    for a in whole:
        del blocks[a]
    blocks.update(keep)
    note('part', t0)
    t0 = boot()
    if i % 3:
        pool.free_part(list(keep), [], [])
    else:
        for a in keep:
            pool.free(a)
    for a in keep:
        del blocks[a]
    note('kept', t0)
    t0 = boot()
    for a in listed:
        pool.free(a)
        del blocks[a]
    pool.free(0x1234000)  # of no pool
    note('free', t0)
t0 = boot()
pool.free_part([before], [before + 4 * UNIT], [2 * UNIT])
blocks[before + 4 * UNIT] = 2 * UNIT
note('before', t0)
print(len(A.data['ops']), 'operations')
A.done()
