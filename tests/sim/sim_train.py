#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sim_train.py: the patterns of sim-train with Python frames above them (ctypes, mstx, torch_npu._C).

The truth has the same format; it is written by the same libraries. --root is the build folder of
tests/sim (default: SIM_ROOT, or this file's folder)."""
import argparse
import ctypes
import os
import random
import signal
import sys
import sysconfig
import threading


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument('--root', default=os.environ.get('SIM_ROOT', os.path.dirname(os.path.abspath(__file__))))
    p.add_argument('--steps', type=int, default=10)
    p.add_argument('--devices', type=int, default=1)
    p.add_argument('--threads', type=int, default=1)
    p.add_argument('--ranks', type=int, default=0)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--layers', type=int, default=4)
    p.add_argument('--layout', default='c')
    p.add_argument('--site', action='store_true',
                   help='torch and torch_npu from the site-packages of this Python, not by LD_LIBRARY_PATH')
    p.add_argument('--truth')
    p.add_argument('--leak', action='store_true')
    p.add_argument('--tour', action='store_true', help='each thread sets every device before its own')
    p.add_argument('--oom', action='store_true')
    p.add_argument('--load', action='store_true', help='all libraries and modules before READY')
    p.add_argument('--wait', action='store_true')
    p.add_argument('--quiet', action='store_true')
    return p.parse_args()


def restart_with_libraries(a):
    """The loader reads LD_LIBRARY_PATH at start only."""
    if os.environ.get('SIM_TRAIN_STARTED'):
        return
    r = os.path.abspath(a.root)
    path = [os.environ.get('LD_LIBRARY_PATH', ''), r + '/cann/lib64']
    if not a.site:
        path += [r + '/torch/lib', '%s/torch_npu_%s/lib' % (r, a.layout), r + '/mindspore/lib']
    os.environ['LD_LIBRARY_PATH'] = ':'.join(x for x in path if x)
    os.environ['SIM_TRAIN_STARTED'] = '1'
    if a.truth:
        os.environ['SIM_TRUTH'] = a.truth
    os.execv(sys.executable, [sys.executable] + sys.argv)


stopping = threading.Event()  # SIGTERM: no further step, as in sim-train


class Stack:
    """The loaded libraries."""

    def __init__(self, root, site=None):
        g = ctypes.RTLD_GLOBAL
        self.truth = ctypes.CDLL('libsim_truth.so', mode=g)
        self.acl = ctypes.CDLL('libascendcl.so', mode=g)
        self.tools = ctypes.CDLL('libms_tools_ext.so', mode=g)
        if site:
            # As `import torch` and `import torch_npu` load them: by their paths.
            ctypes.CDLL(site + '/torch/lib/libc10.so', mode=g)
            self.npu = ctypes.CDLL(site + '/torch_npu/lib/libtorch_npu.so', mode=g)
        else:
            self.npu = ctypes.CDLL('libtorch_npu.so', mode=g)
        self.npu.sim_npu_try_malloc.restype = ctypes.c_void_p
        self.npu.sim_npu_try_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
        self.npu.sim_npu_free.argtypes = [ctypes.c_void_p]
        self.npu.sim_npu_op.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
        self.npu.sim_npu_sync.argtypes = [ctypes.c_void_p]
        self.tools.mstxRangeStartA.restype = ctypes.c_uint64
        self.tools.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        self.tools.mstxRangeEnd.argtypes = [ctypes.c_uint64]
        if not site:
            sys.path.insert(0, os.path.join(root, 'python'))
        try:
            import mstx
            import torch_npu
            self.mstx, self.npu_mstx = mstx, torch_npu._C._mstx
        except ImportError:
            self.mstx = self.npu_mstx = None


class Tensor:
    """Owns a block of the caching allocator."""

    def __init__(self, stack, n, stream):
        self.stack = stack
        self.ptr = stack.npu.sim_npu_try_malloc(n, stream)
        if not self.ptr:
            raise MemoryError('NPU out of memory')

    def __del__(self):
        if getattr(self, 'ptr', None):
            self.stack.npu.sim_npu_free(self.ptr)
            self.ptr = None


def size_of(rng):
    k = rng.randrange(16)
    if k < 7:
        return 1 + rng.randrange(4000)
    if k < 11:
        return 4000 + rng.randrange(200000)
    if k < 15:
        return 200000 + rng.randrange(1800000)
    return (10 << 20) + rng.randrange(20 << 20)


def forward(s, rng, stream, layers):
    acts = []
    for _ in range(layers):
        acts.append(Tensor(s, size_of(rng), stream))
        s.npu.sim_npu_op(b'aclnnMatmul', stream, 65536 if rng.random() < .25 else 0)
    return acts


def backward(s, rng, stream, acts):
    grads = []
    while acts:
        grads.append(Tensor(s, size_of(rng), stream))
        s.npu.sim_npu_op(b'aclnnMul', stream, 0)
        acts.pop()
    return grads


def optimizer(s, rng, stream, grads):
    for _ in range(len(grads)):
        scratch = Tensor(s, 1 + rng.randrange(100000), stream)
        s.npu.sim_npu_op(b'aclnnApplyAdamWV2', stream, 0)
        del scratch
        grads.pop()


def train_step(s, rng, stream, layers):
    acts = forward(s, rng, stream, layers)
    grads = backward(s, rng, stream, acts)
    optimizer(s, rng, stream, grads)


def exhaust(s, stream):
    big = []
    try:
        while len(big) < 256:
            big.append(Tensor(s, 512 << 20, stream))
    except MemoryError:
        pass
    big.clear()
    s.npu.sim_npu_empty_cache()


def worker(s, a, rank, index, out):
    rng = random.Random(a.seed * 1000003 + rank * 1009 + index)
    stream, kept = ctypes.c_void_p(), []
    if a.tour:
        for device in range(a.devices):
            s.acl.aclrtSetDevice(device)
    if s.acl.aclrtSetDevice((rank + index) % a.devices) or s.acl.aclrtCreateStream(ctypes.byref(stream)):
        out.append('no device')
        return
    for step in range(a.steps):
        if stopping.is_set():
            break
        if s.mstx:
            r = s.mstx.range_start('step start', None)
        else:
            r = s.tools.mstxRangeStartA(b'step start', stream)
        train_step(s, rng, stream, a.layers)
        if s.npu_mstx:
            s.npu_mstx._mark_on_host('python step %d, "quoted"' % step, 'default')
        if a.leak:
            kept.append(Tensor(s, 4096, stream))
        if a.oom and step % 10 == 9:
            exhaust(s, stream)
        s.npu.sim_npu_sync(stream)
        if s.mstx:
            s.mstx.mark(message='step %d done' % step)
            s.mstx.range_end(r)
        else:
            s.tools.mstxRangeEnd(r)


def run(a, rank):
    s, out = Stack(a.root, sysconfig.get_path('purelib') if a.site else None), []
    n = ctypes.c_uint32()
    s.acl.aclInit(None)
    s.acl.aclrtGetDeviceCount(ctypes.byref(n))
    s.npu.sim_npu_init(n.value)
    threads = [threading.Thread(target=worker, args=(s, a, rank, i, out)) for i in range(1, a.threads)]
    for t in threads:
        t.start()
    worker(s, a, rank, 0, out)
    for t in threads:
        t.join()
    s.acl.aclFinalize()
    for line in out:
        print('sim_train.py:', line, file=sys.stderr)
    return 1 if out else 0


def main():
    a = arguments()
    restart_with_libraries(a)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    if a.load:
        Stack(a.root, sysconfig.get_path('purelib') if a.site else None)
    print('READY', os.getpid(), flush=True)
    if a.wait:
        sys.stdin.readline()
    rc = 0
    if a.ranks:
        for i in range(a.ranks):
            pid = os.fork()
            if not pid:
                sys.exit(run(a, i))
            print('RANK', i, pid, flush=True)
        for _ in range(a.ranks):
            rc |= os.waitstatus_to_exitcode(os.wait()[1]) != 0
    else:
        rc = run(a, 0)
    print('DONE', flush=True)
    if a.wait:
        sys.stdin.readline()
    return int(rc)


if __name__ == '__main__':
    sys.exit(main())
