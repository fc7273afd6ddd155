# SPDX-License-Identifier: Apache-2.0
"""Says READY before it imports anything of the framework, then allocates and launches."""
import account

account.handshake('READY')
A = account.Account(early=True)
torch = A.torch
A.ready(wait=False, say=False)
x = [torch.ones(1000 * i + 1, device='npu') for i in range(50)]
y = sum(z.sum() for z in x)
del x
s = A.stats()
print('latecomer', tuple(y.shape), s['allocated'], s['reserved'], s['mallocs'], s['frees'])
A.done()
