# SPDX-License-Identifier: Apache-2.0
"""Gives unused segments back to the driver at known times."""
import account

A = account.Account()
torch = A.torch
A.ready()
for i in range(4):
    kept = [torch.empty((1 << 20) * n, dtype=torch.uint8, device='npu') for n in (1, 3, 12, 25, 40)]
    one = kept[i]
    del kept
    t0 = account.boot()
    A.npu.empty_cache()
    A.data['clear'].append([t0, account.boot(), A.stats()])
    del one
t0 = account.boot()
A.npu.empty_cache()
A.data['clear'].append([t0, account.boot(), A.stats()])
s = A.stats()
print('empty_cache', s['allocated'], s['reserved'], s['segment_mallocs'], s['segment_frees'])
A.done()
