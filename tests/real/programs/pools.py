# SPDX-License-Identifier: Apache-2.0
"""Private memory pools: their segments are their own, and go back to the driver with the pool."""
import threading

import account

A = account.Account()
torch, npu = A.torch, A.npu
kept = []


def fill(pool, *sizes):
    with npu.use_mem_pool(pool):
        return [torch.empty(n, dtype=torch.uint8, device='npu') for n in sizes]


def in_thread(pool):
    t = threading.Thread(target=lambda: kept.append(fill(pool, 3 << 20, 700)))
    t.start()
    t.join()


A.ready()
first, second = npu.MemPool(), npu.MemPool()
a = fill(first, 1000, 5 << 20, 1 << 20)
b = fill(second, 1000, 30 << 20)
outside = torch.empty(5 << 20, dtype=torch.uint8, device='npu')
del a[1], b[0]
a += fill(first, 4 << 20)
in_thread(first)
del kept[:]
with npu.use_mem_pool(first):
    x = torch.ones(100000, device='npu')
    y = x * x + x
del x, y, a
first = None  # whether empty_cache gives its segments back is the release's affair
npu.empty_cache()
again = npu.MemPool()
c = fill(again, 5 << 20)
s = A.stats()
print('pools', s['allocated'], s['reserved'], s['mallocs'], s['frees'], s['segment_mallocs'], s['segment_frees'])
A.done()
