# SPDX-License-Identifier: Apache-2.0
"""For the bench: trains from READY on until a line comes and notes when each step began and ended."""
import sys
import threading
import time

import account

A = account.Account(history=False)
torch = A.torch
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(16 * 900, 512), torch.nn.LayerNorm(512), torch.nn.GELU(), torch.nn.Linear(512, 10)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
A.ready(wait=False)
while not stop.is_set():
    t0, c0 = account.boot(), time.process_time_ns()
    optimizer.zero_grad()
    loss_of(model(x.npu()), y.npu()).backward()
    optimizer.step()
    A.npu.synchronize()
    A.data['ops'].append([t0, account.boot(), time.process_time_ns() - c0])
A.done()
