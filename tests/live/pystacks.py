# SPDX-License-Identifier: Apache-2.0
"""A program whose Python stacks are known: at each mark it writes its own and then calls getppid(2).

    pystacks.py FOLDER probe [SCENARIO...]
                   calls at once; waits for a byte before it begins and where code goes away
    pystacks.py FOLDER outside [SCENARIO...]
                   waits for a byte behind each mark, in a C function, the interpreter's lock released

Lines: "up", then for each mark one of JSON: [name, thread id, [[line, name, qualname, file], ...]],
innermost frame first. Runs on CPython 3.8 and later.
"""
import contextlib
import functools
import json
import os
import sys
import threading

FOLDER, MODE = sys.argv[1:3]
KEEP = []  # code objects that are not to go away before they are looked at
LOCK = threading.Lock()
NAME = ['']


def chain(f):
    out = []
    while f:
        c = f.f_code
        KEEP.append(c)
        out.append([f.f_lineno, c.co_name, getattr(c, 'co_qualname', c.co_name), c.co_filename])
        f = f.f_back
    return out


def say(f):
    tid = threading.get_native_id()
    with LOCK:
        print(json.dumps([NAME[0], tid, chain(f)]), flush=True)


if MODE == 'probe':
    call = os.getppid
else:
    call = functools.partial(os.read, 0, 1)


def mark():
    say(sys._getframe()), call()


def sync():
    """Until what was said has been looked at."""
    if MODE == 'probe':
        print('sync', flush=True)
        os.read(0, 1)


# ---- where a mark is made: a function each, in this order ----

def here():
    say(sys._getframe()), call()


def nested():
    def inner(x):
        def innermost(y):
            mark()
            return y
        return innermost(x) + 1
    return inner(1)


def comprehension():
    [mark() for _ in range(1)]
    {mark(): 1 for _ in range(1)}
    list(mark() for _ in range(1))
    {mark() for _ in [[mark() for _ in range(1)]]
     for _ in range(1)}


def generator():
    def gen(n):
        if n:
            yield from gen(n - 1)
        else:
            yield mark()
        mark()
    for _ in gen(3):
        mark()


def class_body():
    class Outer:
        mark()

        class Inner:
            x = mark()

            @property
            def p(self):
                return mark()

            def __getattr__(self, name):
                return mark()

            def __del__(self):
                mark()

        def method(self):
            mark()
    Outer().method()
    i = Outer.Inner()
    i.p, i.missing
    del i


def decorator():
    def deco(f):
        mark()

        @functools.wraps(f)
        def wrapper(*a, **k):
            mark()
            return f(*a, **k)
        return wrapper

    @deco
    @deco
    def decorated(a, *, b=lambda: mark()):
        b()
    decorated(1)


def many_lines():
    x = [
        1,
        mark(),
        (2 +
         (mark() or 3)),
    ]
    return {
        'a': x,
        'b': (lambda:
              mark())(),
    }


def control():
    for i in range(2):
        try:
            if i:
                mark()
                raise ValueError
            elif not i:
                mark()
        except ValueError:
            mark()
        finally:
            mark()
    while True:
        mark()
        break
    else:
        mark()
    with contextlib.ExitStack() as stack:
        stack.callback(mark)
        mark()
    assert mark() is None


def recursion(n=100):
    if n:
        return recursion(n - 1)
    mark()


def too_deep(n=200):
    if n:
        return too_deep(n - 1)
    mark()


def callbacks():
    sorted([2, 1], key=lambda v: mark() or v)
    list(map(lambda v: mark(), [1]))
    functools.reduce(lambda a, b: mark(), [1, 2])
    max([1], key=lambda v: list(map(lambda w: [mark() for _ in range(1)], [v])) and v)

    class Less:
        def __lt__(self, other):
            mark()
            return False
    sorted([Less(), Less()])


def coroutine():
    import asyncio

    async def leaf():
        mark()
        await asyncio.sleep(0)
        mark()

    async def outer():
        await leaf()
        async with Manager():
            mark()
        async for _ in agen():
            mark()

    class Manager:
        async def __aenter__(self):
            mark()

        async def __aexit__(self, *a):
            mark()

    async def agen():
        yield mark()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(outer())
    loop.close()


def executed():
    exec('mark()', {'mark': mark})
    exec(compile('def f():\n\n  mark()\nf()\n', 'other file.py', 'exec'), {'mark': mark})
    eval(compile('[mark()\n for _ in range(1)]', '<eval>', 'eval'), {'mark': mark})


def not_ascii():
    names = {'latin': 'été', 'cyrillic': 'функция', 'cjk': '関数', 'astral': '𐌰𐌱'}
    for n, name in names.items():
        src = f'def {name}():\n  mark()\n{name}()\n'
        exec(compile(src, f'{name}/{n} 😀.py' if n == 'astral' else f'{name}.py', 'exec'), {'mark': mark})


def long_code():
    body = ''.join(f'  x = [{i}, {i}, {i}]\n' + '\n' * (i % 7) for i in range(300))
    src = '\n' * 70000 + 'def long(mark):\n  mark()\n' + body + '\n' * 500 + '  mark()\n' + body + '  mark()\nlong(mark)\n'
    exec(compile(src, 'long.py', 'exec'), {'mark': mark})


def imported():
    with open(os.path.join(FOLDER, 'some_module.py'), 'w') as f:
        f.write('import __main__\n\n__main__.mark()\n')
    sys.path.insert(0, FOLDER)
    sys.dont_write_bytecode = True
    import some_module  # noqa: F401


def traced():
    def tracer(frame, event, arg):
        return tracer
    sys.settrace(tracer)
    try:
        nested()
        comprehension()
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *a: None)
    try:
        nested()
    finally:
        sys.setprofile(None)


def reused():
    """Code that comes and goes at the same addresses, with other names."""
    addresses = set()
    before = len(KEEP)
    for i in range(40):
        scope = {'mark': mark}
        exec(compile(f'def f{i:03d}():\n  mark()\n', f'file{i:03d}', 'exec'), scope)
        f = scope.pop(f'f{i:03d}')  # else they hold each other
        addresses.add(id(f.__code__))
        f()
        sync()
        del KEEP[before:], f, scope
    print(json.dumps(['addresses', len(addresses), []]), flush=True)


def vanishing():
    """As reused, but nobody waits: the code has gone when it is looked at, and others are in its place."""
    before = len(KEEP)
    sync()
    for i in range(60):
        scope = {'mark': mark}
        exec(compile(f'def f{i:03d}():\n  mark()\n', f'file{i:03d}', 'exec'), scope)
        f = scope.pop(f'f{i:03d}')
        f()
        del KEEP[before:], scope
    KEEP.append(f)


def deep(n):
    if n > 1:
        deep(n - 1)
    else:
        here()


def just_deep():
    """As many frames as are kept (with this one, main's, here), one less, one more."""
    for n in (-1, 0, 1):
        deep(128 - 3 + n)


SUB = '''
import json, os, sys
from _thread import get_native_id

def say(f):
    out = []
    while f:
        c = f.f_code
        out.append([f.f_lineno, c.co_name, getattr(c, 'co_qualname', c.co_name), c.co_filename])
        f = f.f_back
    print(json.dumps(['sub', get_native_id(), out]), flush=True)

def inner():
    say(sys._getframe()), CALL

def outer():
    inner()
    SYNC

outer()
'''


def sub_interpreters():
    """In an interpreter of this thread, in one that is run from there, in one with its own lock, back in the first."""
    if sys.version_info >= (3, 13):
        import _interpreters as si
    else:
        import _xxsubinterpreters as si
    run = getattr(si, 'exec', None) or si.run_string
    text = SUB.replace('CALL', 'os.getppid()' if MODE == 'probe' else 'os.read(0, 1)').replace(
        'SYNC', 'print("sync", flush=True); os.read(0, 1)' if MODE == 'probe' else 'pass')
    nested = f'\nimport {si.__name__} as si\n(getattr(si, "exec", None) or si.run_string)(si.create(), {text!r})\nouter()\n'
    made = []
    if sys.version_info >= (3, 13):
        made.append(si.create('legacy'))
    elif sys.version_info >= (3, 12):
        made.append(si.create(isolated=False))
    made.append(si.create())
    mark()
    for sub in made:
        run(sub, text)
        mark()
    run(made[0], text + nested)
    mark()
    run(made[-1], text)
    mark()


def in_threads():
    def work(depth):
        if depth:
            work(depth - 1)
        else:
            mark()
    for depth in (0, 3, 30):
        t = threading.Thread(target=work, args=(depth,))
        t.start()
        t.join()


def numpy():
    """Python called by C of an extension module."""
    import numpy as np
    np.frompyfunc(lambda v: mark(), 1, 1)(np.arange(1))
    np.vectorize(lambda v: mark() or v, otypes=[int])(np.arange(1))
    np.apply_along_axis(lambda row: mark() or row, 0, np.arange(2))
    np.fromiter((mark() or i for i in range(1)), dtype=int)

    class Less:
        def __lt__(self, other):
            mark()
            return False

        def __add__(self, other):
            mark()
            return self
    np.array([Less(), Less()], dtype=object).sort()
    np.array([Less(), Less()], dtype=object).sum()


def forked():
    """A child; its parent ends only after it."""
    pid = os.fork()
    if not pid:
        print(f'child {os.getpid()}', flush=True)
        os.read(0, 1)
        nested()
        callbacks()
        print('done', flush=True)
        os.read(0, 1)
        os._exit(0)
    os.waitpid(pid, 0)


PROBE = [here, nested, comprehension, generator, class_body, decorator, many_lines, control, recursion, too_deep,
         callbacks, coroutine, executed, not_ascii, long_code, imported, traced, reused, in_threads,
         just_deep, sub_interpreters]
OUTSIDE = [here, nested, generator, class_body, callbacks, coroutine, not_ascii, in_threads, sub_interpreters]

if __name__ == '__main__':
    print('up', flush=True)
    os.read(0, 1)
    chosen = [globals()[name] for name in sys.argv[3:]] or (PROBE if MODE == 'probe' else OUTSIDE)
    for scenario in chosen:
        NAME[0] = scenario.__name__
        scenario()
    print('done', flush=True)
    os.read(0, 1)
