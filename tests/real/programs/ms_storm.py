# SPDX-License-Identifier: Apache-2.0
"""Random allocations and frees one at a time, among them pinned and CPU tensors, refused requests,
two streams and emptied caches; the statistics after each. ms_storm.py [OPERATIONS]"""
import random
import sys

import ms_account
from account import boot

A = ms_account.Account()
ms, runtime = A.ms, A.runtime
second = runtime.Stream()
rng = random.Random(7)
live, hosts, refused = [], [], 0


def size():
    kind = rng.random()
    if kind < 0.4:
        return rng.randrange(1, 4096)
    if kind < 0.9:
        return rng.randrange(1, 1 << 20)
    return rng.randrange(1 << 20, 24 << 20)


def host():
    """Of the host: never device memory."""
    n = rng.randrange(1, 1 << 20)
    before = A.stats()
    hosts.append(A.empty(n, 'CPU') if rng.random() < 0.5 else A.empty(n, 'CPU').pin_memory())
    if len(hosts) > 8:
        hosts.pop(0)
    assert A.stats() == before


def refuse():
    global refused
    try:
        A.empty(1 << 50)
    except RuntimeError:
        refused += 1


A.ready()
for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
    t0 = boot()
    if i % 10 == 3:
        host()
    elif i % 97 == 50:
        refuse()
        A.op('X', 0, 1 << 50, t0)
    elif i % 211 == 100:
        runtime.empty_cache()
        A.op('E', 0, 0, t0)
    elif live and rng.random() < 0.48:
        tensor, address, n = live.pop(rng.randrange(len(live)))
        del tensor
        A.op('F', address, n, t0)
    else:
        n = size()
        if rng.random() < 0.3:
            with runtime.StreamCtx(second):
                live.append((A.empty(n), 0, n))
        else:
            live.append((A.empty(n), 0, n))
        live[-1] = (live[-1][0], live[-1][0].data_ptr(), n)
        A.op('M', live[-1][1], n, t0)
print(len(live), 'left', refused, 'refused')
A.done()
