# SPDX-License-Identifier: Apache-2.0
"""A training job to look at: prints READY <pid>, trains until it is killed. For scripts/quickstart.sh."""
import os
import time
import warnings

warnings.filterwarnings('ignore')

import torch  # noqa: E402
import torch_npu  # noqa: E402,F401

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(32 * 15 * 15, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).npu()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
print('READY', os.getpid(), flush=True)
while True:
    optimizer.zero_grad()
    loss_of(model(x.npu()), y.npu()).backward()
    optimizer.step()
    time.sleep(0.02)
