# SPDX-License-Identifier: Apache-2.0
"""--call-stack: the cells of rows against the stacks that the program itself sees."""
import collections
import json
import os
import re
import struct
import sys
import time
import unittest

from harness import LONG, LiveTest, built, sim
from interpreters import interpreters, numpy

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


class StackTest(LiveTest):
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


class CallStack(StackTest):
    def python(self, argv, number=2000, env=None):
        pynotes, pyframes = self.path(self.number('notes')), self.path(self.number('frames'))
        t = self.start('python', [*argv, os.path.join(HERE, 'stacks_py.py'), built('tests', 'live', 'stackcall.so'),
                                  library('libascend_hal.so'), library('libascendcl.so'), number, pynotes, pyframes],
                       env=env)
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
        self.assertGreaterEqual(n, number)
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

    def test_option(self):
        for value in ('', 'c:', 'c:0', 'c:1001', 'python:x', 'c,', 'java', 'c:5:6', 'c python'):
            done = self.run_memtap('record', '-p', os.getpid(), '--call-stack', value)
            if value == 'c,':  # as the vendor's lists
                continue
            self.assertEqual(done.returncode, 2, (value, done.stderr))
            self.assertIn('--call-stack', done.stderr)
        self.assertIn('--call-stack', self.run_memtap('record', '--help').stdout)

    def depth(self, *options, db=False, env=None):
        # Libraries are mapped by then; each step is as the one before.
        job = self.job('--seconds', LONG, '--rate', 1000)
        time.sleep(1)
        result = self.record('-p', job.pid, '-d', 2, *options, db=db, env=env).ended()
        job.kill()
        return result

    def test_depth(self):
        r = self.depth('--call-stack=c:3')
        rows = r.of('MALLOC', 'FREE')
        self.assertTrue(rows and all(len(x['call_c'].splitlines()) == 3 for x in rows))
        self.assertTrue(all(not x['call_py'] for x in rows))
        self.assertEqual(list(r.summary['stacks']['c_cut']), ['more frames than asked for'])
        self.assertIn('100.00 % complete or as deep as asked for', r.stderr)

    def cells(self, rows):
        return {(r['event'], r['type'], re.sub(r'\[0x\w+\]', '', r['call_c']), r['call_py']) for r in rows}

    def test_files(self):
        """The same cells in a csv, a db, in the vendor's order; rows of other kinds have none."""
        csv = self.depth('--call-stack=c,python')
        self.assertGreater(len(csv.of('MALLOC')), 50)
        for r in csv.rows:
            memory = r['event'] in ('MALLOC', 'FREE')
            self.assertEqual(bool(r['call_c']), memory, r)
            self.assertEqual(r['call_py'], 'NA' if memory else '', r)
            if memory:
                self.assertTrue(r['call_c'].splitlines()[-1].count('_start') or 'clone3' in r['call_c'], r)
        for options in ({'db': True}, {}):
            other = self.depth('--call-stack=c,python', *(() if options else ('--order', 'block')), **options)
            memory = [r for r in other.rows if r['event'] in ('MALLOC', 'FREE')]
            self.assertEqual(self.cells(memory), self.cells(csv.of('MALLOC', 'FREE')))

    def test_mechanisms(self):
        """Without sessions, without uprobe_multi, with programs that may not sleep."""
        # Newer kernels refuse a program with a function that could sleep, be it never reached.
        for off in ('session', 'session,multi', 'sleepable', 'sleepable,session'):
            with self.subTest(off):
                r = self.depth('--call-stack=c', env={'MEMTAP_DISABLE': off})
                s = r.summary['stacks']
                self.assertEqual((s['c_cut'], s['c_lost'], s['unknown_cells']), ({}, 0, 0))
                self.assertGreater(s['c_complete'], 100)
        r = self.depth('--call-stack=c', env={'MEMTAP_DISABLE': 'loop'})
        self.assertIn('bpf_loop', r.summary['stacks']['why'])
        self.assertIn('rows will have no call stacks', r.stderr)
        self.assertTrue(all(not x['call_c'] for x in r.rows))
        self.assertGreater(len(r.of('MALLOC')), 50)

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

    def interpreter(self, minor, **how):
        found, why = interpreters(minor)
        if not found:
            self.skipTest(f'no CPython 3.{minor}: {why}')
        for argv in found:
            with self.subTest(argv):
                yield self.python(argv, **how)

    def with_numpy(self, minor):
        site, why = numpy(minor)
        if not site:
            self.skipTest(why)
        for said in self.interpreter(minor, number=10000, env={'PYTHONPATH': site}):
            self.assertIn('with NumPy', said)

    def test_python38(self):
        list(self.interpreter(8))

    def test_python310(self):
        list(self.interpreter(10))

    def test_python312(self):
        list(self.interpreter(12))

    def test_started_under_memtap(self):
        """An interpreter that is looked at before its data is mapped: 3.13 is the first that describes itself."""
        program = ('import ctypes, sys, time\n'
                   'hal = ctypes.CDLL(sys.argv[1])\n'
                   'time.sleep(1)\n'
                   'def allocate():\n'
                   '    p = ctypes.c_void_p()\n'
                   '    hal.halMemAlloc(ctypes.byref(p), ctypes.c_ulonglong(4096), ctypes.c_ulonglong(0))\n'
                   'for i in range(20): allocate()\n'
                   'time.sleep(0.3)\n')
        found, why = interpreters(13)
        if not found:
            self.skipTest(f'no CPython 3.13: {why}')
        for i in range(5):
            rec = self.record('--call-stack=python', '--', *found[0], '-c', program, library('libascend_hal.so'))
            result = rec.ended()
            cells = [r['call_py'] for r in result.rows if r['event'] == 'MALLOC']
            self.assertEqual([c for c in cells if 'allocate' not in c or '<module>' not in c], [], rec.stderr()[-1500:])
            self.assertEqual(len(cells), 20)

    def test_python314(self):
        list(self.interpreter(14))

    def test_numpy39(self):
        self.with_numpy(9)

    def test_numpy311(self):
        self.with_numpy(11)

    def test_numpy313(self):
        self.with_numpy(13)


if __name__ == '__main__':
    unittest.main()
