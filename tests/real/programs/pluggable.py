# SPDX-License-Identifier: Apache-2.0
"""An allocator of the user in place of torch_npu's: pluggable.py LIBRARY (of pluggable.c)."""
import ctypes
import sys

import account

import torch  # noqa: E402
import torch_npu  # noqa: E402

path = sys.argv[1]
torch_npu.npu.memory.change_current_allocator(
    torch_npu.npu.memory.NPUPluggableAllocator(path, 'own_malloc', 'own_free'))


class Own(ctypes.Structure):
    _fields_ = [('mallocs', ctypes.c_uint64), ('frees', ctypes.c_uint64), ('addresses', ctypes.c_uint64 * 4096),
                ('sizes', ctypes.c_uint64 * 4096)]


own = Own.in_dll(ctypes.CDLL(path), 'own')
torch.empty(1, device='npu')
torch.npu.synchronize()
before = own.mallocs, own.frees
account.handshake('READY')
kept = []
for i in range(40):
    x = torch.empty(1000 * i + 1, device='npu')
    kept.append(x + x)
    if i % 3 == 2:
        del kept[0]
torch.npu.synchronize()
n = own.mallocs
print('pluggable', n - before[0], own.frees - before[1])
account.save({'own': [[own.addresses[i], own.sizes[i]] for i in range(before[0], n)], 'base': [{}],
              'frees': own.frees - before[1]})
account.handshake('DONE')
