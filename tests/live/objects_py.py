# SPDX-License-Identifier: Apache-2.0
"""
Optimizers and modules that look like torch's: objects_py.py FOLDER GENERATION [LIBRARY]

FOLDER has the module tensor. Prints each tensor that has memory on the NPU, as "kind address bytes device",
then "ready", and at each line on stdin changes something and prints all again. In place of a line,
"storm": objects come and go, and collections run, until the next; "step": it goes by; "fork": a child begins; "block": a tensor lies where userfaultfd does not
answer.
"""
import collections
import ctypes
import fcntl
import gc
import itertools
import mmap
import os
import struct
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import tensor  # noqa: E402

GENERATION = int(sys.argv[2])
NPU = 20
if len(sys.argv) > 3:  # one that makes it a job on an NPU
    library = ctypes.CDLL(sys.argv[3])
addresses = itertools.count(0x124000400000, 0x1000)


class Tensor(tensor.TensorBase):
    pass


class Parameter(Tensor):
    pass


class Optimizer:
    __module__ = 'torch.optim.optimizer'

    def __init__(self, params):
        self.defaults = {'lr': 1}
        self._hooks = collections.OrderedDict()
        self.state = collections.defaultdict(dict)
        self.param_groups = []
        self.param_groups.append({'lr': 1, 'params': list(params), 'foreach': None})


class Mixin:
    pass


class Adam(Mixin, Optimizer):
    def __init__(self, params):
        super().__init__(params)
        self.more = 1


class Other(Adam):
    __slots__ = ('slot',)


class Module:
    __module__ = 'torch.nn.modules.module'

    def __init__(self):
        self.training = True
        self._parameters = {}
        self._buffers = collections.OrderedDict()
        self._modules = {}


class Impostor:
    """Has the name alone."""


Impostor.__name__ = 'Optimizer'


def make(cls=Tensor, size=4096, device=NPU, index=0, grad=None, address=None):
    a = next(addresses) if address is None else address
    return cls(a, size, device, index, GENERATION, grad), a, size, index


class Wrapper(Tensor):
    """As DTensor: without memory, around a tensor that has some."""
    __slots__ = ('_local_tensor', '_spec', '_unset')

    def __new__(cls, inner, grad=None):
        t = super().__new__(cls, (1 << 64) - 1, 0, NPU, 0, GENERATION, grad)
        t._local_tensor, t._spec = inner, 'spec'
        return t


class Around(Tensor):
    """The same, as an attribute."""

    def __new__(cls, inner):
        t = super().__new__(cls, 0, 0, NPU, 0, GENERATION)
        t.inner = [], inner
        t.inner = inner
        return t


known = {}


def say(kind, made):
    t, a, size, index = made
    known[a] = f'{kind} {a:x} {size} {index}'
    return t


def parameter(index=0, with_grad=True):
    grad = say('gradient', make(size=512, index=index)) if with_grad else None
    return say('weight', make(Parameter, 1024, index=index, grad=grad))


def state(p, optimizer, index=0):
    optimizer.state[p] = {'step': make(device=0)[0], 'exp_avg': say('optimizer_state', make(size=2048, index=index)),
                          'exp_avg_sq': say('optimizer_state', make(size=2048, index=index)), 'none': None,
                          'nested': {'list': [say('optimizer_state', make(index=index)), 3.5]}}


def optimizer(cls, n, index=0):
    params = [parameter(index, i % 3 > 0) for i in range(n)]
    o = cls(params)
    for p in params:
        state(p, o, index)
    return o


kept = [optimizer(Adam, 5), optimizer(Adam, 300, 1)]
kept[0].__dict__  # its values stand in a dict from here on
kept.append(optimizer(Other, 2))
kept[2].many = 1
for i in range(60):  # more than what instances have room for themselves
    setattr(kept[2], f'attribute{i}', i)
m = Module()
m._parameters['weight'] = parameter()
m._parameters['bias'] = None
m._buffers['running'] = say('buffer', make())
kept.append(m)
shared = say('weight', make(Parameter, 512))
m._parameters['shared'] = shared
kept[1].param_groups.append({'params': [shared], 'lr': 2})
wrapped = Wrapper(say('gradient', make(size=512)))
m._parameters['wrapped'] = Wrapper(say('weight', make(size=1024)), wrapped)
m._parameters['around'] = Around(Wrapper(say('weight', make(size=1536))))
m._parameters['deep'] = Around(Around(Around(make()[0])))  # deeper than is looked
m._parameters['megatron'] = say('weight', make(Parameter))
m._parameters['megatron'].main_grad = say('gradient', make(size=4096))
# Nobody's: not on the NPU, without memory, of a class that is no such.
m._buffers['host'] = make(device=0)[0]
m._buffers['meta'] = make(address=(1 << 64) - 1)[0]
m._buffers['empty'] = make(address=0)[0]
impostor = Impostor()
impostor.param_groups = [{'params': [make()[0]]}]
del kept[0].param_groups[0]['lr']  # a hole in the dict
circle = []
circle.append(circle)
kept[0].state['circle'] = {'a': circle}
gc.collect()


def tell():
    print('\n'.join(known.values()))
    print('ready', flush=True)


stop, busy = threading.Event(), None


def storm():
    alive = collections.deque(maxlen=2000)
    while not stop.is_set():
        for _ in range(500):
            alive.append([{}, [], set(), (lambda: 0)])
        gc.collect(0)
        gc.collect()


def block():
    """A parameter whose structure is on a page that nobody serves."""
    number = {'x86_64': 323, 'aarch64': 282}[os.uname().machine]
    uffd = ctypes.CDLL(None).syscall(number, 0o2000000)
    fcntl.ioctl(uffd, 0xc018aa3f, bytearray(struct.pack('QQQ', 0xaa, 0, 0)))  # UFFDIO_API
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fcntl.ioctl(uffd, 0xc020aa00, bytearray(struct.pack('QQQQ', at, mmap.PAGESIZE, 1, 0)))  # UFFDIO_REGISTER
    t = make(Parameter)[0]
    kept.append((page, uffd))
    m._parameters['blocked'] = t
    ctypes.c_uint64.from_address(id(t) + (16 if GENERATION == 2 else 24)).value = at


tell()
for line in sys.stdin:
    if line.strip() == 'storm':
        stop.clear()
        busy = threading.Thread(target=storm, daemon=True)
        busy.start()
    elif line.strip() == 'step':
        library.mstxRangeEnd(ctypes.c_uint64(library.mstxRangeStartA(b'step start', None)))
    elif line.strip() == 'fork':
        if not os.fork():
            time.sleep(100)
            os._exit(0)
    elif line.strip() == 'block':
        block()
    else:
        stop.set()
        if busy:
            busy.join()
        kept.append(optimizer(Adam, 3))
        o = kept.pop(1)
        for a in [a for a, v in known.items() if v.endswith(' 1')]:
            del known[a]
        del o
        kept.insert(1, optimizer(Adam, 10, 1))
        m._parameters['late'] = parameter()
        gc.collect()
    tell()
