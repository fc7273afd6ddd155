# SPDX-License-Identifier: Apache-2.0
"""Targets that make memtap wait: memory that never answers, mappings without end."""
import os
import sys
import time
import unittest

from harness import LONG, built
from test_callstack import StackTest, c_frames, library, notes, python_frames

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = ('tests', 'live', 'stackcall.so')
NUMBER = 200


class Stalls(StackTest):
    def silent(self, what='lines'):
        t = self.start('silent', [sys.executable, os.path.join(HERE, 'stacks_silent.py'), built(*LIBRARY),
                                  library('libascend_hal.so'), NUMBER, self.path(self.number('notes')), what])
        t.until('up')
        return t

    def normal(self, number=NUMBER):
        """A program that notes its own stacks, and where it does so."""
        path, frames = self.path(self.number('notes')), self.path(self.number('frames'))
        t = self.start('normal', [sys.executable, os.path.join(HERE, 'stacks_py.py'), built(*LIBRARY),
                                  library('libascend_hal.so'), library('libascendcl.so'), number, path, frames])
        t.until('up')
        return t, path

    def test_memory(self):
        """Lines in memory that nobody serves: NA, and memtap goes on and ends at once."""
        silent, (normal, path) = self.silent(), self.normal()
        rec = self.record('-p', f'{silent.pid},{normal.pid}', '--call-stack=c,python')
        silent.line()
        silent.until('done')
        normal.line()
        normal.until('done', limit=120)
        began = time.monotonic()
        result = rec.stop()
        self.assertLess(time.monotonic() - began, 10)
        rows = [r for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']
        cells = [r['call_py'] for r in rows if r['pid'] == silent.pid]
        self.assertEqual(len(cells), NUMBER)
        # Its other function is in the same process, whose names are not asked for any more.
        self.assertEqual({line for c in cells for line in c.splitlines()}, {'NA'})
        s = result.summary['stacks']
        self.assertGreaterEqual(s['python_unanswered'], 2)
        self.assertEqual(s['unknown_cells'], 0)
        self.assertIn(f'pid {silent.pid}: its memory does not answer', result.stderr)
        self.assertIn('in memory that does not answer', result.stderr)
        # The other one has all of its names.
        mine = [r['call_py'] for r in rows if r['pid'] == normal.pid]
        self.assertGreaterEqual(len(mine), NUMBER)
        self.assertEqual([c for c in mine if 'NA' in c or not python_frames(c)], [])

    def test_name(self):
        """A name there: the probe does not wait for it and has no check of it, the others have theirs."""
        silent = self.silent('name')
        rec = self.record('-p', silent.pid, '--call-stack=python')
        silent.line()
        silent.until('done')
        result = rec.stop()
        cells = [r['call_py'].splitlines() for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']
        self.assertEqual(len(cells), NUMBER)
        self.assertEqual({c[0] for c in cells}, {'NA'})
        self.assertEqual({c[1].split(': ')[-1] for c in cells}, {'<module>'})
        self.assertEqual(result.summary['stacks']['python_unanswered'], 0)
        self.assertIn('frames without a name: 1, 0 of them', result.stderr)

    def test_interpreter(self):
        """It cannot even be looked at: others can."""
        silent, (normal, _) = self.silent('threads'), self.normal()
        began = time.monotonic()
        rec = self.record('-p', f'{silent.pid},{normal.pid}', '--call-stack=c,python')
        silent.line()
        silent.until('done')
        normal.line()
        normal.until('done', limit=120)
        result = rec.stop()
        self.assertLess(time.monotonic() - began, 30)
        rows = [r for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']
        self.assertEqual(sum(r['pid'] == silent.pid for r in rows), NUMBER)
        self.assertEqual(result.summary['stacks']['python_silent'], 1)
        self.assertIn(f'pid {silent.pid}: its interpreter cannot be looked at', result.stderr)
        self.assertIn('interpreters that could not be looked at', result.stderr)
        # Its C stacks are as whole as ever.
        self.assertEqual({c_frames(r['call_c'])[1] for r in rows}, {None})
        mine = [r['call_py'] for r in rows if r['pid'] == normal.pid]
        self.assertGreaterEqual(len(mine), NUMBER)
        self.assertEqual([c for c in mine if 'NA' in c or not python_frames(c)], [])

    def test_many(self):
        """Many such targets: each costs a second at most, and no more than a few are waited for."""
        targets = [self.silent() for _ in range(10)]
        rec = self.record('-p', ','.join(str(t.pid) for t in targets), '--call-stack=python')
        for t in targets:
            t.line()
        for t in targets:
            t.until('done')
        began = time.monotonic()
        result = rec.stop()
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(sum(r['type'] == 'HAL' and r['event'] == 'MALLOC' for r in result.rows), 10 * NUMBER)
        self.assertLessEqual(result.stderr.count('its memory does not answer'), 8)
        self.assertGreaterEqual(result.summary['stacks']['python_unanswered'], 10)

    def test_mapping(self):
        """A process that maps and unmaps without end, beside one that loads libraries as any does."""
        loop = self.start('loop', [built('tests', 'live', 'stacks-loop'), built(*LIBRARY), 1, library('libascend_hal.so')])
        loop.until('up')
        # Not traced, with libraries that the others do not have: it is none of ours, also when all are scanned.
        self.job('--seconds', LONG, '--rate', 10)
        path, folder = self.path('notes'), os.path.dirname(built('tests', 'live', 'stacks-dl'))
        t = self.start('dl', [built('tests', 'live', 'stacks-dl'), library('libascend_hal.so'), path,
                              'late', folder, 30, 4, 1500000])
        t.until('up')
        # The start does not wait for it either.
        began = time.monotonic()
        rec = self.record('-p', f'{loop.pid},{t.pid}', '--call-stack=c', '--stack-bytes', 0)
        self.assertLess(time.monotonic() - began, 60)
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        s = result.summary['stacks']
        want = [c for list_ in notes(path).values() for c in list_]
        got = [c_frames(r['call_c']) for r in result.rows
               if r['type'] == 'HAL' and r['event'] == 'MALLOC' and r['pid'] == t.pid]
        self.assertEqual(len(got), len(want))
        self.assertEqual([f for (f, cut), callers in zip(got, want) if not cut and f[-len(callers):] != callers], [])
        whole = sum(not cut for _, cut in got)
        self.assertGreaterEqual(whole, 0.9 * len(want), s)
        self.assertGreater(s['held_back'], 0)
        self.assertIn('mapping notices lost', result.stderr)
        self.assertEqual(s['programs'], 2)
        self.assertIn('processes that map without end: read later', result.stderr)


if __name__ == '__main__':
    unittest.main()
