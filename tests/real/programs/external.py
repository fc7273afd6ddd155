# SPDX-License-Identifier: Apache-2.0
"""Blocks as the graph engine takes them, by MallocBlock and FreeBlock, among those of tensors."""
import ctypes
import os

import account

A = account.Account()
torch = A.torch
import torch_npu  # noqa: E402

lib = ctypes.CDLL(os.path.dirname(torch_npu.__file__) + '/lib/libtorch_npu.so')


def function(name, result, *arguments):
    f = lib['_ZN7c10_npu19NPUCachingAllocator' + name]
    f.restype, f.argtypes = result, arguments
    return f


make = function('11MallocBlockEmPvi', ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int)
free = function('9FreeBlockEPv', None, ctypes.c_void_p)
address_of = function('11GetBlockPtrEPKv', ctypes.c_void_p, ctypes.c_void_p)
size_of = function('12GetBlockSizeEPKv', ctypes.c_size_t, ctypes.c_void_p)
stream = A.npu.current_stream().npu_stream
live, tensors, sizes = [], [], []
A.ready()
for i in range(60):
    n = (1, 511, 123456, 1 << 20, 5 << 20, 30 << 20)[i % 6]
    t0 = account.boot()
    block = make(n, stream, 0)
    A.op('M', address_of(block), n, t0)
    sizes.append(size_of(block))
    live.append((block, n))
    t0 = account.boot()
    tensors.append(torch.empty(n, dtype=torch.uint8, device='npu'))
    A.op('M', tensors[-1].data_ptr(), n, t0)
    if i % 3 == 2:
        block, n = live.pop(i % len(live))
        address, t0 = address_of(block), account.boot()
        free(block)
        A.op('F', address, n, t0)
        address, n, t0 = tensors[0].data_ptr(), tensors[0].numel(), account.boot()
        del tensors[0]
        A.op('F', address, n, t0)
A.data['sizes'] = sizes
s = A.stats()
print('external', sizes, s['allocated'], s['reserved'], s['mallocs'], s['frees'])
A.done()
