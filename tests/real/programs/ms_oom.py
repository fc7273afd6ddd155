# SPDX-License-Identifier: Apache-2.0
"""The device is full: refused, something is given back, and on. With SIM_HBM_BYTES."""
import ms_account
from account import boot

A = ms_account.Account()
live, refused, gone = [], 0, 0
BLOCK = 300 << 20
A.ready()
for i in range(40):
    t0 = boot()
    try:
        t = A.empty(BLOCK + i)
    except RuntimeError:
        refused += 1
        A.op('X', 0, BLOCK + i, t0)
        if refused % 2 == 0:
            t0 = boot()
            address, n = live[0].data_ptr(), live[0].shape[0]
            del live[0]
            gone += 1
            A.op('F', address, n, t0)
        if refused % 5 == 0:
            A.runtime.empty_cache()
        continue
    live.append(t)
    del t
    A.op('M', live[-1].data_ptr(), BLOCK + i, t0)
print(len(live), 'left', refused, 'refused', gone, 'freed')
A.done()
