# SPDX-License-Identifier: Apache-2.0
"""A job that runs on: ten operations a step with the statistics after each, until a line comes."""
import os
import random
import select
import sys
import time

import ms_account
from account import boot

A = ms_account.Account()
rng, live = random.Random(5), []
A.ready(wait=False)
while not os.environ.get('REAL_WAIT') or not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(10):
        t0 = boot()
        if live and (rng.random() < 0.5 or len(live) > 50):
            tensor, address, n = live.pop(rng.randrange(len(live)))
            del tensor
            A.op('F', address, n, t0)
        else:
            n = rng.randrange(1, 1 << 20)
            live.append((A.empty(n), 0, n))
            live[-1] = (live[-1][0], live[-1][0].data_ptr(), n)
            A.op('M', live[-1][1], n, t0)
    time.sleep(0.005)
    if len(A.data['ops']) > 100000:
        break
if os.environ.get('REAL_WAIT'):
    sys.stdin.readline()
print('ended')
A.done()
