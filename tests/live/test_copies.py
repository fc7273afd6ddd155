# SPDX-License-Identifier: Apache-2.0
"""Stacks that are cut in the kernel and completed from copies (record --stack-bytes)."""
import collections
import os
import re
import unittest

from harness import LiveTest, built
from test_callstack import c_frames, library, notes

DL = ('tests', 'live', 'stacks-dl')


class Copies(LiveTest):
    def trace(self, *job, options=(), env=None):
        """The record of one run of stacks-dl, and what it noted itself."""
        path = self.path('notes')
        t = self.start('dl', [built(*DL), library('libascend_hal.so'), path, *job])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c', *options, env=env)
        t.line()
        t.until('done', limit=120)
        result = rec.stop()
        t.line()
        return result, notes(path)

    def wrong(self, result, truth):
        """Of each allocation how its cell differs from what the program saw; the number of all."""
        rows = collections.defaultdict(list)
        for r in result.rows:
            if r['type'] == 'HAL' and r['event'] == 'MALLOC':
                rows[r['tid']].append(r['call_c'])
        self.assertEqual({t: len(v) for t, v in rows.items()}, {t: len(v) for t, v in truth.items()})
        wrong, n, example = collections.Counter(), 0, {}
        for tid, list_ in truth.items():
            for cell, callers in zip(rows[tid], list_):
                n += 1
                got, cut = c_frames(cell)
                what = cut or ('' if got[-len(callers):] == callers and len(got) <= len(callers) + 12 else 'other callers')
                wrong[what] += bool(what)
                if what:
                    example.setdefault(what, (cell, [hex(c) for c in callers]))
        return +wrong, n, example

    def complete(self, result, truth, at_least):
        wrong, n, example = self.wrong(result, truth)
        self.assertGreaterEqual(n, at_least)
        if sum(wrong.values()) * 1000 > n:
            self.fail(f'{dict(wrong)} of {n}: {example} {result.summary["stacks"]}')
        self.assertGreater(result.summary['stacks']['c_from_copies'], 0)
        self.assertIn('completed from copies: ', result.stderr)
        return n

    def test_dlopen(self):
        """Called at once, and closed before anybody could read what was mapped."""
        folder = os.path.dirname(built(*DL))
        for how, pause in (('open', 1000), ('keep', 1000)):
            with self.subTest(how):
                result, truth = self.trace(how, folder, 30, 40, pause)
                self.complete(result, truth, 1200)

    def test_exec(self):
        result, truth = self.trace('exec', 100)
        self.complete(result, truth, 100)

    def test_code(self):
        """Through code that nothing describes, where the program itself sees no further."""
        result, _ = self.trace('code', 500)
        stacks = collections.Counter()
        for r in result.rows:
            if r['type'] == 'HAL' and r['event'] == 'MALLOC':
                names = [re.sub(r'.*\((.*?)\+0x.*', r'\1', l) for l in r['call_c'].splitlines()]
                stacks[tuple(names)] += 1
        self.assertEqual(sum(stacks.values()), 1000)
        outer = ('main', '__libc_start_call_main', '__libc_start_main', '_start')
        with_record = {s: n for s, n in stacks.items() if 'with_record' in s}
        self.assertEqual(sum(with_record.values()), 500, stacks)
        for s in with_record:
            self.assertEqual(s[1:], ('stackcall', 'with_record', *outer))
        # Who moves the stack pointer only cannot be told from outside: it is not made up.
        without = [s for s in stacks if 'without_record' in s]
        self.assertTrue(without and all(s[3:] == ('(cut: an address that its file does not describe)',)
                                        for s in without), stacks)
        s = result.summary['stacks']
        self.assertEqual(s['c_from_copies'], 1000)
        # A stack is copied once, not once an event.
        self.assertLess(s['c_copies'], 100)

    def test_off(self):
        result, truth = self.trace('code', 50, options=['--stack-bytes', 0])
        wrong, n, _ = self.wrong(result, truth)
        self.assertEqual(sum(wrong.values()), n)
        s = result.summary['stacks']
        self.assertEqual((s['c_from_copies'], s['c_copies']), (0, 0))
        self.assertIn('an address that its file does not describe', s['c_cut'])

    def test_option(self):
        for value in ('', '1', '4095', '65K', 'x', '-1', '16X'):
            done = self.run_memtap('record', '-p', os.getpid(), '--stack-bytes', value)
            self.assertEqual(done.returncode, 2, (value, done.stderr))
            self.assertIn('0 or a size from 4K to 64K', done.stderr)
        self.assertIn('--stack-bytes', self.run_memtap('record', '--help').stdout)


if __name__ == '__main__':
    unittest.main()
