# SPDX-License-Identifier: Apache-2.0
"""What nobody saw and nobody can count: it has a LOST row with its interval, and nothing else is missing."""
import os
import re
import shutil
import signal
import subprocess

import compare as C
import readers
import truth as T
from harness import ATTACHED, LONG, sim
from slow import SlowAttach

LIBS = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib', 'mindspore/lib')
LATE = 'libtorch_npu.so'
TINY = {'MEMTAP_MAPWATCH_PAGES': '2'}
AMPLE = {'MEMTAP_MAPWATCH_PAGES': '256'}  # memtap is held still, and others start programs too


class Gaps(SlowAttach):
    def tree(self):
        """A copy of the simulated stack; one library of it is not there yet."""
        for d in LIBS:
            os.makedirs(self.path('root', d))
            for f in os.listdir(sim(d)):
                source = os.path.realpath(sim(d, f))
                if '.so' in f and os.path.isfile(source):
                    shutil.copy2(source, self.path('root', d, f))
        os.rename(self.path('root/torch_npu_c/lib', LATE), self.path(LATE))
        return self.path('root')

    def appear(self):
        os.rename(self.path(LATE), self.path('root/torch_npu_c/lib', LATE))

    def loaded(self, rec, job, before=lambda: None):
        """The job loads the library while memtap does not look, and calls it for some time."""
        self.appear()
        rec.signal(signal.SIGSTOP)
        before()
        job.go()
        self.pause(1.0)
        rec.signal(signal.SIGCONT)

    def gaps(self, result):
        lost = [r for r in result.rows if r['type'] == 'LOST']
        for row in lost:
            self.assertEqual((row['event'], row['name'], row['attr']['probe']), ('SYSTEM', 'N/A', 'all'))
            self.assertNotIn('cpu', row['attr'])
            self.assertEqual(row['attr']['count'], 'N/A' if row['device'] == 'N/A' else '0')
            self.assertLessEqual(int(row['attr']['first']), int(row['attr']['last']))
            self.assertLessEqual(int(row['attr']['last']), row['time'])
        return [r for r in lost if r['device'] == 'N/A'], [r for r in lost if r['device'] != 'N/A']

    def told(self, result, job, intervals, block_order, some=True):
        """Every call that has no row lies in one of the intervals, and there are such calls."""
        offset = result.summary['boot_to_real_ns']
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules(from_start=False))
        missing = [b for b in report if b.startswith('no row')]
        self.assertTrue(missing or not some, 'nothing is missing: this run tells nothing')
        for text in missing:
            t = int(re.search(r'\[(\d+), \d+\]', text)[1]) + offset
            self.assertTrue(any(a <= t <= b for a, b in intervals), (text, intervals))
        # a block that was allocated in the gap is freed as one of before the attach
        wrong = [b for b in report if not b.startswith('no row')]
        bad = wrong + C.invariants(result.rows, result.summary, block_order=block_order)
        if bad:
            self.fail(self.show(bad, result))

    def late(self, *args, db=False):
        root = self.tree()
        job = self.job('--seconds', 2.6, '--rate', 1500, '--threads', 2, '--late-dlopen', 0.2, start=False,
                       env={'SIM_ROOT': root})
        rec = self.record('-p', job.pid, '--strict', *args, db=db, env=AMPLE)
        self.loaded(rec, job)
        job.finish()
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertIn('late library', result.stderr)
        (row,), notices = self.gaps(result)
        self.assertEqual((row['pid'], row['tid'], row['attr']['reason']), (job.pid, job.pid, 'late library'))
        self.assertEqual(row['attr']['library'], os.path.join(root, 'torch_npu_c/lib', LATE))
        self.assertEqual({r['device'] for r in notices}, {'0'})
        (late,) = result.summary['late_libraries']
        self.assertEqual((late['path'], late['pid']), (row['attr']['library'], job.pid))
        offset = result.summary['boot_to_real_ns']
        interval = late['first_boot_ns'] + offset, late['last_boot_ns'] + offset
        self.assertEqual(interval, (int(row['attr']['first']), int(row['attr']['last'])))
        self.assertEqual(late['gap_ns'], interval[1] - interval[0])
        self.assertGreater(late['gap_ns'], 400_000_000)
        self.assertEqual(result.summary['mappings_unwatched'], [])
        self.told(result, job, [interval], db or 'block' in args)
        for t in result.traces().values():
            said = [e for e in t if e.get('name') == 'lost']
            if said:
                self.assertIn('late library', str(said))
        if db:
            self.assertEqual(readers.insight(result.dump), [])

    def test_late_library(self):
        self.late()

    def test_late_library_in_block_order(self):
        self.late('--order', 'block')

    def test_late_library_db(self):
        self.late(db=True)

    def test_late_library_db_in_block_order(self):
        self.late('--order', 'block', db=True)

    @staticmethod
    def burst(n):
        """Mappings on every CPU: some four for each start of a program."""
        for cpu in sorted(os.sched_getaffinity(0)):
            subprocess.run(['taskset', '-c', str(cpu), 'sh', '-c', f'i=0; while [ $i -lt {n} ]; do /bin/true; i=$((i+1)); done'],
                           check=True)

    def unwatched(self, *args, db=False):
        """The notice of the late library is lost among others: it is looked for, and the time is told."""
        root = self.tree()
        job = self.job('--seconds', 3.5, '--rate', 1500, '--threads', 2, '--late-dlopen', 0.2, start=False,
                       env={'SIM_ROOT': root})
        rec = self.record('-p', job.pid, '--strict', *args, db=db, env=TINY)
        self.loaded(rec, job, before=lambda: self.burst(40))
        self.pause(0.3)
        self.burst(2)  # the kernel counts what was lost with the next notice
        job.finish()
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertIn('notices of new mappings were lost', result.stderr)
        rows, notices = self.gaps(result)
        offset = result.summary['boot_to_real_ns']
        intervals = []
        for row in rows:
            self.assertEqual(row['pid'], job.pid)
            intervals.append((int(row['attr']['first']), int(row['attr']['last'])))
        unwatched = [r for r in rows if r['attr']['reason'] == 'mapping notices lost']
        late = [r for r in rows if r['attr']['reason'] == 'late library']
        self.assertEqual(len(unwatched) + len(late), len(rows))
        self.assertTrue(unwatched and notices)
        self.assertFalse([r for r in unwatched if 'library' in r['attr']])
        self.assertEqual([r['attr']['library'] for r in late], [os.path.join(root, 'torch_npu_c/lib', LATE)])
        self.assertEqual([(g['first_boot_ns'] + offset, g['last_boot_ns'] + offset)
                          for g in result.summary['mappings_unwatched']],
                         [(int(r['attr']['first']), int(r['attr']['last'])) for r in unwatched])
        self.assertGreater(result.summary['mapwatch_lost'], 20)
        # what is told of the burst covers what was missed by it
        self.told(result, job, [i for i, r in zip(intervals, rows) if r in unwatched],
                  db or 'block' in args)

    def test_lost_notices(self):
        self.unwatched()

    def test_lost_notices_db_in_block_order(self):
        self.unwatched('--order', 'block', db=True)

    def test_lost_notice_of_a_named_process(self):
        exe = self.path('npu-job-c')
        shutil.copy2(sim('sim-train'), exe)
        rec = self.record('-n', 'npu-job-c', env=TINY)
        rec.signal(signal.SIGSTOP)
        self.burst(40)
        job = self.job('--seconds', 2.0, '--rate', 1500, start=False, exe=exe, env={'SIM_ROOT': sim()})
        self.pause(0.2)
        rec.signal(signal.SIGCONT)
        self.pause(0.5)
        job.go()
        job.finish()
        result = rec.stop()
        self.assertTrue(result.summary['mappings_unwatched'])
        self.agree(result, job, from_start=False)

    def named(self, name):
        exe = self.path(name)
        shutil.copy2(sim('sim-train'), exe)
        return exe

    def late_process(self, result, pid):
        """Its LOST row, which says what the summary does; the interval."""
        offset = result.summary['boot_to_real_ns']
        (late,) = [p for p in result.summary['late_processes'] if p['pid'] == pid]
        (row,) = [r for r in self.gaps(result)[0] if r['attr']['reason'] == 'late process' and r['pid'] == pid]
        interval = int(row['attr']['first']), int(row['attr']['last'])
        self.assertEqual(interval, (late['first_boot_ns'] + offset, late['last_boot_ns'] + offset))
        self.assertIn(f'late process (pid {pid}): found by its name within', result.stderr)
        return interval

    def test_late_process(self):
        """A process that is found by its name when it calls already; the libraries are probed for another one."""
        exe = self.named('npu-job-e')
        first = self.job('--seconds', LONG, '--rate', 200, exe=exe, env={'SIM_ROOT': sim()})
        self.pause(0.5)
        rec = self.record('-n', 'npu-job-e', '--strict', env=AMPLE)
        rec.signal(signal.SIGSTOP)
        job = self.job('--seconds', 2.5, '--rate', 1500, exe=exe, env={'SIM_ROOT': sim()})
        self.pause(1.0)
        rec.signal(signal.SIGCONT)
        job.finish()
        self.stop(first)
        result = rec.stop()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertEqual([p['pid'] for p in result.summary['late_processes']], [job.pid])
        interval = self.late_process(result, job.pid)
        self.assertGreater(interval[1] - interval[0], 400_000_000)
        result._rows = [r for r in result.rows if r['pid'] == job.pid]
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules(from_start=False))
        missing = [b for b in report if b.startswith('no row')]
        self.assertGreater(len(missing), 100)
        self.assertGreater(report.matched, 100)
        for text in missing:
            t = int(re.search(r'\[(\d+), \d+\]', text)[1]) + result.summary['boot_to_real_ns']
            self.assertTrue(interval[0] <= t <= interval[1] + C.EDGE, (text, interval))

    def test_late_process_with_children(self):
        """Children that it had before are traced with it, and told of."""
        exe = self.named('npu-job-f')
        rec = self.record('-n', 'npu-job-f', env=AMPLE)
        rec.signal(signal.SIGSTOP)
        job = self.job('--seconds', 2.5, '--rate', 500, '--ranks', 2, exe=exe, env={'SIM_ROOT': sim()})
        self.pause(1.0)
        ranks = job.ranks()
        self.assertEqual(len(ranks), 2)
        rec.signal(signal.SIGCONT)
        job.finish()
        result = rec.stop()
        for pid in ranks:
            self.late_process(result, pid)
            self.assertGreater(len([r for r in result.rows if r['pid'] == pid]), 50)

    def test_named_process_that_is_found_in_time(self):
        exe = self.named('npu-job-g')
        rec = self.record('-n', 'npu-job-g', '--strict')
        job = self.job('--seconds', 1.0, '--rate', 500, exe=exe, env={'SIM_ROOT': sim()}, start=False)
        self.pause(0.5)
        job.go()
        job.finish()
        result = rec.stop()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual(result.summary['late_processes'], [])
        self.agree(result, job)

    def test_named_process_that_is_gone(self):
        """It has ended when its name could be looked at: told, as far as anybody knows."""
        exe = self.named('npu-job-h')
        rec = self.record('-n', 'npu-job-h', '--strict', env=AMPLE)
        rec.signal(signal.SIGSTOP)
        job = self.job('--steps', 3, exe=exe, env={'SIM_ROOT': sim()})
        self.assertEqual(job.finish(), 0)
        rec.signal(signal.SIGCONT)
        self.pause(0.3)
        result = rec.stop()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertIn(job.pid, [p['pid'] for p in result.summary['late_processes']])
        self.assertIn(f'pid {job.pid}: had a library mapped and ended', result.stderr)

    def test_full_before_the_loop(self):
        """A ring that fills while others are attached to wakes nobody any more, and is read all the same."""
        root = self.tree()
        many = self.many()
        job = self.job('--seconds', 2.5, '--rate', 1500, '--late-dlopen', 0.2, start=False, env={'SIM_ROOT': root})
        rec = self.begun('-p', f'{many.pid},{job.pid}', env=TINY)
        rec.signal(signal.SIGSTOP)
        self.burst(40)
        self.assertNotIn(ATTACHED, rec.stderr())
        rec.signal(signal.SIGCONT)
        rec.until('notices of new mappings were lost', 'stderr')
        self.appear()
        job.go()
        job.finish()
        many.line()
        result = rec.ended()
        self.assertTrue(result.summary['mappings_unwatched'])
        # looked for again and again: found before it was mapped, or told to be late
        self.assertGreater(len([r for r in result.rows if r['type'] == 'PTA']), 100)
        intervals = [(int(r['attr']['first']), int(r['attr']['last'])) for r in self.gaps(result)[0]]
        self.told(result, job, intervals, False, some=False)

    def gone(self, before_it_is_read=lambda: None):
        """The process has ended when the notice of its library is read."""
        root = self.tree()
        job = self.job('--steps', 5, '--late-dlopen', 0.2, start=False, env={'SIM_ROOT': root})
        rec = self.record('-p', job.pid, '--strict', env=AMPLE)
        self.appear()
        rec.signal(signal.SIGSTOP)
        job.go()
        self.assertEqual(job.finish(), 0)
        before_it_is_read()
        self.pause(2 * C.EDGE / 1e9)
        rec.signal(signal.SIGCONT)
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        (row,), _ = self.gaps(result)
        self.assertEqual((row['pid'], row['attr']['reason']), (job.pid, 'late library'))
        self.assertEqual(row['attr']['library'], os.path.join(root, 'torch_npu_c/lib', LATE))
        self.told(result, job, [(int(row['attr']['first']), int(row['attr']['last']))], False)
        return result.summary['late_libraries'][0]['probed']

    def test_process_is_gone(self):
        self.assertTrue(self.gone())

    def test_process_and_library_are_gone(self):
        self.assertFalse(self.gone(lambda: shutil.rmtree(self.path('root'))))
