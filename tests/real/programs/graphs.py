# SPDX-License-Identifier: Apache-2.0
"""Graph capture: private pools while a stream is captured, replays, shared pools, training by graphs."""
import account

A = account.Account()
torch, npu = A.torch, A.npu


def train():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).npu()
    x = torch.ones(16, 64, device='npu', requires_grad=True)
    step = npu.make_graphed_callables(model, (x,))
    for _ in range(3):
        step(x).sum().backward()
    return len(list(model.parameters()))


A.ready()
x = torch.zeros(300000, device='npu')
one, two = npu.NPUGraph(), npu.NPUGraph()
with npu.graph(one):
    y = x + x
    z = (y * y).relu()
    del y
with npu.graph(two, pool=one.pool()):
    w = z + 1
for _ in range(4):
    one.replay()
    two.replay()
    v = torch.empty(1000, device='npu')  # beside the graphs' pool
captured = A.stats()
del w, z
two.reset()
one.reset()
npu.synchronize()
npu.empty_cache()
A.data['clear'].append([0, 0, A.stats()])
try:
    print('train', train())
except Exception as e:  # not every release can capture a backward pass
    print('train', 'not here:', type(e).__name__, str(e).splitlines()[0])
npu.synchronize()
s = A.stats()
print('graphs', captured['allocated'], captured['reserved'], s['allocated'], s['mallocs'], s['segment_mallocs'])
A.done()
