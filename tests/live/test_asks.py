# SPDX-License-Identifier: Apache-2.0
"""The module msleaks in a program: --collect-mode=custom, labels, steps, snapshots; nothing without memtap."""
import csv
import glob
import os
import re
import shutil
import stat
import subprocess
import sys

import readers
from basic import BasicTest
from harness import built, memtap, sim

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
LIBS = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib')
PROGRAM = [sys.executable, os.path.join(HERE, 'asks.py')]


def environment(**more):
    return dict({'LD_LIBRARY_PATH': ':'.join(sim(x) for x in LIBS), 'PYTHONPATH': os.path.join(TOP, 'python'),
                 'MEMTAP_MARKS': built('python', 'libmemtap_marks.so')}, **more)


class Asks(BasicTest):
    def front(self, part, *options, rc=0, **env):
        """memtap msleaks on a part of asks.py: rows in the order of the file."""
        name = self.number('asks')
        d = self.path(name + '.d')
        p = self.start(name, [memtap(), 'msleaks', '--output=' + d, *options, '--', *PROGRAM, part],
                       env=environment(**env))
        self.assertEqual(p.wait(), rc, p.stderr())
        self.assertIn('END', p.stdout(), p.stderr())
        self.assertNotIn('Traceback', p.stderr())
        p.dir = d
        (p.dump,) = glob.glob(d + '/dump/*_dump_*')
        p.rows = (readers.read_db if p.dump.endswith('.db') else readers.read_csv)(p.dump)
        p.by_id = sorted(p.rows, key=lambda r: r['id'])
        return p

    @staticmethod
    def brief(rows):
        return [f'{r["event"]} {r["type"]}' for r in rows]

    def test_custom(self):
        """The rows of data/msleaks/real/custom: what pools hold goes on to be counted."""
        p = self.front('windows', '--collect-mode=custom', '--level=0,1')
        launch = 'KERNEL_LAUNCH KERNEL_LAUNCH'
        self.assertEqual(self.brief(p.by_id), [
            'SYSTEM ACL_INIT', 'SYSTEM STOP_TRACE', 'MSTX Mark', 'SYSTEM START_TRACE', 'MALLOC PTA', 'MALLOC PTA',
            launch, 'FREE PTA', 'MSTX Mark', 'SYSTEM STOP_TRACE', 'SYSTEM START_TRACE', 'MALLOC PTA', 'FREE PTA',
            'FREE PTA', launch, 'SYSTEM STOP_TRACE', 'SYSTEM ACL_FINI'])
        self.assertEqual([r['id'] for r in p.by_id], list(range(1, 18)))
        memory = [r for r in p.by_id if r['type'] == 'PTA']
        self.assertEqual([(r['allocation_id'], r['size'], int(r['attr']['used'])) for r in memory],
                         [(1, 8192, 12288), (2, 8192, 20480), (3, 4096, 16384), (4, 16384, 36864), (5, 8192, 28672),
                          (6, 12288, 16384)])
        self.assertIn('no analysis of leaks', p.stderr())
        self.assertNotIn('Gap Analysis', p.stdout())
        self.assertIn('outside of start and stop', p.stderr())

    def test_deferred(self):
        """V-now has nothing outside of the windows, and goes on with its blocks."""
        p = self.front('windows', '--collect-mode=deferred', '--generation=now', '--level=op,kernel',
                       TOOLPKG='msmemscope')
        launch = 'KERNEL_LAUNCH KERNEL_LAUNCH'
        self.assertEqual(self.brief(r for r in p.by_id if r['type'] != 'HAL'), [
            'MALLOC PTA', 'SYSTEM START_TRACE', 'MALLOC PTA', 'MALLOC PTA', launch, 'FREE PTA', 'MSTX Mark',
            'SYSTEM STOP_TRACE', 'FREE PTA', 'MALLOC PTA', 'SYSTEM START_TRACE', 'MALLOC PTA', 'FREE PTA', 'FREE PTA',
            launch, 'SYSTEM STOP_TRACE', 'FREE PTA'])
        self.assertEqual([r['id'] for r in p.by_id], list(range(len(p.by_id))))
        # a, b, c, a's end, b that went between the windows, d that came there, e, c's and d's end, e that went behind.
        memory = [r for r in p.by_id if r['type'] == 'PTA']
        first = memory[0]['allocation_id']
        self.assertEqual([r['allocation_id'] - first for r in memory], [0, 1, 2, 0, 1, 3, 4, 2, 3, 4])
        made_up = [r['attr'].get('shadow') == 'true' for r in memory]
        self.assertEqual(made_up, [True, False, False, False, True, True, False, False, False, True])
        self.assertEqual([r['used'] is None for r in memory], made_up)
        # What the driver gave stands before, and ends at the end of the process.
        hal = [r for r in p.by_id if r['type'] == 'HAL']
        self.assertEqual([r['event'] for r in hal[:len(hal) // 2]], ['MALLOC'] * (len(hal) // 2))
        self.assertEqual({r['attr'].get('shadow') for r in hal if r['event'] == 'MALLOC'}, {'true'})
        self.assertGreater(len(hal), 1)

    def test_every_start(self):
        """A launch right behind a start is never missed, although launches are not taken before."""
        p = self.front('starts', '--collect-mode=custom', '--level=1')
        launches = sum(r['event'] == 'KERNEL_LAUNCH' for r in p.rows)
        self.assertEqual(launches, 300)
        starts = sum(r['type'] == 'START_TRACE' for r in p.rows)
        self.assertEqual(starts, 300)

    def test_full(self):
        """Without custom all is recorded; start() says nothing new, stop() is meant."""
        p = self.front('windows', '--level=0')
        self.assertEqual(sum(r['type'] == 'START_TRACE' for r in p.rows), 2)
        self.assertEqual(sum(r['type'] == 'STOP_TRACE' for r in p.rows), 2)
        self.assertEqual(sum(r['type'] == 'PTA' for r in p.rows), 7)

    def test_labels(self):
        p = self.front('labels', '--analysis=decompose')
        self.assertEqual([r['attr'].get('owner') for r in p.by_id
                          if r['event'] == 'MALLOC' and r['type'] == 'PTA'],
                         ['PTA@outer@obj2', 'PTA@outer@inner', 'PTA@deco', 'PTA@l1@l2@l3', 'PTA', 'PTA@obj@obj2'])
        # In a db, too; without the analysis only those of code.
        p = self.front('labels', '--data-format=db')
        self.assertEqual([r['attr'].get('owner') for r in p.by_id if r['event'] == 'MALLOC' and r['type'] == 'PTA'],
                         ['@outer', '@outer@inner', '@deco', '@l1@l2@l3', None, None])

    def test_labels_of_record(self):
        """Rows in the order of time are written before a label of their block comes: said, once."""
        for order, owners in (('time', [None]), ('block', ['@obj@obj2'])):
            job = self.start('job', [*PROGRAM, 'labels'], env=environment(ASKS_WAIT=1))
            job.until('READY')
            rec = self.record('-p', job.pid, '--order', order)
            job.line()
            self.assertEqual(job.wait(), 0, job.stderr())
            result = rec.ended()
            last = [r['attr'].get('owner') for r in result.rows if r['event'] == 'MALLOC' and r['type'] == 'PTA'
                    and r['size'] == 7168]
            self.assertEqual(last, owners)
            self.assertEqual(result.stderr.count('--order=block'), order == 'time', result.stderr)
            # l4, and in the order of time obj and obj2 twice.
            self.assertEqual(result.summary['labels_not_kept'], 1 if order == 'block' else 4)

    def test_more(self):
        """config, steps, snapshots and named code; what cannot be done is said."""
        p = self.front('more', '--generation=now', '--level=op')
        self.assertEqual([r['name'] for r in p.by_id if r['type'] == 'STEP'], ['1', '2'])
        shots = [r for r in p.by_id if r['event'] == 'SNAPSHOT']
        self.assertEqual([r['name'] for r in shots],
                         ['Memory Snapshot', 'named', 'around Start', 'around End'])
        self.assertEqual([r['attr']['allocated'] for r in shots], ['2048', '2048', '2048', '5120'])
        self.assertEqual(shots[0]['attr']['total'], 'N/A')
        sizes = [r['size'] for r in p.by_id if r['event'] == 'MALLOC' and r['type'] == 'PTA']
        self.assertEqual(sizes, [2048, 3072])
        self.assertIn("config('--call-stack=c:5'): cannot be changed", p.stderr())
        self.assertIn('cannot read the contents of device memory', p.stderr())
        (path,) = glob.glob(p.dir + '/dump/python_trace_*.csv')
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path, newline='') as f:
            (row,) = csv.DictReader(f)
        self.assertEqual((row['FuncInfo'], row['Thread Id']), ('my function', row['Process Id']))
        self.assertLess(int(row['StartTime(ns)']), int(row['EndTime(ns)']))
        # V-seed's step() does nothing.
        self.assertNotIn('STEP', {r['type'] for r in self.front('more').rows})

    def test_steps_are_boundaries(self):
        p = self.front('more', '--generation=now', '--level=op')
        self.assertIn('Gap Analysis of Device 0', p.stdout())
        (gap,) = re.findall(r'^MaxGap\s+\S+\s+\S+\s+(\d+)', p.stdout(), flags=re.M)
        self.assertNotEqual(gap, '0')

    def test_fork(self):
        """A child is in its parent's state, and then in its own."""
        p = self.front('forked', '--collect-mode=custom')
        by_pid = {}
        for r in p.by_id:
            by_pid.setdefault(r['pid'], []).append(r)
        self.assertEqual(len(by_pid), 2)
        for pid, rows in by_pid.items():
            self.assertEqual(sum(r['event'] == 'MALLOC' and r['type'] == 'PTA' for r in rows), 1, self.brief(rows))
            # The parent is met while it is stopped, the child while it is not.
            first = [r['type'] for r in rows if r['type'] in ('START_TRACE', 'STOP_TRACE')]
            self.assertEqual(first, ['STOP_TRACE', 'START_TRACE', 'STOP_TRACE'] if pid == p.by_id[0]['pid']
                             else ['START_TRACE', 'STOP_TRACE'])

    def test_attach_later(self):
        """A process that runs: traced() tells whether somebody looks."""
        # A copy: other tests record programs with the one that was built.
        lib = shutil.copy(built('python', 'libmemtap_marks.so'), self.path('libmemtap_marks.so'))
        job = self.start('job', [*PROGRAM, 'waits'], env=environment(MEMTAP_MARKS=lib))

        def ask(word):
            before = len(job.stdout().splitlines())
            job.line(word + '\n')
            while len(job.stdout().splitlines()) == before:
                self.assertIsNone(job.p.poll(), job.stderr())
                self.pause(0.01)
            return job.stdout().splitlines()[-1]

        def untraced():
            # A recording of the whole host beside this test is over soon.
            for _ in range(300):
                if ask('traced') == '0':
                    return
                self.pause(0.1)
            self.fail('still traced')
        untraced()
        rec = self.record('-p', job.pid)
        self.assertEqual(ask('traced'), '1')
        self.assertEqual(ask('work'), 'done')
        result = rec.stop()
        untraced()
        self.assertEqual(ask('work'), 'done')
        self.assertEqual([r['name'] for r in result.rows if r['type'] == 'STEP'], ['1'])
        self.assertEqual(result.summary['unseen_libraries'], [], result.stderr)

    def test_untraced(self):
        """Nothing is written or printed, with the library and without."""
        # Of a name that no recording beside this test probes.
        own = shutil.copy(built('python', 'libmemtap_marks.so'), self.path('libnobody.so'))
        for lib in (own, '/nonexistent/libmemtap_marks.so', 'relative.so', ''):
            for part in ('windows', 'labels', 'more'):
                folder = self.path(self.number('cwd'))
                os.mkdir(folder)
                done = subprocess.run([*PROGRAM, part], env=dict(os.environ, **environment(MEMTAP_MARKS=lib)),
                                      cwd=folder, capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, 'END\n', ''), lib)
                self.assertEqual(os.listdir(folder), [])
