# SPDX-License-Identifier: Apache-2.0
"""Signals before all probes are attached: a scan may be long, and its end is as clean as any."""
import os
import signal
import time

from harness import ATTACHED, LONG, alone
from slow import SlowAttach

class Early(SlowAttach):
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

    @alone
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
