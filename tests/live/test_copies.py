# SPDX-License-Identifier: Apache-2.0
"""Stacks that are cut in the kernel and completed from copies (record --stack-bytes)."""
import collections
import glob
import json
import os
import re
import subprocess
import time
import unittest

from harness import LiveTest, built
from test_callstack import c_frames, library, notes

DL = ('tests', 'live', 'stacks-dl')


class Copies(LiveTest):
    def trace(self, *job, options=(), env=None):
        """The record of one run of stacks-dl, and what it noted itself."""
        self.runs = getattr(self, 'runs', 0) + 1
        path = self.path(f'notes{self.runs}')
        t = self.start(f'dl{self.runs}', [built(*DL), library('libascend_hal.so'), path, *job])
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
                result, truth = self.trace(how, folder, 30, 40, pause, options=['--ring-size', '64M'])
                self.complete(result, truth, 1200)
        # Without copies what is shown is right, and not complete; now and then memtap is that fast.
        for _ in range(5):
            result, truth = self.trace('open', folder, 30, 4, 0, options=['--stack-bytes', 0])
            wrong, n, _ = self.wrong(result, truth)
            self.assertTrue(all(w.startswith('(cut: ') for w in wrong), wrong)
            if sum(wrong.values()) > n // 10:
                break
        else:
            self.fail(f'{n} stacks, and none is cut without copies')

    def test_exec(self):
        """Programs that allocate as their first act, and end at once."""
        # All copies have room in a quarter of the ring, also while memtap gets no processor.
        result, truth = self.trace('exec', 200, options=['--ring-size', '64M'])
        self.complete(result, truth, 200)

    def test_code(self):
        """Through code that nothing describes, where the program itself sees no further."""
        for env in (None, {'MEMTAP_DISABLE': 'sleepable,session'}):
            with self.subTest(env):
                self.code(env)

    def code(self, env):
        result, _ = self.trace('code', 500, env=env)
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

    def test_rate(self):
        """More than may be copied in a second: counted, and the others stay cut."""
        folder = os.path.dirname(built(*DL))
        # A copy of 16K may be had in each second, no two.
        result, truth = self.trace('open', folder, 30, 4, 1000, env={'MEMTAP_COPY_RATE': 20000})
        wrong, n, _ = self.wrong(result, truth)
        s = result.summary['stacks']
        self.assertTrue(1 <= s['c_copies'] <= 5, s)
        self.assertGreater(s['c_not_copied'], 0)
        self.assertEqual(sum(s['c_cut'].values()) + s['c_complete'], 2 * n)
        self.assertGreater(s['c_cut']['an address in no known mapping'], 0)
        self.assertTrue(all(w.startswith('(cut: ') for w in wrong), wrong)
        self.assertRegex(result.stderr, r'not copied: \d+ above the rate')

    def test_forget(self):
        """What is known of processes goes some time after their end."""
        path, n = self.path('notes'), 2000
        t = self.start('dl', [built(*DL), library('libascend_hal.so'), path, 'fork', n])
        t.until('up')
        rec = self.record('-p', t.pid, '--call-stack=c,python',
                          # A sanitizer keeps what was freed.
                          env={'MEMTAP_KEEP_MS': 300, 'ASAN_OPTIONS': 'quarantine_size_mb=1'})
        before = self.rss(rec.pid)
        t.line()
        t.until('done', limit=120)
        # Rows are written a second later, and it is looked every half.
        time.sleep(2.5)
        after, known = self.rss(rec.pid), self.known(rec.pid)
        result = rec.stop()
        # Of children that ended before anybody could read them too: the map has room for 16384.
        self.assertLess(known, 20)
        self.assertLess(result.summary['stacks']['programs'], 20)
        rows = [r for r in result.rows if r['event'] == 'MALLOC']
        self.assertEqual(len({r['pid'] for r in rows}), n)
        truth = notes(path)
        for r in rows:
            got, cut = c_frames(r['call_c'])
            callers = truth[r['tid']][0]
            self.assertEqual((got[-len(callers):], cut), (callers, None))
        # Mappings of 2000 processes alone would be 1 MB; events that wait, and rows, are the rest.
        print(f'{before} KiB before, {after} after {n} processes')
        self.assertLess(after - before, 24 << 10)

    def known(self, pid):
        """Processes that the programs have mappings of."""
        maps = json.loads(subprocess.run(['bpftool', '-j', 'map', 'show'], capture_output=True, check=True).stdout)
        theirs = set()
        for path in glob.glob(f'/proc/{pid}/fdinfo/*'):
            with open(path) as f:
                theirs |= {int(line.split()[1]) for line in f if line.startswith('map_id:')}
        own = [m['id'] for m in maps if m.get('name') == 'uw_procs' and m['id'] in theirs]
        self.assertEqual(len(own), 1, own)
        done = subprocess.run(['bpftool', '-j', 'map', 'dump', 'id', str(own[0])], capture_output=True, check=True)
        return len(json.loads(done.stdout))

    def rss(self, pid):
        with open(f'/proc/{pid}/status') as f:
            return next(int(l.split()[1]) for l in f if l.startswith('VmRSS:'))

    def test_option(self):
        for value in ('', '1', '4095', '65K', 'x', '-1', '16X'):
            done = self.run_memtap('record', '-p', os.getpid(), '--stack-bytes', value)
            self.assertEqual(done.returncode, 2, (value, done.stderr))
            self.assertIn('0 or a size from 4K to 64K', done.stderr)
        self.assertIn('--stack-bytes', self.run_memtap('record', '--help').stdout)


if __name__ == '__main__':
    unittest.main()
