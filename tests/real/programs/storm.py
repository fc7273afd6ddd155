# SPDX-License-Identifier: Apache-2.0
"""Random allocations and frees of all sizes, the counters written down after each one."""
import random
import sys

import account

N = int(sys.argv[1]) if len(sys.argv) > 1 else 2500
SIZES = [1, 100, 511, 512, 5000, 1 << 18, 1 << 20, (1 << 20) - 1, 3 << 20, 12 << 20, 30 << 20]

A = account.Account()
torch = A.torch
random.seed(7)
live = []
A.ready()
for i in range(N):
    t0 = account.boot()
    if live and random.random() < 0.48:
        p = live.pop(random.randrange(len(live)))
        address, n = p.data_ptr(), p.numel()
        del p
        A.op('F', address, n, t0)
    else:
        n = random.choice(SIZES)
        p = torch.empty(n, dtype=torch.uint8, device='npu')
        live.append(p)
        A.op('M', p.data_ptr(), n, t0)
s = A.stats()
print('storm', N, len(live), s['allocated'], s['reserved'], s['active'], s['mallocs'], s['frees'])
A.done()
