# SPDX-License-Identifier: Apache-2.0
"""Who is traced: running and coming processes, children, names, everybody."""
import os
import subprocess
import shutil
import signal
import time

import compare as C
import truth as T
from basic import BasicTest
from harness import LONG, alone, sim


class Targets(BasicTest):
    def ranks(self, seconds, rate, **kw):
        job = self.job('--seconds', LONG, '--threads', 8, '--ranks', 4, '--devices', 4,
                       '--rate', rate, '--layers', 4)
        job.until('RANK 3')
        self.pause(0.6)
        result = self.record('-p', ','.join(map(str, [job.pid, *job.ranks()])), '-d', seconds).ended()
        self.pause(0.2)
        self.stop(job)
        report = self.agree(result, job, from_start=False, least=10000, **kw)
        pids = {r['pid'] for r in result.rows if r['event'] in ('MALLOC', 'KERNEL_LAUNCH')}
        self.assertEqual(pids, set(job.ranks()))
        return report

    def test_8_threads_4_ranks(self):
        self.ranks(4, 150)

    def test_8_threads_4_ranks_20_s(self):
        if not os.environ.get('MEMTAP_LONG'):
            self.skipTest('only with --long')
        self.ranks(20, 150)

    def test_forks_are_followed(self):
        result, job = self.traced('--ranks', 3, '--devices', 2, '--threads', 2)
        self.agree(result, job)
        self.assertEqual({r['pid'] for r in result.of('MALLOC')}, set(job.ranks()))

    def test_forks_are_not_followed(self):
        job = self.job('--seconds', 1, '--rate', 2000, '--ranks', 1, start=False)
        rec = self.record('-p', job.pid, '--no-follow')
        job.go()
        job.finish()
        result = rec.ended()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual({r['pid'] for r in result.rows}, {job.pid})
        self.assertFalse(result.of('MALLOC', 'FREE', 'MSTX'))

    def test_late_dlopen(self):
        result, job = self.traced('--late-dlopen', 0.7, '--threads', 2)
        self.agree(result, job)
        self.assertEqual(result.summary['late_libraries'], [])

    def test_late_dlopen_of_mindspore(self):
        result, job = self.traced('--late-dlopen', 0.5, '--mindspore', '--no-torch')
        self.agree(result, job)
        self.assertEqual(result.summary['late_libraries'], [])

    def test_exec(self):
        """The same program once more in the same process: two lives under one PID."""
        job = self.job('--seconds', 0.8, '--rate', 2000, '--exec', start=False)
        rec = self.record('-p', job.pid)
        job.go()
        self.assertEqual(job.finish(), 0)
        result = rec.ended()
        self.agree(result, job)
        self.assertEqual(sum(r['type'] == 'ACL_INIT' for r in result.rows), 2)

    def test_command(self):
        """A program that finds its libraries by itself is traced from its first call."""
        truth = self.path('cmd.truth')
        dirs = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib', 'mindspore/lib')
        env = {'LD_LIBRARY_PATH': ':'.join(sim(d) for d in dirs), 'SIM_TRAIN_STARTED': 1, 'SIM_TRUTH': truth}
        result = self.record('--', sim('sim-train'), '--seconds', 1, '--rate', 2000, env=env).ended()
        self.agree(result, truth)
        self.assertIn('DONE', result.stdout)
        self.assertEqual(result.summary['late_libraries'], [])

    def test_command_with_wrapper(self):
        """One that sets the path and starts itself again: what is late is told, the rest is right."""
        truth = self.path('cmd.truth')
        result = self.record('--', sim('sim-train'), '--seconds', 1.5, '--rate', 2000, '--truth',
                             truth).ended()
        late = max((l['gap_ns'] for l in result.summary['late_libraries']), default=0)
        begin = min(r['t0'] for r in T.read(truth)) + late + 30_000_000
        self.agree(result, truth, from_start=False, window=(begin, result.summary['stopped_boot_ns']))

    def test_command_status(self):
        """memtap ends well when the command does not; a command that is not there is an error."""
        for argv in (['/bin/sh', '-c', 'exit 7'], ['/bin/sh', '-c', 'kill -9 $$']):
            rec = self.record('--', *argv, attached=False)
            result = rec.ended()
            self.assertIn(result.rc, (0, 7, 137), result.stderr)
        result = self.record('--', self.path('nothing-here'), attached=False).ended()
        self.assertEqual(result.rc, 1)
        self.assertIn('No such file', result.stderr)

    def named(self, name):
        """A copy of the driver under another name, beside links to its libraries."""
        exe = self.path(name)
        shutil.copy2(sim('sim-train'), exe)
        return exe

    def test_name_of_running(self):
        exe = self.named('npu-job-a')
        job = self.job('--seconds', LONG, '--rate', 2000, exe=exe, env={'SIM_ROOT': sim()})
        other = self.job('--seconds', LONG, '--rate', 2000, '--seed', 5)
        self.pause(0.4)
        result = self.record('-n', 'npu-job-a', '-d', 0.8).ended()
        self.stop(job)
        self.stop(other)
        self.agree(result, job, from_start=False)

    def test_name_of_coming(self):
        exe = self.named('npu-job-b')
        rec = self.record('-n', 'npu-job-b')
        job = self.job('--seconds', 1.2, '--rate', 2000, start=False, exe=exe, env={'SIM_ROOT': sim()})
        self.pause(0.5)  # a name is noticed when its program starts; its first call comes later
        job.go()
        job.finish()
        result = rec.stop()
        self.agree(result, job)
        self.assertIn('waiting for one', result.stderr)

    @alone
    def test_all(self):
        one = self.job('--seconds', LONG, '--rate', 1500, '--seed', 3, '--devices', 2, '--threads', 2)
        two = self.job('--seconds', LONG, '--rate', 1500, '--mindspore', '--no-torch', '--seed', 4)
        self.pause(0.4)
        rec = self.record('-a')
        new = self.job('--seconds', 0.8, '--rate', 1500, '--layout', 'c', '--seed', 9)
        new.finish()
        result = rec.stop()
        self.stop(one)
        self.stop(two)
        mine = {one.pid, two.pid, new.pid}
        result._rows = [r for r in result.rows if r['pid'] in mine]  # others may run simulations too
        records = {p: T.read(j.truth_base) for p, j in ((one.pid, one), (two.pid, two), (new.pid, new))}
        bad = C.invariants(result.rows)
        for pid, list_ in records.items():
            rows = [r for r in result.rows if r['pid'] == pid]
            report = C.compare(rows, list_, result.summary, T.Rules(from_start=pid == new.pid))
            self.assertGreater(report.matched, 100)
            bad += report
        self.assertTrue(result.summary['accounting']['exact'])
        if bad:
            self.fail(self.show(bad, result))

    def test_several_pids(self):
        jobs = [self.job('--seconds', LONG, '--rate', 1000, '--seed', n, '--layout', l)
                for n, l in ((1, 'c'), (2, 'b'), (3, 'c'))]
        self.pause(0.4)
        rec = self.record('-p', f'{jobs[0].pid},{jobs[1].pid}', '-p', jobs[2].pid, '-d', 0.8)
        result = rec.ended()
        for job in jobs:
            self.stop(job)
        self.agree(result, jobs, from_start=False)
        self.assertEqual({r['pid'] for r in result.rows}, {j.pid for j in jobs})

    def test_again_and_again(self):
        job = self.job('--seconds', LONG, '--rate', 2000, '--threads', 2, '--devices', 2)
        self.pause(0.4)
        results = []
        for _ in range(3):
            results.append(self.record('-p', job.pid, '-d', 0.6).ended())
            self.pause(0.1)
        two = [self.record('-p', job.pid), self.record('-p', job.pid)]  # at the same time
        self.pause(0.5)
        results += [r.stop() for r in two]
        self.stop(job)
        for result in results:
            self.agree(result, job, from_start=False)

    def test_two_recorders(self):
        """The second one must not take the first one's breakpoints for the library's code."""
        for args in (('--mindspore', '--no-torch'), ('--no-torch',), ()):
            job = self.job('--seconds', LONG, '--rate', 800, *args)
            self.pause(0.4)
            both = [self.record('-p', job.pid)]
            both.append(self.record('-p', job.pid))
            self.pause(0.5)
            results = [r.stop() for r in both]
            self.stop(job)
            for result in results:
                self.agree(result, job, from_start=False)
                self.assertNotIn('cannot be probed', result.stderr)

    def test_untouched_by_sigterm(self):
        job = self.job('--seconds', LONG, '--rate', 2000)
        self.pause(0.4)
        result = self.record('-p', job.pid).stop(signal.SIGTERM)
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertIsNone(job.p.poll())
        t = time.monotonic()
        self.stop(job)
        self.assertLess(time.monotonic() - t, 3)

    def cgroup_base(self):
        """Where cgroups of version 2 are mounted."""
        for base in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified'):
            if os.path.exists(base + '/cgroup.controllers'):
                return base
        base = self.path('cgroup2')
        os.mkdir(base)
        if subprocess.run(['mount', '-t', 'cgroup2', 'none', base], capture_output=True).returncode:
            self.skipTest('no cgroup of version 2, and none can be mounted')
        self.cleanups.append(lambda: subprocess.run(['umount', base], check=True))
        return base

    def cgroup(self, *names):
        """A new cgroup, and one in it for each name; the path of the innermost."""
        path = self.cgroup_base()
        for name in (f'memtap-live-{os.getpid()}-{self.number("")}', *names):
            path += '/' + name
            try:
                os.mkdir(path)
            except OSError as e:
                self.skipTest(f'no cgroup can be made: {e}')
            self.cleanups.append(lambda p=path: self.remove(p))
        return path

    def remove(self, path):
        """What was killed leaves its cgroup a little later."""
        end = time.monotonic() + 5
        while True:
            try:
                return os.rmdir(path)
            except OSError:
                if time.monotonic() > end:
                    raise
                self.pause(0.05)

    @staticmethod
    def move(pid, path):
        with open(path + '/cgroup.procs', 'w') as f:
            f.write(str(pid))

    def test_cgroup(self):
        path = self.cgroup()
        job = self.job('--seconds', 1.2, '--rate', 2000, '--ranks', 2, start=False)
        other = self.job('--seconds', LONG, '--rate', 2000, '--seed', 8)
        self.move(job.pid, path)
        rec = self.record('--cgroup', path)
        job.go()
        job.finish()
        result = rec.stop()
        self.stop(other)
        self.agree(result, job)

    def entering(self, path, seen, prefix=()):
        """A job that comes into the cgroup after the attach, a cgroup below; another stays outside."""
        inner = path + '/inner'
        os.mkdir(inner)
        self.cleanups.append(lambda: self.remove(inner))
        job = self.job('--seconds', 1.2, '--rate', 2000, start=False)
        other = self.job('--seconds', LONG, '--rate', 2000, '--seed', 8)
        rec = self.record('--cgroup', seen, prefix=prefix)
        self.move(job.pid, inner)
        job.go()
        job.finish()
        result = rec.stop()
        self.stop(other)
        self.agree(result, job)

    def test_cgroup_entered_later(self):
        path = self.cgroup('a', 'b')
        self.entering(path, path)

    def test_cgroup_of_all(self):
        """The root is at level 0."""
        base = self.cgroup_base()
        job = self.job('--seconds', LONG, '--rate', 1500)
        self.pause(0.4)
        result = self.record('--cgroup', base, '-d', 0.7).ended()
        self.stop(job)
        self.assertIn(job.pid, {r['pid'] for r in result.rows if r['event'] == 'MALLOC'})
        result._rows = [r for r in result.rows if r['pid'] == job.pid]
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules(from_start=False))
        self.assertFalse(list(report)[:3])

    def test_cgroup_namespace(self):
        """memtap in a cgroup namespace: its own cgroup is the root that it sees."""
        path = self.cgroup('a', 'b')
        outer, mount = os.path.dirname(path), self.path('mnt')
        os.mkdir(mount)
        script = f'mount --make-rprivate / && mount -t cgroup2 none {mount} && test -d {mount}/b && exec "$0" "$@"'
        self.entering(path, mount + '/b', prefix=[
            'sh', '-c', f'echo $$ >{outer}/cgroup.procs && exec unshare -C -m sh -c "$0" "$@"', script])

    def test_cgroup_mounted_in_part(self):
        path = self.cgroup('a', 'b')
        mount = self.path('mnt')
        os.mkdir(mount)
        subprocess.run(['mount', '--bind', os.path.dirname(path), mount], check=True)
        self.cleanups.append(lambda: subprocess.run(['umount', mount], check=True))
        self.entering(path, mount + '/b')
