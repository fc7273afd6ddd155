# SPDX-License-Identifier: Apache-2.0
"""Training, first under a TorchDispatchMode that logs each operator and its tensors, then alone the same."""
import sys
import threading

import account

A = account.Account()
torch = A.torch
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402

WHICH, STEPS = sys.argv[1], int(sys.argv[2])


def describe(x):
    return [x.data_ptr(), str(x.dtype), list(x.shape)]


class Log(TorchDispatchMode):
    """What the vendor's tool would see (msleaks.md 12.5)."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        given = {a.name: v for a, v in zip(schema.arguments, args)}
        given.update(kwargs)
        reads = []
        for a in schema.arguments:
            write = a.alias_info is not None and a.alias_info.is_write
            value = given.get(a.name)
            for x in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(x, torch.Tensor) and x.device.type == 'npu':
                    reads.append([write] + describe(x))
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        begin = account.boot()
        out = func(*args, **kwargs)
        results = out if isinstance(out, (tuple, list)) else [out]
        results = [describe(x) for x in results if isinstance(x, torch.Tensor) and x.device.type == 'npu']
        self.ops.append([str(func), view, reads, results, begin, threading.get_native_id()])
        return out


torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
    torch.nn.Linear(8 * 225, 256), torch.nn.LayerNorm(256), torch.nn.GELU(), torch.nn.Linear(256, 10)).npu()
if WHICH == 'sgd':
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=WHICH == 'foreach')
loss_of = torch.nn.CrossEntropyLoss()
X, Y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
W = torch.randn(4, 7, 256).npu()


def step():
    x, y = X.npu(), Y.npu()
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    if WHICH != 'forward':  # under a mode torch_npu before 2.3 has no gradients
        loss.backward()
        optimizer.step()
    # three dimensions, views, in place, several results, no gradients
    h = torch.nn.functional.linear(W, model[5].weight[:, :256])
    h.add_(1)[0].mul_(2)
    h = h.detach()
    torch.add(h, h, out=torch.empty_like(h))
    values, _ = torch.sort(h.reshape(-1))
    torch.cat([values[:10], values[10:20]]).max()
    with torch.no_grad():
        torch.softmax(h, -1).sum(0).contiguous().to(torch.float16)
    with torch.inference_mode():
        torch.nn.functional.linear(W, model[5].weight[:, :256]).sum()
    return tuple(loss.shape)


for _ in range(2):
    step()  # buffers of the optimizer
A.npu.synchronize()
A.ready()
A.data['phases'] = []
for logged in (True, False):
    log, begin = Log(), account.boot()
    if logged:
        with log:
            for _ in range(STEPS):
                shape = step()
    else:
        for _ in range(STEPS):
            shape = step()
    A.npu.synchronize()
    A.data['phases'].append({'begin': begin, 'end': account.boot(), 'ops': log.ops})
print('ops', WHICH, shape)
A.done()
