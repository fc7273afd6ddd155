# SPDX-License-Identifier: Apache-2.0
"""C stacks through code that is in no file any more, left by longjmp, of coroutines, of the kernel."""
import os
import re
import shutil
import subprocess
import time
import unittest

from harness import built
from test_callstack import StackTest, c_frames, library, notes

HERE = os.path.dirname(os.path.abspath(__file__))
GO = 'the stack of a goroutine, which its file does not describe'


class StackOdd(StackTest):
    def odd(self, kind, number=2000):
        """Cells of the rows, once all of them are what the program noted."""
        path = self.path('notes')
        return self.noted([built('tests', 'live', 'stacks-odd'), kind, library('libascend_hal.so'),
                           built('tests', 'live', 'stacks-part.so'), number, path], number, path)

    def noted(self, argv, number, path):
        t = self.start('odd', argv)
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c')
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        self.assertGreaterEqual(self.compare(result, path), number)
        s = result.summary['stacks']
        self.assertEqual((s['c_cut'], s['c_lost'], s['unknown_cells']), ({}, 0, 0))
        return [r['call_c'] for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']

    def in_part(self, kind, module):
        cells = self.odd(kind)
        # Named although its file is gone, and not by the one that has its place.
        for cell in cells:
            self.assertRegex(cell, rf'(?m)^\S*{module}\S*( \(deleted\))?\(part\+0x')

    def test_memfd(self):
        self.in_part('memfd', 'memfd:part')

    def test_deleted(self):
        self.in_part('deleted', r'notes\.so')

    def test_replaced(self):
        self.in_part('replaced', r'notes\.so')

    def test_unlinked_while_traced(self):
        """A rename and the last unlink give the file another time of change: it stays the same one."""
        self.in_part('unlinked', r'notes\.so')

    def test_mapped_twice(self):
        """The address of a frame is that of the place where it was."""
        cells = self.odd('twice', 1999)
        at = {re.search(r'\(part\+0x\w+\) \[0x(\w+)', c).group(1) for c in cells}
        self.assertIn(len(at), (2, 3), at)

    def test_reopened(self):
        """A copy of a library in a new namespace each time: what is not cut is right, and most is not."""
        path = self.path('notes')
        t = self.start('odd', [built('tests', 'live', 'stacks-odd'), 'reopened', library('libascend_hal.so'),
                               built('tests', 'live', 'stacks-part.so'), 1500, path])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c')
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        want = [c for list_ in notes(path).values() for c in list_]
        rows = [r for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']
        got = [c_frames(r['call_c']) for r in rows]
        self.assertEqual(len(got), len(want))
        wrong = [(r['call_c'], [hex(c) for c in callers]) for r, (f, cut), callers in zip(rows, got, want)
                 if not cut and f[-len(callers):] != callers]
        self.assertEqual(wrong[:2], [])
        s = result.summary['stacks']
        self.assertGreater(sum(not cut for _, cut in got), 0.5 * len(want), s)
        self.assertEqual(s['unknown_cells'], 0)

    def many(self, maps, number):
        """The recording of a program that maps one file so often, before and after; memory of memtap then."""
        path = self.path(self.number('notes'))
        t = self.start('many', [built('tests', 'live', 'stacks-many'), library('libascend_hal.so'),
                                built('tests', 'live', 'stacks-part.so'), path, number, maps])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c')
        t.line()
        t.until('mapped', limit=120)
        time.sleep(1)
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        self.assertGreaterEqual(self.compare(result, path), number)
        return result.summary

    def test_many_mappings(self):
        """10,000 mappings of one file: bounded, counted, and no slower."""
        few, many = self.many(10, 20000), self.many(10000, 20000)
        self.assertEqual(few['stacks']['maps_over'], 0)
        self.assertGreater(many['stacks']['maps_over'], 5000)
        self.assertEqual(many['stacks']['c_cut'], {})
        self.assertLess(many['memory_kib'] - few['memory_kib'], 32 << 10)
        # 10,000 lines of maps are read some times.
        self.assertLess(many['cpu_seconds'], 2 * few['cpu_seconds'] + 4)

    def test_go(self):
        """C that a program of Go calls: up to Go's own functions, and the reason says so."""
        go, program, number = shutil.which('go', path=f'{os.environ["PATH"]}:/usr/local/go/bin'), self.path('go'), 400
        if not go:
            self.skipTest('no go')
        done = subprocess.run([go, 'build', '-o', program, os.path.join(HERE, 'stacks_go.go')], capture_output=True,
                              text=True, timeout=300, env={'HOME': self.dir, **os.environ, 'CGO_ENABLED': '1'})
        if done.returncode:
            self.skipTest(f'go build: {done.stderr.strip().splitlines()[-1]}')
        truth = os.path.dirname(library('libsim_truth.so'))
        t = self.start('go', [program, library('libascend_hal.so'), number], env={'LD_LIBRARY_PATH': truth})
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c')
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        cells = [r['call_c'] for r in result.rows if r['type'] == 'HAL']
        self.assertEqual(len(cells), 2 * number)
        for cell in cells:
            self.assertRegex(cell, r'(?m)^\S*\(once\+')
            self.assertTrue(cell.endswith(f'(cut: {GO})\n'), cell)
        self.assertEqual(result.summary['stacks']['c_cut'], {GO: 2 * number})
        self.assertIn(f'cut, {GO}: {2 * number}', result.stderr)

    def test_longjmp(self):
        self.odd('longjmp')

    def test_coroutine(self):
        cells = self.odd('coroutine')
        self.assertTrue(all(re.search(r'\((inner|outer)\(', c) for c in cells), cells[0])

    def test_aligned(self):
        """Frames aligned to more than the stack is: rbp and the frame's end are described by expressions."""
        path = self.path('notes')
        cells = self.noted([built('tests', 'live', 'stacks-align'), library('libascend_hal.so'), 2000, path], 2000, path)
        self.assertTrue(all('(main+' in c for c in cells), cells[0])

    def test_vdso(self):
        cells = self.odd('vdso', 600)
        self.assertGreater(sum('[vdso]' in c or 'vdso' in c for c in cells), 20)


if __name__ == '__main__':
    unittest.main()
