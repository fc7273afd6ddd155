# SPDX-License-Identifier: Apache-2.0
"""A Python program on the simulated stack that uses the module msleaks: asks.py PART. Of tests/live."""
import ctypes
import importlib
import os
import sys
import threading
import time

G = ctypes.RTLD_GLOBAL
acl = ctypes.CDLL('libascendcl.so', mode=G)
tools = ctypes.CDLL('libms_tools_ext.so', mode=G)
npu = ctypes.CDLL('libtorch_npu.so', mode=G)
npu.sim_npu_try_malloc.restype = ctypes.c_void_p
npu.sim_npu_try_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
npu.sim_npu_free.argtypes = [ctypes.c_void_p]
npu.sim_npu_sync.argtypes = [ctypes.c_void_p]
npu.sim_npu_op.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
stream = ctypes.c_void_p()

name = os.environ.get('TOOLPKG', 'msleaks')
T = importlib.import_module(name)
D = importlib.import_module(name + '.describe').describer
free = npu.sim_npu_free


def malloc(n):
    return npu.sim_npu_try_malloc(n, stream)


def op():
    """Launched when this returns."""
    npu.sim_npu_op(b'aclnnMatmul', stream, 0)
    npu.sim_npu_sync(stream)


def begin():
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    npu.sim_npu_init(1)
    acl.aclrtSetDevice(0)
    acl.aclrtCreateStream(ctypes.byref(stream))


def wait(word):
    print(word, flush=True)
    sys.stdin.readline()


def windows():
    """As data/msleaks/real/custom."""
    a = malloc(4000)
    tools.mstxMarkA(b'before start', None)
    T.start()
    b = malloc(8000)
    c = malloc(8000)
    op()
    free(a)
    tools.mstxMarkA(b'before stop', None)
    T.stop()
    op()
    free(b)
    d = malloc(12000)
    T.start()
    e = malloc(16000)
    free(c)
    free(d)
    op()
    T.stop()
    free(e)


def starts():
    """Each start is followed by a launch at once."""
    for i in range(300):
        if i % 100 == 50:
            time.sleep(1.2)  # so that memtap hears of the stop, and pauses
        T.start()
        op()
        T.stop()
        op()


def labels():
    T.start()
    kept = []
    with D(owner='outer'):
        kept.append(malloc(1000))
        with D(owner='inner'):
            kept.append(malloc(2000))

    @D(owner='deco')
    def f():
        return malloc(3000)
    kept.append(f())
    with D(owner='l1'), D(owner='l2'), D(owner='l3'), D(owner='l4'):
        kept.append(malloc(5000))
        other = threading.Thread(target=lambda: acl.aclrtSetDevice(0) or kept.append(malloc(6000)))
        other.start()
        other.join()
    try:
        with D(owner='lost'):
            raise KeyError
    except KeyError:
        kept.append(malloc(7000))
    D(kept[-1], owner='obj')
    D([kept[-1], {'x': kept[0]}], owner='obj2')
    for p in kept:
        free(p)


def more():
    T.config('--events=launch')
    free(malloc(1000))
    T.config(events='alloc,free,launch', call_stack='c:5')
    p = malloc(2000)
    T.step()
    T.take_snapshot()
    T.take_snapshot(0, 'named')
    with T.TakeSnapshot('around'):
        q = malloc(3000)
    T.watcher.watch(None)
    T.watcher.remove(None)
    with T.RecordFunction('my function'):
        free(p)
    T.step()
    free(q)


def forked():
    T.start()
    pid = os.fork()
    p = malloc(1000)
    free(p)
    if not pid:
        T.stop()
        free(malloc(2000))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    T.stop()


def waits():
    """Traced by others, now and then."""
    from msleaks import _marks
    for word in sys.stdin:
        if word == 'traced\n':
            print(int(_marks.traced()), flush=True)
        elif word == 'work\n':
            T.step()
            free(malloc(1000))
            print('done', flush=True)


begin()
if os.environ.get('ASKS_WAIT'):
    wait('READY')
globals()[sys.argv[1]]()
acl.aclFinalize()
print('END', flush=True)
