# SPDX-License-Identifier: Apache-2.0
"""One rank of a distributed job on HCCL: collectives, a second group, training with DDP."""
import os

import account

rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
if 'TORCHELASTIC_RUN_ID' in os.environ:  # the launcher's ranks share an environment
    os.environ['REAL_OUT'] += f'.{rank}'
A = account.Account(devices=size, early='REAL_WAIT' not in os.environ, only=rank)
torch = A.torch
import torch.distributed as dist  # noqa: E402
import torch.nn.parallel.distributed as ddp  # noqa: E402

device = f'npu:{rank}'
A.ready()
dist.init_process_group('hccl')
x = torch.full((1 << 18,), rank + 1.0).to(device)
dist.all_reduce(x)
A.npu.synchronize()
total = x.cpu()[-1].item()  # copies and collectives move bytes, operators do not
gathered = [torch.empty_like(x) for _ in range(size)]
dist.all_gather(gathered, x)
out = torch.empty((1 << 18) // size, device=device)
dist.reduce_scatter_tensor(out, x)
dist.broadcast(x, 0)
half = dist.new_group(list(range(size)))
dist.all_reduce(out, group=half)
del gathered
# It compares what operators have copied, which write nothing here.
ddp._verify_param_shape_across_processes = lambda *a, **k: True
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)).to(device),
    device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.ones(32, 256, device=device)).sum().backward()
    optimizer.step()
dist.barrier()
A.npu.synchronize()
s = A.stats(rank)
print('rank', rank, 'of', size, total, s['allocated'], s['reserved'], s['mallocs'], s['frees'], flush=True)
A.done()
dist.destroy_process_group()
