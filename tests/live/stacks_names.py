# SPDX-License-Identifier: Apache-2.0
"""
stacks_names.py STACKCALL HAL NUMBER NOTES HOW: each call by a function and a file of its own number, whose code is
freed behind it. HOW: legacy, own (a sub-interpreter for each, with the common lock or its own), threads (four, the
number begins with that of the thread).
"""
import ctypes
import os
import sys
import threading

LIB, HAL, NUMBER, NOTES, HOW = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
THREADS = 4
CODE = '''
import ctypes
lib = ctypes.CDLL({lib!r}, mode=ctypes.RTLD_GLOBAL)
lib.stackcall.argtypes = [ctypes.c_ulonglong]
ns = dict(lib=lib)
exec(compile("def fn{n:05d}():\\n    lib.stackcall(4096)\\n", "file{n:05d}.py", "exec"), ns)
ns["fn{n:05d}"]()
'''


def interpreter():
    if sys.version_info >= (3, 13):
        import _interpreters as si
        return si, si.create('isolated' if HOW == 'own' else 'legacy')
    import _xxsubinterpreters as si
    return si, si.create(isolated=HOW == 'own')


def sub_interpreter(n):
    si, sub = interpreter()
    err = si.run_string(sub, CODE.format(lib=LIB, n=n))
    if err is not None:
        sys.exit(str(err))
    si.destroy(sub)


def thread(number):
    for i in range(NUMBER // THREADS):
        n = number * 10000 + i
        ns = {'lib': lib}
        exec(compile(f'def fn{n:05d}():\n    lib.stackcall(4096)\n', f'file{n:05d}.py', 'exec'), ns)
        ns[f'fn{n:05d}']()


lib = ctypes.CDLL(LIB, mode=ctypes.RTLD_GLOBAL)
lib.stackcall.argtypes = [ctypes.c_ulonglong]
if lib.stackcall_open(os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND), HAL.encode(), None):
    sys.exit('the driver cannot be loaded')
print('up', flush=True)
sys.stdin.readline()
if HOW == 'threads':
    threads = [threading.Thread(target=thread, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
else:
    for i in range(NUMBER):
        sub_interpreter(i)
print('done', flush=True)
sys.stdin.readline()
