# SPDX-License-Identifier: Apache-2.0
"""Threads that allocate at once, on two devices, each also with operators and failing requests."""
import sys
import threading

import account

THREADS, N = 6, int(sys.argv[1]) if len(sys.argv) > 1 else 250

A = account.Account(devices=2)
torch = A.torch
failed = [0] * THREADS


def work(k):
    device = f'npu:{k % 2}'
    A.npu.set_device(device)
    kept = []
    for i in range(N):
        a = torch.empty(1000 * (k + 1) + 37 * i, device=device)
        b = a + a
        if i % 9 == 0:
            kept.append(b)
        if i % 50 == 7:
            try:
                torch.empty(1 << 60, dtype=torch.uint8, device=device)
            except RuntimeError:
                failed[k] += 1


A.ready()
threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
A.npu.synchronize()
for d in range(2):
    s = A.stats(d)
    print('threads', d, s['allocated'], s['mallocs'], s['frees'])
print('failed', failed)
A.done()
