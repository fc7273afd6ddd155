# SPDX-License-Identifier: Apache-2.0
"""
A model trained with an optimizer: owners.py MODEL OPTIMIZER [STEPS] [SECONDS] [late]

The memory of its parameters, their gradients and the optimizer's state at the end of each step stands
in the account ('steps': when, then kind, address, bytes of each), and SECONDS go by before the next.
MODEL: mlp, cnn, transformer, checkpoint, fsdp (sharded: parameters are DTensors). OPTIMIZER: sgd, adam, adamw, each with -foreach, -fused; npu
(torch_npu's own, which puts all parameters into one piece of memory); none (only forward).
late: the model is made before READY, so that its weights are older than the attach.
"""
import os
import sys
import time

import account

MODEL, OPTIMIZER = sys.argv[1:3]
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 12
PAUSE = float(sys.argv[4]) if len(sys.argv) > 4 else 0.15
LATE = 'late' in sys.argv[5:]

A = account.Account()
torch = A.torch
nn = torch.nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)
        return x + self.feed(x)


class Checkpointed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])

    def forward(self, x):
        for b in self.blocks:
            x = torch.utils.checkpoint.checkpoint(b, x, use_reentrant=False)
        return x


def make():
    if MODEL == 'mlp':
        return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), (32, 64)
    if MODEL == 'cnn':
        return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32),
                             nn.ReLU(), nn.Flatten(), nn.Linear(32 * 144, 10)), (8, 3, 16, 16)
    if MODEL == 'checkpoint':
        return Checkpointed(128), (2, 32, 128)
    return nn.Sequential(*[Block(128) for _ in range(3)]), (2, 32, 128)


def shard(whole):
    """FSDP2 on a group of one."""
    from torch.distributed._composable.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    store = f'{os.environ["REAL_OUT"]}.store.{os.getpid()}'
    torch.distributed.init_process_group('hccl', init_method=f'file://{store}', rank=0, world_size=1)
    mesh = init_device_mesh('npu', (1,))
    for part in whole:
        fully_shard(part, mesh=mesh)
    fully_shard(whole, mesh=mesh)


def optimize(parameters):
    name, _, how = OPTIMIZER.partition('-')
    kinds = {'sgd': (torch.optim.SGD, {'lr': 1e-3, 'momentum': 0.9}), 'adam': (torch.optim.Adam, {}), 'adamw': (torch.optim.AdamW, {})}
    if name == 'none':
        return None
    if name == 'npu':
        from torch_npu.optim import NpuFusedAdamW
        return NpuFusedAdamW(parameters)
    make_it, options = kinds[name]
    return make_it(parameters, **options, **({how: True} if how else {}))


def memory(kind, tensor):
    if tensor is not None and tensor.device.type == 'npu':
        s = getattr(tensor, '_local_tensor', tensor).untyped_storage()
        yield [kind, s.data_ptr(), s.nbytes()]


def owned():
    for p in model.parameters():
        yield from memory('weight', p)
        yield from memory('gradient', p.grad)
    for state in optimizer.state.values() if optimizer else ():
        for v in state.values():
            if torch.is_tensor(v):
                yield from memory('optimizer_state', v)
    for b in model.buffers():
        yield from memory('buffer', b)


model, shape = make()
if LATE:
    model = model.npu()
A.ready()
model = model.npu()
if MODEL == 'fsdp':
    shard(model)
optimizer = optimize(model.parameters())
A.data['steps'] = []
for i in range(STEPS):
    x = torch.ones(shape).npu()
    if optimizer:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    else:
        with torch.no_grad():
            model(x)
    A.npu.synchronize()
    A.data['steps'].append([account.boot(), list(owned())])
    time.sleep(PAUSE)
del x
s = A.stats()
print('owners', MODEL, OPTIMIZER, STEPS, len(A.data['steps'][-1][1]), s['allocated'])
A.done()
if MODEL == 'fsdp':  # its group would wait for others
    os._exit(0)
