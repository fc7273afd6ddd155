# SPDX-License-Identifier: Apache-2.0
"""Four threads that allocate and free, each on its own stream; all rest, and the statistics, in between."""
import random
import threading

import ms_account
from account import boot

A = ms_account.Account()
N = 4
barrier, done = threading.Barrier(N + 1), threading.Event()


def work(number):
    rng, live, stream = random.Random(number), [], A.runtime.Stream()
    with A.runtime.StreamCtx(stream):
        for _ in range(5):
            barrier.wait()
            for _ in range(60):
                if live and rng.random() < 0.45:
                    live.pop(rng.randrange(len(live)))
                else:
                    live.append(A.empty(rng.randrange(1, 1 << 19)))
            barrier.wait()
        barrier.wait()
    done.wait()


threads = [threading.Thread(target=work, args=(i,)) for i in range(N)]
A.ready()
for t in threads:
    t.start()
for _ in range(5):
    start = boot()
    barrier.wait()
    barrier.wait()
    A.rest('round', start)
barrier.wait()
print(len(A.data['ops']), 'rounds')
A.done()
done.set()
for t in threads:
    t.join()
