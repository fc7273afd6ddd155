# SPDX-License-Identifier: Apache-2.0
"""Where libraries are: copies, links, stubs, other namespaces; and kernels with less."""
import os
import re
import shutil
import time

from basic import BasicTest
from harness import LONG, sim

LIBS = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib', 'mindspore/lib')


class Places(BasicTest):
    def tree(self, name, how):
        """The simulated stack somewhere else; how: copy2, link, symlink."""
        for d in LIBS:
            os.makedirs(self.path(name, d))
            for f in os.listdir(sim(d)):
                source = os.path.realpath(sim(d, f))
                if '.so' in f and os.path.isfile(source):
                    how(source, self.path(name, d, f))
        return self.path(name)

    def probed(self, result, base):
        return [f['path'] for f in result.summary['files_probed']
                if os.path.basename(f['path']) == base and f['attached']]

    def both(self, a, b):
        jobs = [self.job('--seconds', LONG, '--rate', 1000, '--seed', n, env={'SIM_ROOT': root})
                for n, root in enumerate((a, b))]
        self.pause(0.3)
        result = self.record('-p', f'{jobs[0].pid},{jobs[1].pid}', '-d', 0.8).ended()
        for job in jobs:
            self.stop(job)
        self.agree(result, jobs, from_start=False)
        return result

    def test_two_copies(self):
        a, b = self.tree('a', shutil.copy2), self.tree('b', shutil.copy2)
        result = self.both(a, b)
        for base in ('libascend_hal.so', 'libtorch_npu.so', 'libruntime.so'):
            mine = [p for p in self.probed(result, base) if p.startswith(self.dir)]
            self.assertEqual(sorted(p.split('/')[-4 if 'cann' in p else -4] for p in mine), ['a', 'b'], mine)

    def test_hard_and_symbolic_links(self):
        a = self.tree('a', shutil.copy2)
        for how in (os.link, os.symlink):
            with self.subTest(how=how.__name__):
                b = self.path('b-' + how.__name__)
                for d in LIBS:
                    os.makedirs(os.path.join(b, d))
                    for f in os.listdir(os.path.join(a, d)):
                        how(os.path.join(a, d, f), os.path.join(b, d, f))
                result = self.both(a, b)
                mine = [p for p in self.probed(result, 'libascend_hal.so') if p.startswith(self.dir)]
                self.assertEqual(len(mine), 1, mine)

    def test_stubs_are_never_probed(self):
        """The traps of devlib abort when they are called; they are in the way, and untouched."""
        root = self.tree('a', shutil.copy2)
        shutil.copytree(sim('cann/devlib'), os.path.join(root, 'cann/devlib'), ignore=shutil.ignore_patterns('*.p'))
        path = ':'.join(os.path.join(root, d) for d in (*LIBS, 'cann/devlib'))
        job = self.job('--seconds', 1, '--rate', 2000, start=False, env={'SIM_ROOT': root, 'LD_LIBRARY_PATH': path})
        rec = self.record('-p', job.pid)
        job.go()
        job.finish()
        result = rec.ended()
        self.agree(result, job)
        self.assertEqual([f['path'] for f in result.summary['files_probed'] if 'devlib' in f['path']], [])

    def test_deleted_library(self):
        """Replaced on disk while it is mapped: an update under a running job."""
        root = self.tree('a', shutil.copy2)
        job = self.job('--seconds', LONG, '--rate', 1000, env={'SIM_ROOT': root})
        self.pause(0.4)
        shutil.rmtree(root)
        result = self.record('-p', job.pid, '-d', 0.7).ended()
        self.stop(job)
        self.agree(result, job, from_start=False)

    def test_mount_namespace(self):
        """Libraries that only the target can see."""
        root = self.path('ns')
        os.mkdir(root)
        script = (f'mount --make-rprivate / && mount -t tmpfs none {root} && '
                  f'for d in {" ".join(LIBS)}; do mkdir -p {root}/$d && cp {sim()}/$d/*.so* {root}/$d/; done; '
                  'exec "$0" "$@"')
        job = self.job('--seconds', LONG, '--rate', 1000, env={'SIM_ROOT': root},
                       prefix=['unshare', '-m', 'sh', '-c', script])
        self.pause(0.3)
        self.assertEqual(os.listdir(root), [])
        result = self.record('-p', job.pid_of_job, '-d', 0.7).ended()
        self.stop(job)
        self.agree(result, job, from_start=False)

    def test_mount_namespace_ahead(self):
        root = self.path('ns')
        os.mkdir(root)
        script = (f'mount --make-rprivate / && mount -t tmpfs none {root} && '
                  f'for d in {" ".join(LIBS)}; do mkdir -p {root}/$d && cp {sim()}/$d/*.so* {root}/$d/; done; '
                  'exec "$0" "$@"')
        job = self.job('--seconds', 1, '--rate', 1000, env={'SIM_ROOT': root}, start=False,
                       prefix=['unshare', '-m', 'sh', '-c', script])
        rec = self.record('-p', job.pid_of_job)
        job.go()
        job.finish()
        self.agree(rec.ended(), job)

    def test_pid_namespace(self):
        """PIDs are those of memtap's namespace; the target's own stands on START_TRACE."""
        job = self.job('--seconds', LONG, '--rate', 500, '--no-torch',
                       prefix=['unshare', '-p', '-f', '--mount-proc'])
        with open(f'/proc/{job.pid}/task/{job.pid}/children') as f:
            pid = int(f.read().split()[0])
        self.pause(0.3)
        ids = {}
        for tid in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{tid}/status') as f:
                ids[int(re.search(r'NSpid:.*\s(\d+)\n', f.read()).group(1))] = int(tid)
        rec = self.record('-p', pid)
        self.pause(0.7)
        result = rec.stop()
        os.kill(pid, 15)
        job.finish()
        for records in [self.records]:
            def mapped(jobs, records=records):
                list_ = records(jobs)
                for r in list_:
                    r['pid'], r['tid'] = pid, ids.get(r['tid'], r['tid'])
                return list_
            self.records = mapped
        self.agree(result, job, from_start=False)
        start = next(r for r in result.rows if r['type'] == 'START_TRACE')
        self.assertEqual((start['pid'], start['attr'].get('nspid')), (pid, '1'))

    def test_memtap_in_a_pid_namespace(self):
        """memtap in a container with its job: the PIDs are the container's."""
        out, json_ = self.path('o'), self.path('s.json')
        from harness import memtap
        truth = self.path('inner.truth')
        env = {'LD_LIBRARY_PATH': ':'.join(sim(d) for d in LIBS), 'SIM_TRAIN_STARTED': 1, 'SIM_TRUTH': truth}
        rec = self.record('--', sim('sim-train'), '--seconds', 1, '--rate', 1000, env=env,
                          prefix=['unshare', '-p', '-f', '--mount-proc'])
        result = rec.ended()
        self.agree(result, truth)
        self.assertLess(max(r['pid'] for r in result.rows), 20)
        del out, json_, memtap

    def without(self, off, level):
        """Perf uprobes are taken away one by one by the kernel: fewer of them end sooner."""
        rec = ('--level', level)
        skip = set() if '1' in level else {('KERNEL_LAUNCH', 'KERNEL_LAUNCH')}
        for args in (('--threads', 2, '--devices', 2), ('--no-torch',)):
            job = self.job('--seconds', 0.6, '--rate', 1500, *args, start=False)
            recorder = self.record('-p', job.pid, *rec, env={'MEMTAP_DISABLE': off})
            job.go()
            job.finish()
            result = recorder.ended(120)
            self.agree(result, job, skip=skip)
            self.assertEqual('multi' in off, 'multi' not in result.summary['mechanism'])

    def test_without_session(self):
        self.without('session', '0,1')

    def test_without_cookie(self):
        self.without('cookie', '0,1')

    def test_without_sleepable(self):
        self.without('sleepable', '0,1')

    def test_without_multi(self):
        self.without('multi', '0')

    def test_without_multi_and_cookie(self):
        if not os.environ.get('MEMTAP_LONG'):
            self.skipTest('only with --long')
        self.without('multi,cookie', '0,1')

    def test_without_anything(self):
        self.without('multi,session,cookie,sleepable', '0')

    def test_probe_while_the_target_runs_hard(self):
        """Attach and detach under full load, many times: the target neither dies nor differs."""
        job = self.job('--seconds', LONG, '--load', '--threads', 4, truth=False)
        end = time.monotonic() + 3
        n = 0
        while time.monotonic() < end or n < 4:
            result = self.record('-p', job.pid, '-d', 0.05, '-q').ended()
            self.assertEqual(result.rc, 0, result.stderr)
            self.assertTrue(result.summary['accounting']['exact'])
            n += 1
        self.assertIsNone(job.p.poll())
        self.stop(job)
