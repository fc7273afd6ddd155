# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing in both ways, nested, and activations that are kept on the host."""
import account

A = account.Account()
torch = A.torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.inner = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))

    def forward(self, x):
        if self.reentrant is None:
            return x + self.inner(x)
        return x + checkpoint(self.inner, x, use_reentrant=self.reentrant)


peaks = []
A.ready()
for way in (None, True, False):
    model = torch.nn.Sequential(*[Block(way) for _ in range(6)]).npu()
    x = torch.ones(64, 256, device='npu', requires_grad=True)
    A.npu.synchronize()
    A.npu.reset_peak_memory_stats()
    start = A.npu.memory_allocated()
    for _ in range(3):
        model(x).sum().backward()
    A.npu.synchronize()
    peaks.append(A.npu.max_memory_allocated() - start)
model = torch.nn.Sequential(*[Block(False) for _ in range(6)]).npu()
checkpoint(lambda y: checkpoint_sequential(model, 3, y, use_reentrant=False), x, use_reentrant=False).sum().backward()
with torch.autograd.graph.save_on_cpu(pin_memory=True):
    out = model(x).sum()
out.backward()
A.npu.synchronize()
A.data['peaks'] = peaks
s = A.stats()
print('checkpoint', peaks, s['allocated'], s['mallocs'], s['frees'])
A.done()
