# SPDX-License-Identifier: Apache-2.0
"""Training steps with gradients on the runtime's own threads, tensors that cross streams, and an
evaluation in between. ms_train.py [STEPS]"""
import sys

import numpy

import ms_account
from account import boot

A = ms_account.Account()
ms, mint, runtime = A.ms, A.mint, A.runtime
second = runtime.Stream()


class Net(ms.nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = ms.Parameter(ms.Tensor(numpy.ones((256, 512), numpy.float32)), name='a')
        self.b = ms.Parameter(ms.Tensor(numpy.ones((512, 64), numpy.float32)), name='b')

    def construct(self, x):
        return mint.matmul(mint.nn.functional.relu(mint.matmul(x, self.a)), self.b)


net = Net()
weights = [net.a, net.b]
step = ms.value_and_grad(lambda x, y: mint.mean(mint.square(net(x) - y)), None, weights=weights)
rng = numpy.random.default_rng(3)


def batch(n):
    return [ms.Tensor(rng.random(shape, numpy.float32)) for shape in ((n, 256), (n, 64))]


step(*batch(8))
A.rest('warm', boot())
del A.data['ops'][:]
A.ready()
for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40):
    t0 = boot()
    loss, grads = step(*batch(16 + i % 5))
    for w, g in zip(weights, grads):
        mint.sub(w, g, alpha=0.001)
    del loss, grads, g
    if i % 4 == 0:
        # used by a stream that it does not belong to: freed only when that stream is done
        x = batch(32)[0].move_to('Ascend')
        with runtime.StreamCtx(second):
            y = mint.add(x, x)
            z = mint.mul(y, x)
        del x
        out = mint.add(y, z)
        del y, z, out
    A.rest('step', t0)
print(len(A.data['ops']), 'steps')
A.done()
