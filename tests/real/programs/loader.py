# SPDX-License-Identifier: Apache-2.0
"""Data loaders: workers by fork and by spawn, pinned batches, the same workers for two epochs."""
import account

import torch


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        return torch.full((3, 32, 32), float(i)), i


def main():
    A = account.Account()
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10)).npu()
    A.ready()
    n = 0
    for how, epochs in (('fork', 2), ('spawn', 1)):
        loader = torch.utils.data.DataLoader(
            Data(), batch_size=8, num_workers=2, pin_memory=True, pin_memory_device='npu',
            persistent_workers=True, multiprocessing_context=how)
        for _ in range(epochs):
            for x, y in loader:
                model(x.npu(non_blocking=True)).sum().backward()
                n += y.npu().numel()
        del loader
    A.npu.synchronize()
    s = A.stats()
    print('loader', n, s['allocated'], s['mallocs'])
    A.done()


if __name__ == '__main__':  # spawned workers import this file
    main()
