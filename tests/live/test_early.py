# SPDX-License-Identifier: Apache-2.0
"""Signals before all probes are attached: a scan may be long, and its end is as clean as any."""
import os
import shutil
import signal
import sys
import time

from basic import BasicTest
from harness import ATTACHED, LONG, Process, sim

MANY = 120  # libraries to attach to: a second and more
MAPPER = '''
import mmap, sys
keep = []
for path in sys.argv[1:]:
    with open(path, "rb") as f:
        keep.append(mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
print("READY", flush=True)
sys.stdin.readline()
'''


class Early(BasicTest):
    def many(self):
        """A process with many driver libraries."""
        paths = []
        for n in range(MANY):
            os.makedirs(self.path('many', str(n)))
            paths.append(self.path('many', str(n), 'libascend_hal.so'))
            shutil.copy2(os.path.realpath(sim('cann/lib64/libascend_hal.so')), paths[-1])
        p = Process(self, 'mapper', [sys.executable, '-c', MAPPER, *paths])
        p.until('READY')
        return p

    def links(self, rec):
        """Links of BPF programs that memtap has by now."""
        n = 0
        for fd in os.listdir(f'/proc/{rec.pid}/fd'):
            try:
                n += os.readlink(f'/proc/{rec.pid}/fd/{fd}') in ('anon_inode:bpf_link', 'anon_inode:bpf-link')
            except OSError:
                pass
        return n

    def begun(self, *args):
        """A recording that has attached to some of the libraries."""
        rec = self.record(*args, attached=False)
        end = time.monotonic() + 20
        while self.links(rec) < 30:
            self.assertIsNone(rec.p.poll(), rec.stderr())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.002)
        self.assertNotIn(ATTACHED, rec.stderr())
        return rec

    def check(self, result, probes):
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertNotIn(ATTACHED, result.stderr)
        self.assertIn('stopped by a signal before', result.stderr)
        self.assertGreater(result.summary['probes'], 0)
        self.assertLess(result.summary['probes'], probes)
        self.assertTrue(result.summary['accounting']['exact'])
        self.assertEqual(result.summary['accounting']['seen'], 0)
        self.assertEqual(result.rows, [])
        self.assertEqual(result.summary['files'], [])

    def test_signals(self):
        p = self.many()
        whole = self.record('-p', p.pid, '-d', 0.1).ended()
        job = self.job('--seconds', LONG, '--rate', 1000)
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for who in (('-p', f'{p.pid},{job.pid}'), ('-a',)):
                with self.subTest(signal=sig, who=who):
                    rec = self.begun(*who)
                    self.check(rec.stop(sig), whole.summary['probes'])
        self.assertIsNone(p.p.poll())
        self.assertIsNone(job.p.poll())
        self.stop(job)

    def test_second_signal(self):
        p = self.many()
        rec = self.begun('-p', p.pid)
        while rec.p.poll() is None:
            rec.signal(signal.SIGINT)
            time.sleep(0.001)
        self.assertEqual(rec.wait(), -signal.SIGINT)
        self.assertNotIn(ATTACHED, rec.stderr())
        self.assertIsNone(p.p.poll())

    def test_signal_before_anything(self):
        """Sent while memtap starts: not lost, and not deadly."""
        p = self.many()
        rec = self.record('-p', p.pid, attached=False)
        for _ in range(2000):
            with open(f'/proc/{rec.pid}/status') as f:
                blocked = next(l for l in f if l.startswith('SigBlk')).split()[1]
            if int(blocked, 16) & 1 << (signal.SIGINT - 1):
                break
            time.sleep(0.001)
        result = rec.stop()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertIn('stopped by a signal before', result.stderr)

    def test_command(self):
        """It has not been started, and is not left waiting."""
        p = self.many()
        made = self.path('made')
        rec = self.begun('-p', p.pid, '--', '/usr/bin/touch', made)
        with open(f'/proc/{rec.pid}/task/{rec.pid}/children') as f:
            children = f.read().split()
        self.assertEqual(len(children), 1)
        result = rec.stop()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertIn('the command was not started', result.stderr)
        self.assertNotIn('command_status', result.summary)
        self.assertFalse(os.path.exists(made))
        self.assertFalse(os.path.exists(f'/proc/{children[0]}'))
