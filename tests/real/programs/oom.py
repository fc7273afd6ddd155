# SPDX-License-Identifier: Apache-2.0
"""Runs out of device memory again and again, in Python, in backward and in a thread, and goes on."""
import gc
import threading

import account

GIB = 1 << 30

A = account.Account()
torch = A.torch
caught = []


def fill(chunk):
    kept = []
    try:
        while True:
            kept.append(torch.empty(chunk, dtype=torch.uint8, device='npu'))
    except RuntimeError as e:
        caught.append((type(e).__name__, len(kept), 'out of memory' in str(e)))


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return torch.empty(64 * GIB, dtype=torch.uint8, device='npu')[:1]


A.ready()
fill(2 * GIB)
gc.collect()
fill(3 * GIB)
gc.collect()
t = threading.Thread(target=fill, args=(GIB,))
t.start()
t.join()
x = torch.ones(1, device='npu', requires_grad=True)
try:
    Greedy.apply(x).backward()
except RuntimeError as e:
    caught.append((type(e).__name__, -1, 'out of memory' in str(e)))
gc.collect()
alive = torch.empty(1 << 20, device='npu')
s = A.stats()
for c in caught:
    print('caught', *c)
print('oom', s['ooms'], s['retries'], s['allocated'], s['mallocs'], s['frees'])
A.done()
