# SPDX-License-Identifier: Apache-2.0
"""Ways into the allocator beside tensors: external blocks, a memory pool, a graph, pinned loaders."""
import ctypes
import os

import account

A = account.Account()
torch = A.torch
import torch_npu  # noqa: E402

lib = ctypes.CDLL(os.path.dirname(torch_npu.__file__) + '/lib/libtorch_npu.so')
NAME = '_ZN7c10_npu19NPUCachingAllocator'
failures = 0


def attempt(name, function):
    try:
        print(name, function())
    except Exception as e:  # not every release has each of them
        print(name, 'not here:', type(e).__name__)


def external():
    make, free = lib[NAME + '11MallocBlockEmPvi'], lib[NAME + '9FreeBlockEPv']
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    for n in (1, 123456, 5 << 20):
        block = make(n, A.npu.current_stream().npu_stream, 0)
        free(block)
    return A.stats()['mallocs'] - A.base[0]['mallocs']


def pool():
    with A.npu.use_mem_pool(A.npu.MemPool()):
        x = torch.empty(1 << 20, device='npu')
    return x.numel()


def graph():
    g, x = A.npu.NPUGraph(), torch.zeros(1000, device='npu')
    with A.npu.graph(g):
        y = x + x
    g.replay()
    return tuple(y.shape)


def loader():
    data, n = torch.utils.data.TensorDataset(torch.randn(64, 8)), 0
    for (b,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        n += b.npu().shape[0]
    return n


A.ready()
for f in (external, pool, graph, loader):
    attempt(f.__name__, f)
A.done()
