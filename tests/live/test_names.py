# SPDX-License-Identifier: Apache-2.0
"""Python code that comes and goes: names tell the truth, or nothing."""
import collections
import os
import re
import unittest

from harness import built
from interpreters import interpreters
from test_callstack import StackTest, library

HERE = os.path.dirname(os.path.abspath(__file__))
MINORS = (11, 12, 13)


class Names(StackTest):
    def names(self, argv, how, number):
        """The n-th call of a thread is by the n-th function and file, or by nobody known."""
        t = self.start('names', [*argv, os.path.join(HERE, 'stacks_names.py'), built('tests', 'live', 'stackcall.so'),
                                 library('libascend_hal.so'), number, self.path(self.number('notes')), how])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=python')
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        calls, named = collections.Counter(), 0
        for r in result.rows:
            if r['type'] != 'HAL' or r['event'] != 'MALLOC':
                continue
            n, cell = calls[r['tid']], r['call_py']
            calls[r['tid']] += 1
            functions, files = re.findall(r': fn(\d+)', cell), re.findall(r'^file(\d+)\.py', cell, re.M)
            self.assertEqual(functions, files, cell)
            self.assertTrue(all(int(f) % 10000 == n for f in functions), (n, cell))
            # What has no name is said to have none, and counted.
            self.assertTrue(functions or 'NA' in cell.splitlines(), cell)
            named += bool(functions)
        self.assertEqual(sum(calls.values()), number)
        s = result.summary['stacks']
        self.assertGreaterEqual(named + s['python_unnamed'], number - s['python_lost'])
        return named

    def everywhere(self, hows, number):
        tried, why = 0, None
        for minor in MINORS:
            argvs, no = interpreters(minor)
            why = no or why
            for argv in (argvs or [])[:1]:
                # 3.12 has no ctypes for interpreters with their own lock.
                for how in hows if minor != 12 else hows[:1]:
                    with self.subTest(minor=minor, how=how):
                        self.names(argv, how, number)
                        tried += 1
        if not tried:
            self.skipTest(why)

    def test_interpreters(self):
        """Made and ended: the next one's code is where the last one's was."""
        self.everywhere(('legacy', 'own'), 60)

    def test_threads(self):
        """Code that is executed and freed in threads, in the same memory again and again."""
        self.everywhere(('threads',), 2000)


if __name__ == '__main__':
    unittest.main()
