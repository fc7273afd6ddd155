# SPDX-License-Identifier: Apache-2.0
"""The training that the vendor's tool was run on with accesses (tests/offline/data/access), without marks."""
import warnings

warnings.filterwarnings('ignore')
import torch  # noqa: E402
import torch_npu  # noqa: E402,F401

torch.manual_seed(1)
torch.npu.init()
torch.npu.memory_stats()
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.MSELoss()
X, Y, kept = torch.randn(32, 64), torch.randn(32, 8), []
for s in range(1, 4):
    optimizer.zero_grad()
    loss = loss_of(model(X.npu()), Y.npu())
    loss.backward()
    optimizer.step()
    if s >= 2:
        kept.append(torch.empty(300000 + s, dtype=torch.uint8, device='npu'))
del loss
torch.npu.synchronize()
print('end', torch.npu.memory_allocated())
