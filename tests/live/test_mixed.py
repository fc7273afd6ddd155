# SPDX-License-Identifier: Apache-2.0
"""--call-stack=mixed: cells against the C and Python stacks that the program itself sees, and how they belong."""
import collections
import json
import os
import re
import subprocess
import sys
import unittest

from harness import LiveTest, built
from interpreters import fetched, installed
from test_callstack import PYTHON, library, notes

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = re.compile(r'\[0x([0-9a-f]+)\]$')


def fill(chain):
    """Calls of the loop of each frame, the outermost first: also of functions that do not say it."""
    calls = [f[3] for f in reversed(chain)]
    at = 0
    while at < len(calls):
        if calls[at] is not None:
            at += 1
            continue
        end = at
        while end < len(calls) and calls[end] is None:
            end += 1
        outer, inner = calls[at - 1] if at else None, calls[end] if end < len(calls) else None
        if inner is None or outer is None and inner not in (1, end - at + 1):
            return None
        if outer is None:  # each has a call of its own, or all have one
            known = list(range(1, inner)) if inner > 1 else [1] * (end - at)
        elif inner == outer:
            known = [outer] * (end - at)
        elif inner - outer == end - at + 1:
            known = list(range(outer + 1, inner))
        else:
            return None
        calls[at:end] = known
    return list(reversed(calls))


def split_off(path):
    """Pieces of the evaluation loop that have no symbol, by binutils: the loop jumps there, and a frame is there
    already. START:END each, from the loop's start."""
    def run(*argv):
        return subprocess.run([*argv, path], capture_output=True, text=True, check=True).stdout
    loop = re.search(r'^(\w+) (\w+) T _PyEval_EvalFrameDefault$', run('nm', '-SD'), re.M)
    start, size = int(loop.group(1), 16), int(loop.group(2), 16)
    code = run('objdump', '-d', f'--start-address={start}', f'--stop-address={start + size}')
    targets = {int(t, 16) for t in re.findall(r'\tj\w+ +([0-9a-f]+) <', code)}
    out = []
    for m in re.finditer(r'FDE .*pc=(\w+)\.\.(\w+)\n.*\n\w+ (\S+)', run('readelf', '--debug-dump=frames-interp')):
        a, b = int(m.group(1), 16), int(m.group(2), 16)
        if m.group(3) != 'rsp+8' and any(a <= t < b for t in targets):
            out.append(f'{a - start}:{b - start}')
    return out


def inside(a, loop):
    return any(start < a <= end for start, end in loop)


def expected(callers, chain, calls, loop):
    """The frames of a cell: a C address, or [file, line, function]."""
    out, left = [], sum(inside(a, loop) for a in callers)
    for a in callers:
        if not inside(a, loop):
            out.append(a)
            continue
        mine = [f[:3] for f, n in zip(chain, calls) if n == left]
        out += mine or [a]
        left -= 1
    return out


def parse(cell):
    out = []
    for line in cell.splitlines():
        m, c = PYTHON.match(line), ADDRESS.search(line)
        out.append(int(c.group(1), 16) if c else [m.group(1), int(m.group(2)), m.group(3)] if m else line)
    return out


class Mixed(LiveTest):
    allocations = 1500

    def run_program(self, argv, *options, more=()):
        self.notes, self.frames = self.path('notes'), self.path('frames')
        for path in (self.notes, self.frames):
            if os.path.exists(path):
                os.unlink(path)
        t = self.start('python', [*argv, os.path.join(HERE, 'stacks_mixed.py'),
                                 built('tests', 'live', 'stackcall.so'), library('libascend_hal.so'),
                                 self.allocations, self.notes, self.frames, *more])
        t.until('up')
        loop = json.loads(re.search('^loop (.*)', t.stdout(), re.M).group(1))
        rec = self.record('-p', t.pid, *options)
        t.line()
        t.until('done', limit=180)
        result = rec.stop()
        t.line()
        return loop, result

    def truth(self):
        """For each thread its allocations: callers in C and the Python stack, None for a thread without one."""
        python = collections.defaultdict(list)
        with open(self.frames) as f:
            for line in f:
                tid, chain = json.loads(line)
                python[tid].append(chain)
        return notes(self.notes), python

    def mixed(self, argv, *pieces):
        loop, result = self.run_program(argv, '--call-stack=mixed', more=pieces)
        rows = collections.defaultdict(list)
        for r in result.rows:
            if r['type'] == 'HAL' and r['event'] == 'MALLOC':
                rows[r['tid']].append(r)
        c, python = self.truth()
        self.assertEqual({t: len(v) for t, v in rows.items()}, {t: len(v) for t, v in c.items()})
        wrong, example, n, unsure, merged, empty, natives, doubt = collections.Counter(), {}, 0, 0, 0, 0, 0, None
        for tid, list_ in c.items():
            stacks = iter(python[tid])
            for i, callers in enumerate(list_):
                n += 1
                row = rows[tid][i]
                # A thread of C allocates other sizes by itself.
                chain = [] if row['size'] == 8192 else next(stacks)
                calls = fill(chain) if chain else []
                if calls is None:
                    unsure += 1
                    doubt = chain
                    continue
                want, got = expected(callers, chain, calls, loop), parse(row['call_c'])
                merged += bool(chain)
                natives += not chain
                empty += sum(isinstance(w, int) and inside(w, loop) for w in want)
                what = None
                if got[-len(want):] != want:
                    what = got[-1] if isinstance(got[-1], str) else 'other frames'
                elif not 2 <= len(got) - len(want) <= 12:
                    what = f'{len(got) - len(want)} frames of the libraries'
                elif parse(row['call_py']) != ([f[:3] for f in chain] or ['NA']):
                    what = 'other Python frames'
                if what:
                    wrong[what] += 1
                    example.setdefault(what, (row['call_c'].splitlines(), want, chain, row['call_py']))
        if sum(wrong.values()) * 1000 > n:
            self.fail(f'{argv[0]}: {dict(wrong)} of {n}: {json.dumps(example, default=str, indent=1)[:20000]}')
        self.assertLess(unsure * 20, n, doubt)
        self.assertGreater(merged, self.allocations * 0.9)
        self.assertGreater(natives, 10)
        s = result.summary['stacks']
        self.assertEqual(s['mixed_not'], {})
        self.assertGreaterEqual(s['mixed'], merged)
        self.assertGreaterEqual(s['mixed_no_python'], natives)
        self.assertIn('rows merged', result.stderr)
        return empty

    def interpreter(self, minor):
        found, why, pieces = installed(minor), '', ()
        if not found and minor >= 14:
            argv, why = fetched(minor)
            found = [argv] if argv else []
            pieces = split_off(argv[-1]) if argv else ()
        if not found:
            self.skipTest(f'no CPython 3.{minor} on this machine {why or ""}')
        for argv in found:
            with self.subTest(argv[0]):
                empty = self.mixed(argv, *pieces)
                # What a function leaves is freed while its call of the loop runs nothing.
                self.assertEqual(empty > 0, minor >= 12, empty)

    def test_python_here(self):
        self.mixed([os.path.realpath(sys.executable)])

    def test_python38(self):
        self.interpreter(8)

    def test_python39(self):
        self.interpreter(9)

    def test_python310(self):
        self.interpreter(10)

    def test_python311(self):
        self.interpreter(11)

    def test_python312(self):
        self.interpreter(12)

    def test_python313(self):
        self.interpreter(13)

    def test_python314(self):
        self.interpreter(14)

    def test_python315(self):
        self.interpreter(15)

    def apart(self, argv, why, *more):
        """The C frames alone with a line that says so, and the Python frames in their own column."""
        self.allocations = 100
        _, result = self.run_program(argv, '--call-stack=mixed', more=more)
        _, python = self.truth()
        rows = [r for r in result.rows if r['event'] == 'MALLOC' and r['size'] == 4096]
        self.assertGreaterEqual(len(rows), 100)
        by_tid = {t: iter(v) for t, v in python.items()}
        for r in rows:
            chain = next(by_tid[r['tid']])
            self.assertEqual(parse(r['call_py']), [f[:3] for f in chain])
        for r in rows:
            *c, last = r['call_c'].splitlines()
            self.assertTrue(all(ADDRESS.search(l) for l in c), r)
            self.assertTrue(last.startswith(f'(not merged: {why}'), r)
        s = result.summary['stacks']
        self.assertGreaterEqual(sum(s['mixed_not'].values()), len(rows))
        self.assertEqual([k for k in s['mixed_not'] if k.startswith(why)], list(s['mixed_not']))
        self.assertEqual(s['mixed'], 0)
        self.assertIn(f'separately, {why}', result.stderr)

    def test_differ(self):
        self.apart([os.path.realpath(sys.executable)], 'C and Python differ', 'switched')

    def test_no_loop(self):
        """An interpreter that does not say where its loop is."""
        python = os.path.realpath('/usr/bin/python3')
        with open(python, 'rb') as f:
            data = f.read()
        if b'_PyEval_EvalFrameDefault' not in data:
            self.skipTest(f'{python} is not the interpreter itself')
        with open(self.path('python3'), 'wb') as f:
            f.write(data.replace(b'_PyEval_EvalFrameDefault', b'_PyEval_EvalFrameDefaulX'))
        os.chmod(self.path('python3'), 0o700)
        self.apart([self.path('python3')], 'the evaluation loop is not found')

    def test_depth(self):
        self.allocations = 100
        _, result = self.run_program([os.path.realpath(sys.executable)], '--call-stack=mixed:4,python:2')
        rows = [r for r in result.rows if r['event'] == 'MALLOC' and r['size'] == 4096]
        self.assertGreaterEqual(len(rows), 100)
        self.assertTrue(all(len(r['call_c'].splitlines()) == 4 and len(r['call_py'].splitlines()) == 2 for r in rows))
        self.assertEqual(result.summary['stacks']['mixed_not'], {})

    def test_option(self):
        for value in ('c,mixed', 'mixed,c', 'mixed:0', 'mixed:1001', 'mixed:x', 'mixe'):
            done = self.run_memtap('record', '-p', os.getpid(), '--call-stack', value)
            self.assertEqual(done.returncode, 2, (value, done.stderr))
            self.assertIn('--call-stack', done.stderr)
        self.assertIn('mixed[:DEPTH]', self.run_memtap('record', '--help').stdout)


if __name__ == '__main__':
    unittest.main()
