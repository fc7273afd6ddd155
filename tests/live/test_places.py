# SPDX-License-Identifier: Apache-2.0
"""Where libraries are: copies, links, stubs, other namespaces; and kernels with less."""
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time

from basic import BasicTest
from harness import LONG, Process, sim

WAITS = '#include <unistd.h>\nint main(void) { write(1, "up\\n", 3); for (;;) pause(); }\n'
HERE = os.path.dirname(os.path.abspath(__file__))
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

    def replace(self, root):
        """New files in the place of the old ones, as a package manager puts them: by rename."""
        for d in LIBS:
            for f in os.listdir(os.path.join(root, d)):
                new = os.path.join(root, d, '.new')
                shutil.copy2(os.path.join(root, d, f), new)
                os.rename(new, os.path.join(root, d, f))

    def inodes(self, root):
        return os.stat(os.path.join(root, 'cann/lib64/libascend_hal.so')).st_ino

    def test_replaced_library(self):
        """An old process on the old files, a new one on the new ones of the same names."""
        root = self.tree('a', shutil.copy2)
        old = self.job('--seconds', LONG, '--rate', 800, env={'SIM_ROOT': root})
        self.pause(0.4)
        before = self.inodes(root)
        self.replace(root)
        self.assertNotEqual(self.inodes(root), before)
        new = self.job('--seconds', LONG, '--rate', 800, '--seed', 2, env={'SIM_ROOT': root})
        self.pause(0.4)
        result = self.record('-p', f'{old.pid},{new.pid}', '-d', 0.8).ended()
        for job in (old, new):
            self.stop(job)
        self.agree(result, (old, new), from_start=False)
        self.assertEqual(len([p for p in self.probed(result, 'libascend_hal.so') if p.startswith(root)]), 2)

    def test_replaced_while_it_is_traced(self):
        """The new files are probed before the new process loads them."""
        root, exe = self.tree('a', shutil.copy2), self.path('npu-job-r')
        shutil.copy2(sim('sim-train'), exe)
        old = self.job('--seconds', LONG, '--rate', 800, exe=exe, env={'SIM_ROOT': root})
        self.pause(0.4)
        rec = self.record('-n', 'npu-job-r')
        self.pause(0.3)
        self.replace(root)
        new = self.job('--seconds', 0.8, '--rate', 800, '--seed', 2, exe=exe, start=False, env={'SIM_ROOT': root})
        self.pause(0.5)  # a name is noticed when its program starts
        new.go()
        self.assertEqual(new.finish(), 0, new.stderr())
        result = rec.stop()
        self.stop(old)
        self.agree(result, (old, new), from_start=False)
        self.assertEqual(result.summary['late_libraries'], [])
        pids = {r['pid'] for r in result.of('MALLOC') if r['type'] == 'HAL'}
        self.assertIn(new.pid, pids)

    def test_mount_over_a_library(self):
        """Another file is bound over one that is mapped: by its path it would be the wrong one."""
        root = self.tree('a', shutil.copy2)
        lib = os.path.join(root, 'cann/lib64/libascend_hal.so')
        shutil.copy2(lib, self.path('other'))
        old = self.job('--seconds', LONG, '--rate', 800, env={'SIM_ROOT': root})
        self.pause(0.4)
        done = subprocess.run(['mount', '--bind', self.path('other'), lib], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f'nothing can be mounted: {done.stderr.strip()}')
        self.cleanups.append(lambda: subprocess.run(['umount', lib], check=True))
        new = self.job('--seconds', LONG, '--rate', 800, '--seed', 2, env={'SIM_ROOT': root})
        self.pause(0.4)
        result = self.record('-p', f'{old.pid},{new.pid}', '-d', 0.8).ended()
        for job in (old, new):
            self.stop(job)
        self.agree(result, (old, new), from_start=False)

    def test_not_libraries(self):
        """What has the name of a library and is none neither blocks nor stops anything."""
        root, odd = self.tree('a', shutil.copy2), self.path('odd')
        os.makedirs(odd + '/libruntime.so')
        os.mkfifo(odd + '/libascend_hal.so')
        os.symlink('/dev/zero', odd + '/libascendcl.so')
        os.symlink('libacl_rt.so', odd + '/libacl_rt.so')
        os.symlink('/nowhere', odd + '/libms_tools_ext.so')
        with open(odd + '/libtorch_npu.so', 'w') as f:
            f.write('not an ELF file')
        path = ':'.join([*(os.path.join(root, d) for d in LIBS), odd])
        job = self.job('--seconds', 1, '--rate', 1500, start=False, env={'SIM_ROOT': root, 'LD_LIBRARY_PATH': path})
        rec = self.record('-p', job.pid)
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.agree(result, job)
        self.assertEqual(result.summary['late_libraries'], [])
        warned = [l for l in result.stderr.splitlines() if odd in l]
        self.assertEqual(len(warned), 1, result.stderr)
        self.assertIn('libtorch_npu.so', warned[0])
        self.assertIn('not an ELF file', warned[0])

    # ---- virtual environments ----

    def venv(self):
        """A virtual environment with torch_npu in it; its python is a link to the one of this test."""
        base = self.path('venv')
        subprocess.run([sys.executable, '-m', 'venv', '--without-pip', '--symlinks', base], check=True)
        site = sysconfig.get_path('purelib', vars={'base': base, 'platbase': base})
        for d, to in (('torch/lib', 'torch/lib'), ('torch_npu_c/lib', 'torch_npu/lib'), ('python', ''),
                      ('python/torch_npu', 'torch_npu')):
            os.makedirs(os.path.join(site, to), exist_ok=True)
            for f in os.listdir(sim(d)):
                if f.endswith(('.so', '.py')) and os.path.isfile(sim(d, f)):
                    shutil.copy2(sim(d, f), os.path.join(site, to, f))
        return base, site

    def in_venv(self, python, prefix=(), env=None):
        script = os.path.join(HERE, '..', 'sim', 'sim_train.py')
        base, site = self.venv()
        # Not started once more by itself: that would be by an absolute name.
        full = {'HOME': self.dir, 'SIM_TRAIN_STARTED': 1, 'LD_LIBRARY_PATH': sim('cann/lib64'),
                'SIM_TRUTH': self.path(f'job{self.count + 1}.truth')}
        full.update({k: v.replace('VENV', base) for k, v in (env or {}).items()})
        job = self.job('--root', sim(), '--site', '--steps', 40, start=False, exe=script,
                       prefix=[*prefix, python.replace('VENV', base)], env=full)
        rec = self.record('-p', job.pid)
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.agree(result, job)
        self.assertEqual(result.summary['late_libraries'], [])
        self.assertIn(os.path.join(site, 'torch_npu/lib/libtorch_npu.so'), self.probed(result, 'libtorch_npu.so'))
        marks = [r for r in result.rows if r['type'] == 'Mark' and 'python step' in r['name']]
        self.assertTrue(marks or not os.path.exists(sim('python/torch_npu')))

    def test_venv(self):
        self.in_venv('VENV/bin/python')

    def test_venv_activated(self):
        """The shell finds python through PATH."""
        self.in_venv('python', ['env'], {'PATH': 'VENV/bin:/usr/bin:/bin'})

    def test_venv_of_a_relative_name(self):
        self.in_venv('venv/bin/python', ['env', '-C', self.dir])

    # ---- programs that are statically linked ----

    def static(self, name, *flags):
        """A program without a dynamic linker that waits."""
        with open(self.path('static.c'), 'w') as f:
            f.write(WAITS if '-nostdlib' not in flags else 'void _start(void) { for (;;) ; }\n')
        done = subprocess.run(['cc', '-O', *flags, '-o', self.path(name), self.path('static.c')],
                              capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f'cc {" ".join(flags)}: {done.stderr.strip().splitlines()[-1]}')
        return self.path(name)

    def test_static_program(self):
        for flags in (['-static'], ['-static-pie'], ['-static', '-s']):
            with self.subTest(flags=flags):
                p = Process(self, self.number('static'), [self.static('program', *flags)])
                p.until('up')
                done = self.run_memtap('record', '-p', p.pid, '-d', 1, '-o', self.path('o'))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn('not an NPU process', done.stderr)
                self.assertIn('statically linked', done.stderr)
                done = self.run_memtap('probes', '-p', p.pid)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn('statically linked', done.stderr)
                self.assertIsNone(p.p.poll())
                p.kill()

    def test_static_program_where_libraries_are(self):
        """It could call dlopen: its libraries are probed ahead, and why nothing comes is said."""
        path = ':'.join(sim(d) for d in LIBS)
        p = Process(self, 'static', [self.static('program', '-static')], {'LD_LIBRARY_PATH': path})
        p.until('up')
        result = self.record('-p', p.pid, '-d', 0.3).ended()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertIn('statically linked', result.stderr)
        self.assertFalse(result.of('MALLOC', 'FREE'))

    def test_static_file_by_the_name_of_a_library(self):
        """Reading it finds nothing, and no harm."""
        for flags in (['-static'], ['-static-pie'], ['-static', '-nostdlib', '-s', '-Wl,--build-id=none']):
            for name in ('libascend_hal.so', 'libtorch_npu.so', 'mstx.so', 'libmindspore_memory_pool.so'):
                with self.subTest(flags=flags, name=name):
                    done = self.run_memtap('probes', '-J', self.static(name, *flags))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertNotRegex(done.stderr, 'Sanitizer|error')
                    states = {q['state'] for f in json.loads(done.stdout) for q in f['probes']}
                    self.assertEqual(states, {'missing'}, done.stdout)
                    self.run_memtap('probes', self.path(name), '--derive')

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
