# SPDX-License-Identifier: Apache-2.0
"""Containers side by side: the same PID numbers, the same lower file; and launchers of running jobs."""
import os
import shutil
import subprocess

import truth as T
from basic import BasicTest
from harness import alone, LONG, Process, memtap, sim


class Namespaces(BasicTest):
    def test_running_children_of_a_launcher(self):
        """The PID that an operator types is the launcher's; its ranks run already."""
        job = self.job('--seconds', LONG, '--rate', 1000, '--ranks', 2)
        while len(job.ranks()) < 2:
            self.pause(0.05)
        self.pause(0.3)
        result = self.record('-p', job.pid, '-d', 0.8).ended()
        self.stop(job)
        self.agree(result, job, from_start=False)
        self.assertEqual({r['pid'] for r in result.of('MALLOC')}, set(job.ranks()))

    def test_two_overlays(self):
        """Two containers of one image: one file below, probed once, each row once."""
        roots = []
        for name in 'ab':
            for d in ('upper', 'work', 'merged'):
                os.makedirs(self.path(name, d))
            merged = self.path(name, 'merged')
            how = f'lowerdir={sim()},upperdir={self.path(name, "upper")},workdir={self.path(name, "work")}'
            done = subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', how, merged], capture_output=True, text=True)
            if done.returncode:
                self.skipTest(f'no overlay can be mounted: {done.stderr.strip()}')
            self.cleanups.append(lambda m=merged: subprocess.run(['umount', '-l', m], check=True))
            roots.append(merged)
        jobs = [self.job('--seconds', LONG, '--rate', 800, '--seed', n, env={'SIM_ROOT': root})
                for n, root in enumerate(roots)]
        self.pause(0.3)
        result = self.record('-p', ','.join(str(j.pid) for j in jobs), '-d', 0.8).ended()
        for job in jobs:
            self.stop(job)
        self.agree(result, jobs, from_start=False)
        hal = [f for f in result.summary['files_probed'] if f['path'].endswith('/libascend_hal.so') and '/merged/' in f['path']]
        self.assertEqual(len(hal), 1, hal)

    def overlay(self):
        """The simulated stack below a writable layer."""
        for d in ('upper', 'work', 'merged'):
            os.makedirs(self.path(d))
        merged = self.path('merged')
        how = f'lowerdir={sim()},upperdir={self.path("upper")},workdir={self.path("work")}'
        done = subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', how, merged], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f'no overlay can be mounted: {done.stderr.strip()}')
        self.cleanups.append(lambda: subprocess.run(['umount', '-l', merged], check=True))
        return merged

    def libraries(self, root):
        for d in ('cann/lib64', 'torch/lib', 'torch_npu_c/lib', 'mindspore/lib'):
            for f in os.listdir(os.path.join(root, d)):
                if f.endswith('.so') and os.path.isfile(os.path.join(root, d, f)):
                    yield os.path.join(root, d, f)

    def two(self, change):
        """A job, something done to its libraries, another job: both recorded."""
        root = self.overlay()
        old = self.job('--seconds', LONG, '--rate', 800, env={'SIM_ROOT': root})
        self.pause(0.4)
        for path in self.libraries(root):
            change(path)
        new = self.job('--seconds', LONG, '--rate', 800, '--seed', 2, env={'SIM_ROOT': root})
        self.pause(0.4)
        result = self.record('-p', f'{old.pid},{new.pid}', '-d', 0.8, '--strict').ended()
        for job in (old, new):
            self.stop(job)
        return result, old, new

    def told(self, result, pid):
        """What is not seen stands in the summary, on a row, and in a warning."""
        unseen = {(os.path.basename(u['path']), u['pid']) for u in result.summary['unseen_libraries']}
        self.assertIn(('libascend_hal.so', pid), unseen)
        self.assertEqual({p for _, p in unseen}, {pid})
        self.assertRegex(result.stderr, rf'libascend_hal.so \(pid {pid}\): mapped, but its calls are not seen')
        self.assertIn('calls not seen of', result.stderr)
        rows = [r for r in result.rows if r['type'] == 'LOST' and r['device'] == 'N/A']
        self.assertEqual({(os.path.basename(r['attr']['library']), r['pid']) for r in rows}, unseen)
        self.assertEqual({(r['attr']['reason'], r['attr']['count']) for r in rows}, {('unseen library', 'N/A')})

    def not_alone(self, result):
        """A breakpoint tells not whose it is: another memtap of this machine may have put it there."""
        names = []
        for d in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{d}/comm') as f:
                    names.append(f.read().strip())
            except OSError:
                pass
        if result.rc == 0 and 'memtap' in names:
            self.skipTest('another memtap runs, and its probes are where ours are not')

    def test_replaced_in_an_overlay(self):
        def rename(path):
            shutil.copy2(path, path + '.new')
            os.rename(path + '.new', path)
        result, old, new = self.two(rename)
        self.agree(result, (old, new), from_start=False)

    def test_deleted_in_an_overlay(self):
        root = self.overlay()
        job = self.job('--seconds', LONG, '--rate', 800, env={'SIM_ROOT': root})
        self.pause(0.4)
        for path in list(self.libraries(root)):
            os.unlink(path)
        result = self.record('-p', job.pid, '-d', 0.8, '--strict').ended()
        self.stop(job)
        self.agree(result, job, from_start=False)

    @alone  # breakpoints of others would pass for ours
    def test_changed_in_an_overlay(self):
        """
        chmod copies a file up: who maps it already keeps the one below, which is not to be reached
        any more. That is said; the new process is seen.
        """
        result, old, new = self.two(lambda path: os.chmod(path, 0o700))
        self.not_alone(result)
        self.agree(result, new, from_start=False, rc=3)
        self.told(result, old.pid)

    @alone  # breakpoints of others would pass for ours
    def test_changed_in_an_overlay_while_it_is_traced(self):
        """The other way round: the new process has the new file, and the probes are in the old one."""
        root = self.overlay()
        old = self.job('--seconds', LONG, '--rate', 800, env={'SIM_ROOT': root})
        new = self.job('--seconds', 1, '--rate', 800, start=False, env={'SIM_ROOT': root})
        self.pause(0.4)
        rec = self.record('-p', f'{old.pid},{new.pid}', '--strict')
        for path in self.libraries(root):
            os.chmod(path, 0o700)
        new.go()
        self.assertEqual(new.finish(), 0, new.stderr())
        result = rec.stop()
        self.stop(old)
        self.not_alone(result)
        self.agree(result, old, from_start=False, rc=3)
        self.told(result, new.pid)

    def inside(self, name, truth, *between):
        """A shell in PID namespaces of its own: starts a job, traces it, prints the job's PID there."""
        libs = ':'.join(sim(d) for d in ('cann/lib64', 'torch/lib', 'torch_npu_c/lib', 'mindspore/lib'))
        script = (f'{sim("sim-train")} --seconds {LONG} --rate 400 --quiet & job=$!; sleep 1; '
                  f'{memtap()} record -p $job -d 1.2 -o {self.path(name + ".d")} '
                  f'--summary-json {self.path(name + ".json")}; echo TRACED $job; kill $job; wait $job')
        return Process(self, name, ['unshare', '-p', '-f', '--mount-proc', *between, 'bash', '-c', script],
                       {'LD_LIBRARY_PATH': libs, 'SIM_TRAIN_STARTED': 1, 'SIM_TRUTH': truth})

    def rows_of(self, name):
        import readers
        dump = readers.dump_of(self.path(name + '.d'), 'csv')
        with open(self.path(name + '.err')) as f:
            self.assertIsNotNone(dump, f.read())
        return readers.read_csv(dump)

    def test_same_numbers_in_two_namespaces(self):
        """A PID of a foreign namespace is nobody's, however equal the number."""
        shells = [self.inside(name, self.path(name + '.truth')) for name in 'ab']
        pids = [int(s.until('TRACED').split()[1]) for s in shells]
        for s in shells:
            s.wait()
        self.assertEqual(pids[0], pids[1], 'the numbers differ: this run tells nothing')
        for name, pid in zip('ab', pids):
            rows = [r for r in self.rows_of(name) if r['event'] in ('MALLOC', 'FREE')]
            mine = {(r['fn'], r['out']) for r in T.read(self.path(name + '.truth')) if r['fn'].startswith('pta_')}
            self.assertGreater(len(rows), 100)
            self.assertEqual({r['pid'] for r in rows}, {pid})
            kind = {'MALLOC': 'pta_malloc', 'FREE': 'pta_free'}
            foreign = [r for r in rows if r['type'] == 'PTA' and (kind[r['event']], r['ptr']) not in mine]
            self.assertFalse(foreign[:3])
            # Each of the job's own operations at most once: an address cannot be given out twice in a row.
            last = {}
            for r in rows:
                if r['type'] == 'PTA':
                    self.assertNotEqual(last.get(r['ptr']), r['event'], r)
                    last[r['ptr']] = r['event']

    def test_namespace_in_a_namespace(self):
        shell = self.inside('n', self.path('n.truth'), 'unshare', '-p', '-f', '--mount-proc')
        pid = int(shell.until('TRACED').split()[1])
        shell.wait()
        rows = [r for r in self.rows_of('n') if r['event'] == 'MALLOC']
        self.assertGreater(len(rows), 50)
        self.assertEqual({r['pid'] for r in rows}, {pid})
