# SPDX-License-Identifier: Apache-2.0
"""C stacks through code that is in no file any more, left by longjmp, of coroutines, of the kernel."""
import re
import unittest

from harness import built
from test_callstack import StackTest, library


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
