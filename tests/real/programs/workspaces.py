# SPDX-License-Identifier: Apache-2.0
"""Operators with workspaces of several sizes (SIM_WS_BYTES) on streams of two devices, from a thread each."""
import threading

import account

A = account.Account(devices=2)
torch, npu = A.torch, A.npu


def work(device, n):
    npu.set_device(device)
    x = torch.ones(1000, device=device)
    npu.synchronize()
    for i in range(n):
        x = x + x  # the largest, at last: growth
        x = x * x
    npu.synchronize()


def streams(device, ways, n):
    """Streams of one device by turns, from one thread each: their uses may overlap."""
    npu.set_device(device)
    start = threading.Barrier(ways)

    def one():
        npu.set_device(device)
        with npu.stream(npu.Stream()):
            x = torch.ones(1000, device=device)
            start.wait()
            for _ in range(n):
                x = (x * x).relu() + 1
            npu.synchronize()

    threads = [threading.Thread(target=one) for _ in range(ways)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


A.ready()
work('npu:0', 30)
for k in range(2):
    streams('npu:0', 3, 60)
    work('npu:1', 20)
    npu.set_device('npu:0')
    npu.synchronize()
    npu.empty_cache()
s = [A.stats(d) for d in range(2)]
print('workspaces', *[(x['allocated'], x['mallocs'], x['frees']) for x in s])
A.done()
