# SPDX-License-Identifier: Apache-2.0
"""Blocks that other streams still use when they are freed: record_stream, streams, events."""
import time

import account

A = account.Account()
torch, npu = A.torch, A.npu
side = [npu.Stream() for _ in range(3)]
A.ready()
pending = 0
for i in range(12):
    s = side[i % 3]
    n = (5 << 20) + (i << 18)
    t0 = account.boot()
    x = torch.empty(n, dtype=torch.uint8, device='npu')
    address = x.data_ptr()
    A.op('M', address, n, t0)
    with npu.stream(s):
        t0 = account.boot()
        y = torch.empty(1 << 20, dtype=torch.uint8, device='npu')
        A.op('M', y.data_ptr(), 1 << 20, t0)
    x.record_stream(s)
    t0 = account.boot()
    del x
    A.op('F', address, n, t0)
    after = A.stats()
    pending += after['active'] > after['allocated']
    address = y.data_ptr()
    t0 = account.boot()
    del y
    A.op('F', address, 1 << 20, t0)
    if i % 4 == 3:
        time.sleep(0.15)  # the events complete
e, f = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
e.record()
f.record()
f.synchronize()
A.npu.synchronize()
time.sleep(0.15)
t0 = account.boot()
z = torch.empty(100, dtype=torch.uint8, device='npu')
A.op('M', z.data_ptr(), 100, t0)
s = A.stats()
print('streams', pending, s['allocated'], s['active'], s['mallocs'], s['frees'])
A.done()
