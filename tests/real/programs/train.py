# SPDX-License-Identifier: Apache-2.0
"""A training loop: convolution, norms, linear layers, autograd, Adam, checkpoint, pinned input."""
import sys

import account

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 15

A = account.Account()
torch = A.torch
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Dropout(), torch.nn.Linear(8 * 900, 256), torch.nn.LayerNorm(256), torch.nn.GELU(),
    torch.nn.Linear(256, 10))
A.ready()
model = model.npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
x = torch.randn(16, 3, 32, 32).pin_memory()
y = torch.randint(0, 10, (16,))
for i in range(STEPS):
    optimizer.zero_grad()
    loss = loss_of(model(x.npu(non_blocking=True)), y.npu())
    loss.backward()
    optimizer.step()
extra = torch.utils.checkpoint.checkpoint(
    model[5], torch.ones(4, 8 * 900, device='npu', requires_grad=True), use_reentrant=False).sum()
extra.backward()
A.npu.synchronize()
s = A.stats()
print('train', STEPS, tuple(loss.shape), s['allocated'], s['reserved'], s['mallocs'], s['frees'],
      A.npu.max_memory_allocated())
A.done()
