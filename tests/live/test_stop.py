# SPDX-License-Identifier: Apache-2.0
"""How a recording ends: signals, the target's end, SIGKILL and recovery, a full disk, losses."""
import csv
import glob
import os
import re
import signal
import subprocess
import time

import compare as C
import readers
import truth as T
from basic import BasicTest
from harness import LIMIT, LONG, clock_offset, memtap

SECOND = 1_000_000_000


def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Stop(BasicTest):
    def test_signals(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=sig):
                job = self.job('--seconds', LONG, '--rate', 2000)
                self.pause(0.3)
                rec = self.record('-p', job.pid)
                self.pause(0.5)
                result = rec.stop(sig)
                self.assertIsNone(job.p.poll())
                self.stop(job)
                self.agree(result, job, from_start=False)

    def test_signal_behind_the_end(self):
        """Of a recording that has ended by itself the first signal asks for what is done anyway."""
        job = self.job('--seconds', 1, '--rate', 2000)
        rec = self.record('-p', job.pid)
        rec.until('all traced processes have ended', 'stderr')
        rec.signal(signal.SIGINT)
        self.assertEqual(job.wait(), 0)
        self.agree(rec.ended(), job, from_start=False)

    def test_second_signal(self):
        """It ends memtap, which is held by a reader that does not read; the target runs on."""
        for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT),
                              (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(first=first, second=second):
                job = self.job('--seconds', LONG, '--rate', 500)
                self.pause(0.3)
                reader, writer = os.pipe()
                os.set_blocking(writer, False)
                try:
                    while True:
                        os.write(writer, bytes(4096))
                except BlockingIOError:
                    pass
                os.set_blocking(writer, True)
                name = self.number('held')
                with open(self.path(name + '.err'), 'wb') as err:
                    p = subprocess.Popen([memtap(), 'record', '-p', str(job.pid), '-o', self.path(name + '.d'),
                                          '--summary-json', '-'], stdout=writer, stderr=err)
                os.close(writer)
                self.cleanups.append(lambda p=p: (p.poll() is None and p.kill(), p.wait()))
                self.said(p, name, 'all probes attached')
                p.send_signal(first)
                self.said(p, name, 'own cost')  # the summary, behind which the JSON is written
                self.pause(0.5)
                self.assertIsNone(p.poll(), 'nothing holds it')
                p.send_signal(second)
                self.assertEqual(p.wait(5), -second)
                with open(self.path(name + '.err')) as f:
                    self.assertIn('aborted by a second signal; memtap recover', f.read())
                os.close(reader)
                self.assertIsNone(job.p.poll())
                self.stop(job)

    def said(self, p, name, text):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with open(self.path(name + '.err')) as f:
                if text in f.read():
                    return
            self.assertIsNone(p.poll(), f'ended without {text!r}')
            time.sleep(0.01)
        self.fail(f'no {text!r}')

    def test_end_of_target(self):
        result, job = self.traced(seconds=0.4)
        self.agree(result, job)
        self.assertIn('all traced processes have ended', result.stderr)

    def test_target_is_killed(self):
        """No truth of it, but the files are whole and the accounting exact."""
        job = self.job('--seconds', 20, '--rate', 3000, '--threads', 3, start=False)
        rec = self.record('-p', job.pid)
        job.go()
        self.pause(0.7)
        job.signal(signal.SIGKILL)
        result = rec.ended()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual(C.invariants(result.rows) + C.accounting(result.rows, result.summary), [])
        self.assertTrue(result.of('MALLOC'))
        result.traces()

    def torn(self, rec):
        """Rows of a csv whose last line may be half."""
        path = readers.dump_of(rec.dir)
        with open(path, newline='') as f:
            lines = list(csv.reader(f))
        self.assertEqual(lines[0], readers.read_csv.__globals__['COLUMNS'])
        for cells in lines[1:-1]:
            self.assertEqual(len(cells), 12)
        return lines

    def killed(self, *args, db=False):
        job = self.job('--seconds', 4, '--rate', 2000, '--threads', 2, start=False)
        rec = self.record('-p', job.pid, *args, db=db)
        attached = boot()
        job.go()
        self.pause(2.2)
        before = boot()
        rec.signal(signal.SIGKILL)
        rec.wait()
        self.assertIsNone(job.p.poll(), 'the target died with memtap')
        if not db:
            self.torn(rec)
        self.assertEqual(job.finish(), 0, job.stderr())
        done = self.run_memtap('recover', rec.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = rec.result()
        records = self.records(job)
        window = attached, before - SECOND + C.EDGE
        report = C.compare(result.rows, records, None, T.Rules(), window=window, offset=clock_offset(),
                           eps=200_000)
        bad = list(report)
        bad += C.invariants([r for r in result.rows if r['type'] != 'LOST'], block_order=True)
        self.assertFalse(bad, bad[:8])
        self.assertGreater(report.matched, 1000)
        lost = [r for r in result.rows if r['type'] == 'LOST']
        self.assertEqual(len(lost), 1, 'the end is not said to be unknown')
        # Of all that came behind the last row that was written nothing is known.
        self.assertLessEqual(int(lost[0]['attr']['first']),
                             max(r['time'] for r in result.rows if r['event'] != 'SYSTEM' and r['type'] != 'LOST'))
        self.assertEqual(lost[0]['pid'], job.pid)
        result.traces()
        again = self.run_memtap('recover', rec.dir)  # nothing left to do, nothing harmed
        rows = len(result.rows)
        result._rows = None
        self.assertEqual(len(result.rows), rows, again.stderr)
        return result

    def test_sigkill(self):
        self.killed()

    def test_sigkill_in_block_order(self):
        self.killed('--order', 'block')

    def test_sigkill_db(self):
        result = self.killed(db=True)
        self.assertEqual(readers.insight(result.dump), [])

    def test_sigkill_db_in_block_order(self):
        result = self.killed('--order', 'block', db=True)
        self.assertEqual(readers.insight(result.dump), [])

    def full(self, *args, db=False, size='1500k'):
        disk = self.path('disk')
        os.mkdir(disk)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'none', disk], check=True)
        self.cleanups.append(lambda: subprocess.run(['umount', '-l', disk], check=False))
        job = self.job('--seconds', LONG, '--threads', 2, '--rate', 4000)
        self.pause(0.2)
        rec = self.record('-p', job.pid, *args, out=disk + '/out', db=db)
        result = rec.ended()
        self.assertEqual(result.rc, 1, result.stderr)
        self.assertIn('No space left', result.stderr)
        self.stop(job)
        return result, job

    def test_disk_full(self):
        result, job = self.full()
        lines = self.torn(result)
        self.assertEqual(len(lines[-1]), 12, 'the last row is torn')
        self.assertGreater(len(lines), 1000)
        records = self.records(job)
        report = C.compare(result.rows, records, result.summary, T.Rules(from_start=False))
        wrong = [b for b in report if not b.startswith('no row')]
        self.assertEqual(wrong, [])
        self.assertTrue(result.summary['accounting']['exact'])

    def test_disk_full_db(self):
        result, _ = self.full(db=True, size='6m')
        # its log could not be merged without room; with room it can, and holds what was written
        subprocess.run(['mount', '-o', 'remount,size=20m', self.path('disk')], check=True)
        done = self.run_memtap('recover', result.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(readers.read_db(result.dump)), 100)

    def test_lossy(self):
        """A ring much too small: exact accounts, losses as rows, status 3 only when asked."""
        for strict, size in ((True, '4096'), (False, '64K')):
            with self.subTest(size=size):
                job = self.job('--load', '--steps', 30, '--threads', 3, start=False, truth=False)
                rec = self.record('-p', job.pid, '--ring-size', size, *(['--strict'] if strict else []))
                # Held still while the ring fills: a loss does not depend on who is faster.
                rec.signal(signal.SIGSTOP)
                job.go()
                job.until('DONE')
                rec.signal(signal.SIGCONT)
                job.finish()
                result = rec.ended()
                self.assertEqual(result.rc, 3 if strict else 0, result.stderr)
                a = result.summary['accounting']
                self.assertGreater(a['lost'], 0)
                self.assertEqual(C.accounting(result.rows, result.summary, lossless=False), [])
                self.assertEqual(sum(l['count'] for l in result.summary['losses']), a['lost'])
                self.assertIn('lost', result.stderr)
                for row in result.rows:
                    if row['type'] == 'LOST':
                        self.assertLessEqual(int(row['attr']['first']), int(row['attr']['last']))

    def test_lossy_rows_are_right(self):
        """What is not lost is right, and what is missing is not more than what is said to be lost."""
        job = self.job('--steps', 60, '--threads', 3, start=False)
        rec = self.record('-p', job.pid, '--ring-size', '4096')
        rec.signal(signal.SIGSTOP)
        job.go()
        self.pause(0.1)
        rec.signal(signal.SIGCONT)
        job.finish()
        result = rec.ended()
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules())
        missing = [b for b in report if b.startswith('no row')]
        a = result.summary['accounting']
        self.assertGreater(a['lost'], 0)
        self.assertLessEqual(len(missing), a['lost'])
        stray = [b for b in report if b.startswith('row without')]
        self.assertEqual(stray, [])

    def test_lossy_rows_have_their_intervals(self):
        """Held still again and again: what is missing lies where the row of that second says."""
        job = self.job('--seconds', 4.5, '--rate', 3000, '--threads', 2, start=False)
        rec = self.record('-p', job.pid, '--ring-size', '64K')
        job.go()
        for _ in range(4):
            rec.signal(signal.SIGSTOP)
            self.pause(0.5)
            rec.signal(signal.SIGCONT)
            self.pause(0.6)
        job.finish()
        result = rec.ended()
        self.assertEqual(C.accounting(result.rows, result.summary, lossless=False), [])
        offset = result.summary['boot_to_real_ns']
        lost = [r['attr'] for r in result.rows if r['type'] == 'LOST' and r['attr']['count'] not in ('0', 'N/A')]
        intervals = [(int(a['first']) - C.EDGE, int(a['last']) + C.EDGE) for a in lost]
        tellings = {}
        for r in result.rows:
            a = r['attr']
            if r['type'] == 'LOST' and a['count'] not in ('0', 'N/A'):
                tellings.setdefault((a['probe'], a['cpu'], a['reason'], r['device']), []).append(a)
        self.assertTrue([t for t in tellings.values() if len(t) > 1], 'nothing was told twice')
        for rows in tellings.values():
            for before, after in zip(rows, rows[1:]):
                self.assertEqual(int(before['last']), int(after['first']))
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules())
        missing = [b for b in report if b.startswith('no row')]
        self.assertGreater(len(missing), 100)
        for text in missing:
            a, b = (int(t) + offset for t in re.search(r'\[(\d+), (\d+)\]', text).groups())
            self.assertTrue(any(i <= b and a <= j for i, j in intervals), text)

    def test_strict_without_losses(self):
        result, job = self.traced(rec=('--strict',))
        self.agree(result, job)

    def test_too_many_open_calls(self):
        for n in (1, 2, 4):
            with self.subTest(inflight=n):
                job = self.job('--no-torch', '--steps', 12, '--threads', 8, start=False,
                               env={'SIM_SLOW_US': '3:2000'})
                rec = self.record('-p', job.pid, env={'MEMTAP_INFLIGHT_MAX': n})
                job.go()
                job.finish()
                result = rec.ended()
                a = result.summary['accounting']
                self.assertGreater(a['lost'], 0)
                self.assertEqual(C.accounting(result.rows, result.summary, lossless=False), [])
                self.assertEqual(a['not_returned'], 0)
                report = C.compare(result.rows, self.records(job), result.summary, T.Rules())
                missing = [b for b in report if b.startswith('no row')]
                self.assertLessEqual(len(missing), a['lost'])
                self.assertEqual([b for b in report if b.startswith('row without')], [])

    def test_calls_of_the_dead_are_swept(self):
        """What a killed process left open does not stay in the map of open calls."""
        other = self.job('--no-torch', '--seconds', LONG, '--rate', 200)
        job = self.job('--no-torch', '--seconds', LONG, '--rate', 3000, '--threads', 8, start=False,
                       env={'SIM_SLOW_US': '3:2000'})
        rec = self.record('-p', job.pid, '-p', other.pid, env={'MEMTAP_SWEEP_MS': '200'})
        job.go()
        self.pause(0.5)
        job.signal(signal.SIGKILL)
        self.pause(2.5)
        result = rec.stop()
        self.stop(other)
        a = result.summary['accounting']
        self.assertGreater(a['abandoned'], 0)
        self.assertLessEqual(a['not_returned'], 1)
        self.assertTrue(a['exact'])
        self.assertEqual(result.summary['lifecycle']['lost'], 0)
        self.assertGreater(result.summary['lifecycle']['seen'], 0)

    def test_nothing_left_behind(self):
        """Probes, links and maps are gone with memtap, however it ended."""
        def links():
            return len(glob.glob('/proc/*/fd/*')) and subprocess.run(
                ['grep', '-sl', 'prog_id', *glob.glob(f'/proc/{self.rec.pid}/fdinfo/*')],
                capture_output=True, text=True).stdout
        job = self.job('--seconds', LONG, '--rate', 1000)
        self.rec = self.record('-p', job.pid)
        self.assertTrue(links())
        self.rec.signal(signal.SIGKILL)
        self.rec.wait()
        self.assertFalse(links())
        self.stop(job)
        self.assertTrue(os.path.exists(memtap()))
