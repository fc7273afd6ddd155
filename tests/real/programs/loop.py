# SPDX-License-Identifier: Apache-2.0
"""Trains from READY on until a line comes, tells each step; notes when each step was and how much had happened."""
import sys
import threading
import time

import account

PERIOD = int(sys.argv[1])  # steps from one emptying of the cache to the next
A = account.Account()
torch = A.torch
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.LayerNorm(512),
                            torch.nn.Linear(512, 10)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
large = torch.empty(30 << 20, dtype=torch.uint8, device='npu')
kept, stop = [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
A.ready(wait=False)
steps = 0
while not stop.is_set():
    A.npu.synchronize()
    before, t0 = A.stats(), account.boot()
    optimizer.zero_grad()
    loss = loss_of(model(x.npu()), y.npu())
    loss.backward()
    optimizer.step()
    # blocks that outlive a window
    kept.append(torch.empty(5000 + steps % 7 * 3000, device='npu'))
    if len(kept) > 40:
        kept.pop(0)
    A.npu.synchronize()
    after = A.stats()
    A.data['ops'].append(['step', before['mallocs'] + before['frees'], after['mallocs'] + after['frees'], t0,
                          account.boot(), after])
    steps += 1
    print('step', steps, flush=True)
    time.sleep(0.003)
    if steps % PERIOD == PERIOD // 2:
        del kept[:]
        del large
        A.npu.empty_cache()
        large = torch.empty(30 << 20, dtype=torch.uint8, device='npu')
print('loop', tuple(loss.shape))
A.done()
