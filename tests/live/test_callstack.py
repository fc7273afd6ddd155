# SPDX-License-Identifier: Apache-2.0
"""--call-stack: the cells of rows against the stacks that the program itself sees."""
import collections
import json
import os
import re
import struct
import sys
import unittest

from harness import LiveTest, built, sim
from test_pystack import installed

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = re.compile(r'\[0x([0-9a-f]+)\]$')
PYTHON = re.compile(r'^(.*)\((\d+)\): (.*)$')
HAL = ('cann', 'driver', 'lib64', 'libascend_hal.so')


def library(name):
    for top, _, files in os.walk(sim('cann')):
        if name in files and 'devlib' not in top:
            return os.path.join(top, name)
    raise FileNotFoundError(name)


def c_frames(cell):
    """Addresses of a cell, and the line that says why it is cut."""
    lines = cell.splitlines()
    cut = lines.pop() if lines and lines[-1].startswith('(cut') else None
    return [int(ADDRESS.search(l).group(1), 16) for l in lines], cut


def python_frames(cell):
    out = []
    for line in cell.splitlines():
        m = PYTHON.match(line)
        out.append([m.group(1), int(m.group(2)), m.group(3)] if m else line)
    return out


def notes(path):
    """What stackcall.c wrote: for each thread the callers of its allocations."""
    out = collections.defaultdict(list)
    with open(path, 'rb') as f:
        data = f.read()
    at = 0
    while at < len(data):
        tid, n = struct.unpack_from('QQ', data, at)
        out[tid].append(list(struct.unpack_from(f'{n}Q', data, at + 16)))
        at += 16 + 8 * n
    return out


class CallStack(LiveTest):
    allocations = 2000

    def compare(self, result, path, python=None):
        """Rows of HAL memory of each thread, in order, against what it noted."""
        rows, truth = collections.defaultdict(list), notes(path)
        for r in result.rows:
            if r['type'] == 'HAL' and r['event'] == 'MALLOC':
                rows[r['tid']].append(r)
        self.assertEqual({t: len(v) for t, v in rows.items()}, {t: len(v) for t, v in truth.items()})
        wrong, n = collections.Counter(), 0
        example = {}
        for tid, list_ in truth.items():
            for i, callers in enumerate(list_):
                n += 1
                got, cut = c_frames(rows[tid][i]['call_c'])
                what = cut or ('' if got[-len(callers):] == callers else 'other callers')
                if not what and not 2 <= len(got) - len(callers) <= 12:
                    what = f'{len(got) - len(callers)} frames of the libraries'
                if not what and python is not None and python_frames(rows[tid][i]['call_py']) != python[tid][i]:
                    what = 'other Python frames'
                if what:
                    wrong[what] += 1
                    example.setdefault(what, (rows[tid][i]['call_c'], [hex(c) for c in callers],
                                              rows[tid][i]['call_py'], python and python[tid][i]))
        # Stacks are walked for the events, and an event is not lost for them: 99.9 %.
        if sum(wrong.values()) * 1000 > n:
            self.fail(f'{dict(wrong)} of {n}: {example}')
        return n

    def python(self, argv, env=None):
        pynotes, pyframes = self.path('notes'), self.path('frames')
        t = self.start('python', [*argv, os.path.join(HERE, 'stacks_py.py'), built('tests', 'live', 'stackcall.so'),
                                  library('libascend_hal.so'), library('libascendcl.so'), self.allocations, pynotes,
                                  pyframes], env=env)
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c,python')
        t.line()
        said = t.until('done', limit=120)
        result = rec.stop()
        python = collections.defaultdict(list)
        with open(pyframes) as f:
            for line in f:
                tid, chain = json.loads(line)
                python[tid].append(chain)
        n = self.compare(result, pynotes, python)
        self.assertGreaterEqual(n, int(self.allocations))
        s = result.summary['stacks']
        self.assertGreaterEqual(s['c_complete'], 2 * n)
        self.assertEqual((s['c_cut'], s['c_lost'], s['python_lost'], s['unknown_cells']), ({}, 0, 0, 0))
        self.assertGreater(s['c_different'], 10)
        return said

    def test_cxx(self):
        path = self.path('notes')
        t = self.start('cxx', [built('tests', 'live', 'stacks-cxx'), library('libascend_hal.so'),
                               library('libascendcl.so'), 10000, path])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c')
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        self.assertGreaterEqual(self.compare(result, path), 10000)
        s = result.summary['stacks']
        self.assertEqual((s['c_cut'], s['c_lost'], s['unknown_cells']), ({}, 0, 0))
        names = {re.sub(r'.*\((\w*).*', r'\1', l) for r in result.rows for l in r['call_c'].splitlines()}
        self.assertTrue({'raise', 'main', '_start', 'clone3', 'halMemAlloc'} <= names, names)
        self.assertTrue(any('(std::' in r['call_c'] for r in result.rows))
        self.assertTrue(all(not r['call_py'] for r in result.rows))

    def test_children(self):
        """A child that is gone before anybody could look at it; a new program of one."""
        children = 12
        path, program = self.path('notes'), os.path.join(HERE, 'stacks_fork.py')
        t = self.start('python', [sys.executable, program, built('tests', 'live', 'stackcall.so'),
                                  library('libascend_hal.so'), children, path])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c,python')
        t.line()
        t.until('done')
        rows = [r for r in rec.stop().rows if r['type'] == 'HAL']
        truth, late = notes(path), 0
        seen = collections.Counter(r['pid'] for r in rows)
        self.assertEqual(sorted(seen.values()), [2] * (children - 1) + [202])
        for r in rows:
            lines = [l.split(': ')[-1] for l in r['call_py'].splitlines()]
            frames, cut = c_frames(r['call_c'])
            if 'in_new_program' in lines or cut or r['call_py'] == 'NA':
                late += bool(cut or r['call_py'] == 'NA')
                continue
            self.assertEqual(lines, ['allocate', '<module>'], r)
            if r['event'] == 'MALLOC':
                callers = truth[r['tid']][0]
                self.assertEqual(frames[-len(callers):], callers)
        # What a program does before its mappings are read; not one of the children's.
        self.assertLess(late, 50)
        self.assertGreater(sum('in_new_program' in r['call_py'] for r in rows), 150)

    def interpreter(self, minor):
        found = installed(minor)
        if not found:
            self.skipTest(f'no CPython 3.{minor} on this machine')
        for argv in found:
            with self.subTest(argv[0]):
                self.python(argv)

    def test_python_here(self):
        self.python([os.path.realpath(sys.executable)])

    def test_python38(self):
        self.interpreter(8)

    def test_python39(self):
        self.interpreter(9)

    def test_python310(self):
        self.interpreter(10)

    def test_python312(self):
        self.interpreter(12)

    def test_python313(self):
        self.interpreter(13)


if __name__ == '__main__':
    unittest.main()
