# SPDX-License-Identifier: Apache-2.0
"""Two at once: several memtaps, other tracers on the same functions, the vendor's own preload."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess

import compare as C
import truth as T
from basic import BasicTest
from harness import LONG, Process, alone, sim

HAL = ('cann', 'lib64', 'libascend_hal.so')
HOOKS = ('libleaks_ascend_hal_hook.so', 'libascend_mstx_hook.so', 'libascend_kernel_hook.so')


class Together(BasicTest):
    def test_two_jobs_one_library(self):
        """Each memtap has its own job; all run the same file."""
        jobs = [self.job('--seconds', LONG, '--rate', 1500, '--seed', n) for n in (1, 2)]
        self.pause(0.3)
        recorders = [self.record('-p', j.pid, attached=False) for j in jobs]  # at the same moment
        for r in recorders:
            r.until('all probes attached', 'stderr')
        self.pause(0.6)
        first = recorders[0].stop()
        self.pause(0.4)  # the end of the first takes nothing from the second
        second = recorders[1].stop()
        for job in jobs:
            self.stop(job)
        for result, job in zip((first, second), jobs):
            self.agree(result, job, from_start=False)
            self.assertEqual({r['pid'] for r in result.rows}, {job.pid})

    @alone
    def test_host_and_process(self):
        """One traces the whole host, one a process of it."""
        jobs = [self.job('--seconds', LONG, '--rate', 1200, '--seed', n) for n in (3, 4)]
        self.pause(0.3)
        both = [self.record('-a'), self.record('-p', jobs[0].pid)]
        self.pause(0.6)
        whole, one = [r.stop() for r in both]
        for job in jobs:
            self.stop(job)
        self.agree(one, jobs[0], from_start=False)
        self.assertTrue(whole.summary['accounting']['exact'])
        for job in jobs:  # others may run simulations too
            rows = [r for r in whole.rows if r['pid'] == job.pid]
            report = C.compare(rows, T.read(job.truth_base), whole.summary, T.Rules(from_start=False))
            self.assertEqual(list(report)[:5], [])
            self.assertGreater(report.matched, 100)

    def beside(self, start, count):
        """Another tracer counts halMemAlloc before, while and after memtap is attached."""
        job = self.job('--seconds', LONG, '--rate', 800, '--no-torch')
        other = start(job)
        self.pause(0.3)
        result = self.record('-p', job.pid, '-d', 0.8).ended()
        self.pause(0.3)
        seen = count(other)
        self.stop(job)
        self.agree(result, job, from_start=False)
        total = sum(r['fn'] == 'halMemAlloc' for r in T.read(job.truth_base))
        inside = sum(r['event'] == 'MALLOC' and r['type'] == 'HAL' for r in result.rows)
        self.assertGreater(inside, 20)
        # It saw what memtap saw, and what happened before and after: nothing twice.
        self.assertGreater(seen, inside)
        self.assertLessEqual(seen, total)

    @alone  # bpftrace counts the calls of every process that has the library
    def test_beside_bpftrace(self):
        if not shutil.which('bpftrace'):
            self.skipTest('bpftrace is not installed')
        lib = os.path.realpath(sim(*HAL))

        def start(job):
            p = Process(self, 'bpftrace', ['bpftrace', '-p', job.pid, '-e',
                                           f'uprobe:{lib}:halMemAlloc {{ @entries = count(); }} '
                                           f'uretprobe:{lib}:halMemAlloc {{ @returns = count(); }} '
                                           'BEGIN { printf("BEGUN\\n"); } '])
            p.until('BEGUN')
            return p

        def count(p):
            p.signal(signal.SIGINT)
            p.wait()
            found = dict(re.findall(r'@(\w+): (\d+)', p.stdout()))
            self.assertIn('entries', found, p.stdout() + p.stderr())
            # A return has its entry; the two are not attached at one moment.
            self.assertGreater(int(found['returns']), 20)
            return int(found['entries'])
        self.beside(start, count)

    def test_beside_perf(self):
        if not shutil.which('perf'):
            self.skipTest('perf is not installed')
        lib, group = os.path.realpath(sim(*HAL)), f'memtap_{os.getpid()}'
        done = subprocess.run(['perf', 'probe', '-q', '-x', lib, f'{group}:alloc=halMemAlloc'],
                              capture_output=True, text=True)
        if done.returncode:
            self.skipTest('perf cannot make a probe here: ' + done.stderr.strip()[-200:])
        self.cleanups.append(lambda: subprocess.run(['perf', 'probe', '-q', '-d', f'{group}:*'],
                                                    capture_output=True))

        def start(job):
            return Process(self, 'perf', ['perf', 'stat', '-x,', '-e', f'{group}:alloc', '-p', job.pid])

        def count(p):
            p.signal(signal.SIGINT)
            p.wait()
            found = re.search(rf'^(\d+),,{group}:alloc', p.stderr(), re.M)
            self.assertTrue(found, p.stderr())
            return int(found[1])
        self.beside(start, count)

    def hooked(self, *args, **kw):
        preload = ':'.join(sim('hooks', h) for h in HOOKS)
        log = self.path('hooks')
        result, job = self.traced(*args, env={'LD_PRELOAD': preload, 'SIM_HOOKS_LOG': log}, **kw)
        counts = {}
        for path in glob.glob(log + '.*'):
            with open(path) as f:
                for line in f:
                    name, n = line.split()
                    counts[name] = counts.get(name, 0) + int(n)
        return result, job, counts

    def test_vendor_preload(self):
        """torch_npu's mstx memory calls run under the vendor's hooks: no allocation counts twice."""
        result, job, hooks = self.hooked('--threads', 2)
        self.agree(result, job)
        for name in ('halMemAlloc', 'mstxMemHeapRegister', 'mstxMemRegionsRegister',
                     'mstxMemRegionsUnregister', 'aclrtLaunchKernelWithHostArgsImpl'):
            self.assertGreater(hooks.get(name, 0), 0, f'{name} was not hooked: {hooks}')
        rows = [r for r in result.rows if r['event'] == 'MALLOC' and r['type'] in ('PTA', 'PTA_WORKSPACE')]
        self.assertEqual(len(rows), hooks['mstxMemRegionsRegister'])
        hal = [r for r in result.rows if r['event'] == 'MALLOC' and r['type'] == 'HAL']
        self.assertLessEqual(len(hal), hooks['halMemAlloc'])

    def test_vendor_preload_no_torch(self):
        """Driver and runtime functions are entered through the hooks and again as the real ones."""
        result, job, hooks = self.hooked('--no-torch')
        self.agree(result, job)
        self.assertGreater(hooks['halMemFree'], 0)

    def test_vendor_preload_in_probes(self):
        """The hook libraries are no libraries to probe."""
        preload = ':'.join(sim('hooks', h) for h in HOOKS)
        job = self.job('--seconds', LONG, '--rate', 200, env={'LD_PRELOAD': preload})
        self.pause(0.3)
        done = self.run_memtap('probes', '-p', job.pid, '--json')
        self.stop(job)
        self.assertEqual(done.returncode, 0, done.stderr)
        paths = [os.path.basename(f['path']) for f in json.loads(done.stdout)]
        self.assertTrue(paths)
        self.assertFalse(set(paths) & set(HOOKS), paths)
