# SPDX-License-Identifier: Apache-2.0
"""Writes line tables of the Python that runs it, with the lines that it itself reads from them.

    python3.N tests/unit/data-python/make.py >tests/unit/data-python/lines-3.N.txt

"code FIRST-LINE TABLE-IN-HEX", then "at OFFSET LINE" for each two bytes of code, "-" for none.
"""
import dis
import sys
import types

SOURCE = '''
def plain(a, b=1):
    return a + b


def several(x):
    y = [
        x,
        (x +
         2),
        *x,
    ]
    return {'a': y,
            'b': (lambda: y)}


def control(items):
    for i in items:
        try:
            if i:
                raise ValueError(
                    i)
            elif not i:
                continue
        except ValueError as e:
            print(e)
        finally:
            print(i)
    else:
        while items:
            items.pop()
    with open('x') as f, \\
            open('y') as g:
        yield f
        yield from g
    assert items, 'none'


async def coroutine(a):
    async with a as b:
        await b
    return [x async for x in a if
            x]


class Class:
    """Text
    on two lines."""
    x: int = 1

    @property
    @staticmethod
    def method(self,
               a=1):
        nonlocal_ = 1

        def inner():
            return nonlocal_
        return inner


def far():
    x = 1
''' + '\n' * 500 + '''
    y = (x,''' + '\n' * 130 + '''
         x)
    return y


def big(x):
''' + ''.join(f'    x = [x, {1000 + i}, {2000 + i}, {3000 + i}]\n' for i in range(40)) + '''    return x
'''


def lines_of(code):
    if hasattr(code, 'co_lines'):
        return [(at, line) for start, end, line in code.co_lines() for at in range(start, end, 2)]
    starts, out, line = dict(dis.findlinestarts(code)), [], code.co_firstlineno
    for at in range(0, len(code.co_code), 2):
        line = starts.get(at, line)
        out.append((at, line))
    return out


def write(code):
    table = getattr(code, 'co_linetable', None) or code.co_lnotab
    print('code', code.co_firstlineno, table.hex())
    for at, line in lines_of(code):
        print('at', at, '-' if line is None else line)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            write(const)


print('#', 'CPython', '.'.join(map(str, sys.version_info[:3])))
write(compile(SOURCE, 'source.py', 'exec'))
