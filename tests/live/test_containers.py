# SPDX-License-Identifier: Apache-2.0
"""Jobs in roots and namespaces of their own; every path in there means something else out here."""
import os
import re
import shutil
import signal
import subprocess
import sys

import truth as T
from harness import LONG
from rootfs import DRIVER, LIBRARY_PATH, TORCH, RootTest

# What a container manager makes: own mounts, PIDs and root; `-U -r`: root in there is nobody special.
CONTAINER = ('-m', '-p', '-f')
USER = ('-U', '-r')


class Containers(RootTest):
    def overlay(self, root, name='c'):
        """Options of enter.py that put a writable layer over a root directory, and the layer."""
        for d in ('upper', 'work', 'merged'):
            os.makedirs(self.path(name, d))
        return ['--overlay', root, self.path(name, 'upper'), self.path(name, 'work')], self.path(name, 'merged')

    def ahead(self, job, result):
        """Seen from the first call: every library was probed before it was mapped."""
        self.agree(result, job, least=500)
        self.assertEqual(result.summary['late_libraries'], [])
        self.assertEqual(result.summary['frees_preattach'], 0)
        # Another job on this machine may map one of its own.
        hal = [p for p in self.files(result, 'libascend_hal.so') if not p.startswith(('/work', '/root'))]
        self.assertEqual(len(hal), 1, hal)

    def whole(self, root, **kw):
        """A job from its first call to its end."""
        job = self.contained(root, '--seconds', 1, '--rate', 1500, start=False, **kw)
        rec = self.record('-p', job.pid_here)
        job.go()
        while 'DONE' not in job.stdout():
            self.assertIsNone(job.p.poll(), job.stderr())
            self.look(job)
            self.pause(0.01)
        self.assertEqual(job.finish(), 0, job.stderr())
        self.translate(job)
        result = rec.ended()
        self.ahead(job, result)
        return result

    def middle(self, root, **kw):
        """A job that runs before, during and after the recording."""
        job = self.contained(root, '--seconds', LONG, '--rate', 1500, **kw)
        self.pause(0.4)
        result = self.record('-p', job.pid_here, '-d', 0.8).ended()
        self.end(job)
        self.agree(result, job, from_start=False)
        return result

    def end(self, job):
        self.look(job)
        os.kill(job.pid_here, signal.SIGTERM)
        self.assertEqual(job.finish(), 0, job.stderr())
        self.translate(job)

    def container(self, root, how, user=(), **kw):
        layers, merged = self.overlay(root)
        return how(merged, unshare=[*CONTAINER, *user], enter=['--pivot', '--proc', *layers], **kw)

    # ---- chroot: the kernel tells this side's paths of everything that is mapped ----

    def test_chroot(self):
        result = self.middle(self.rootfs(), shared=False)
        self.assertEqual(self.files(result, 'libascend_hal.so'), [DRIVER + '/libascend_hal.so'])

    def test_chroot_ahead(self):
        self.whole(self.rootfs(), shared=False)

    def test_chroot_with_cache(self):
        """Only its own ld.so.cache leads to the libraries."""
        ldconfig = shutil.which('ldconfig', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
        if not ldconfig:
            self.skipTest('no ldconfig')
        root = self.rootfs()
        with open(root + '/etc/ld.so.conf', 'w') as f:
            f.write(LIBRARY_PATH.replace(':', '\n') + '\n')
        subprocess.run([ldconfig, '-r', root], check=True, capture_output=True)
        os.rename(root + '/etc/ld.so.cache', root + '/etc/the-cache')
        os.symlink('/etc/the-cache', root + '/etc/ld.so.cache')
        self.whole(root, shared=False, env={'LD_LIBRARY_PATH': None})

    def test_chroot_with_origin_and_relative_paths(self):
        """All that ld.so(8) allows in LD_LIBRARY_PATH."""
        root = self.rootfs()
        os.makedirs(root + '/opt/tokens/lib')
        for name in ('lib64', 'lib/x86_64-linux-gnu', 'lib/aarch64-linux-gnu'):
            os.symlink('/opt/torch/lib', root + '/opt/tokens/' + name)
        for f in os.listdir(root + TORCH + '/lib'):
            os.symlink('/opt/torch/lib/' + f, root + '/opt/tokens/lib/' + f)
        self.whole(root, shared=False, unshare=['-m'], enter=['--proc', '--chdir', '/usr/local/Ascend'],
                   env={'LD_LIBRARY_PATH': '/nowhere;latest/lib64:${ORIGIN}/../../opt/tokens/$LIB'})

    def test_chroot_with_the_current_directory(self):
        """An empty entry of LD_LIBRARY_PATH."""
        self.whole(self.rootfs(), shared=False, enter=['--chdir', '/usr/local/Ascend/latest/lib64'],
                   env={'LD_LIBRARY_PATH': ':/opt/torch/lib'})

    # ---- one kind of namespace ----

    def test_mount_namespace(self):
        root = self.rootfs()
        self.middle(root, unshare=['-m'], enter=['--pivot'])

    def test_mount_namespace_ahead(self):
        root = self.rootfs()
        self.whole(root, unshare=['-m'], enter=['--pivot'])

    def test_the_file_inside(self):
        """A link to a path that is another file on this side: one is probed, and its calls are seen."""
        root = self.rootfs()
        self.decoy(root)
        self.whole(root, unshare=['-m'], enter=['--pivot'])

    def test_user_namespace(self):
        """Root in there; no rights out here."""
        for args in ((), ('-r',)):
            with self.subTest(args=args):
                self.need('-U', *args)
                job = self.job('--seconds', 1, '--rate', 1500, start=False, prefix=['unshare', '-U', *args])
                rec = self.record('-p', job.pid)
                job.go()
                self.assertEqual(job.finish(), 0, job.stderr())
                result = rec.ended()
                self.agree(result, job)
                self.assertEqual(result.summary['late_libraries'], [])

    def test_pid_and_user_namespace(self):
        self.whole(self.rootfs(), unshare=['-p', '-f', *USER], shared=False)

    # ---- all of them ----

    def test_container(self):
        self.container(self.rootfs(), self.middle)

    def test_container_ahead(self):
        self.container(self.rootfs(), self.whole)

    def test_container_of_a_user(self):
        self.container(self.rootfs(), self.middle, user=USER)

    def test_container_of_a_user_ahead(self):
        self.container(self.rootfs(), self.whole, user=USER)

    def test_rootless_container(self):
        """Made by somebody who is nobody out here either."""
        root = self.rootfs()
        layers, merged = self.overlay(root)
        subprocess.run(['chown', '-R', '65534:65534', self.dir], check=True)
        who = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
        python = shutil.which('python3', path='/usr/bin:/bin')
        for what in ([python or 'python3', '-c', ''], ['unshare', *CONTAINER, *USER, 'true']):
            done = subprocess.run([*who, *what], capture_output=True, text=True)
            if done.returncode:
                self.skipTest(f'not for an unprivileged user: {" ".join(what)}: {done.stderr.strip()}')
        self.whole(merged, prefix=who, unshare=[*CONTAINER, *USER], python=python,
                   enter=['--pivot', '--proc', *layers])

    def test_containers_of_one_image(self):
        """The same files below two overlays, the same paths and PIDs in both."""
        root = self.rootfs()
        jobs = []
        for n in (1, 2):
            layers, merged = self.overlay(root, f'c{n}')
            jobs.append(self.contained(merged, '--seconds', LONG, '--rate', 800, '--seed', n, unshare=[*CONTAINER, *USER],
                                       enter=['--pivot', '--proc', *layers]))
        pids = [job.pid_here for job in jobs]
        self.pause(0.3)
        result = self.record('-p', ','.join(map(str, pids)), '-d', 0.8).ended()
        for job in jobs:
            self.end(job)
        self.agree(result, jobs, from_start=False)
        self.assertEqual(len(self.files(result, 'libascend_hal.so')), 1)
        self.assertEqual({r['pid'] for r in result.of('MALLOC')}, set(pids))

    # ---- memtap in there as well ----

    def exec_in(self, job, *args):
        """memtap in the container of a job, as `docker exec` starts it."""
        return self.record(*args, exe='/usr/bin/memtap',
                           prefix=['nsenter', '-t', job.pid_here, '-m', '-p', '-r', '-w'])

    def test_memtap_in_the_container(self):
        layers, merged = self.overlay(self.rootfs(tool=True))
        job = self.contained(merged, '--seconds', 1, '--rate', 1500, start=False, unshare=CONTAINER,
                             enter=['--pivot', '--proc', '--sys', '--init', *layers])
        rec = self.exec_in(job, '-p', job.pid_of_job)
        job.go()
        job.until('DONE')
        job.line()
        result = rec.ended()
        self.assertEqual(job.wait(), 0, job.stderr())
        self.ahead(job, result)
        self.assertEqual({r['pid'] for r in result.rows}, {job.pid_of_job})

    def test_memtap_that_ends_with_the_container(self):
        """The container's first process is the job: when it ends, the kernel kills memtap. Its files are good."""
        layers, merged = self.overlay(self.rootfs(tool=True))
        job = self.contained(merged, '--seconds', 3, '--rate', 1500, start=False, unshare=CONTAINER,
                             enter=['--pivot', '--proc', '--sys', *layers])
        rec = self.exec_in(job, '-p', job.pid_of_job)
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.assertIn(result.rc, (-signal.SIGKILL, 128 + signal.SIGKILL), result.stderr)
        done = self.run_memtap('recover', result.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        mallocs = [r for r in result.of('MALLOC') if r['type'] == 'PTA']
        due = [r for r in T.read(job.truth_base) if r['fn'] == 'pta_malloc']
        # All but the last second or so.
        self.assertGreater(len(mallocs), len(due) // 2)
        self.assertEqual([r['ptr'] for r in mallocs], [r['out'] for r in due][:len(mallocs)])

    def test_command_in_the_container(self):
        """memtap is the container's first process and starts the job."""
        root = self.rootfs(tool=True)
        layers, merged = self.overlay(root)
        truth = self.path('in.truth')
        self.need(*CONTAINER)
        rec = self.record('--', '/usr/bin/sim-train', '--seconds', 1, '--rate', 1500, exe='/usr/bin/memtap',
                          env={'SIM_TRAIN_STARTED': 1, 'LD_LIBRARY_PATH': LIBRARY_PATH, 'SIM_TRUTH': truth},
                          prefix=['unshare', *CONTAINER, sys.executable, os.path.join(os.path.dirname(__file__), 'enter.py'),
                                  '--pivot', '--proc', '--sys', *layers, '--bind', self.dir, merged])
        result = rec.ended()
        self.agree(result, truth, least=500)
        self.assertEqual(result.summary['late_libraries'], [])
        self.assertLess(max(r['pid'] for r in result.rows), 20)

    def test_memtap_without_rights_in_the_container(self):
        """In a user namespace of its own memtap can trace nothing, and says what is missing."""
        self.need(*USER)
        done = self.run_memtap('record', '-p', os.getpid(), '-d', 1, '-o', self.path('o'),
                               prefix=['unshare', *USER])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r'CAP_[A-Z_]+')
        self.assertRegex(done.stderr, re.compile('namespace', re.I))

    def test_time_namespace(self):
        """A container that was moved here has another time since boot; that of the files is the kernel's."""
        self.need('-T', '--boottime', '100000')
        job = self.job('--seconds', 1, '--rate', 1500, start=False, prefix=['unshare', '-T', '--boottime', '100000'])
        rec = self.record('-p', job.pid)
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.known = {job.truth_base: T.read(job.truth_base)}
        for r in self.known[job.truth_base]:
            r['t0'], r['t1'] = r['t0'] - 100000 * 10**9, r['t1'] - 100000 * 10**9
        self.agree(result, job)

    def test_memtap_in_a_time_namespace(self):
        self.need('-T', '--boottime', '100000')
        job = self.job('--seconds', 1, '--rate', 1500, start=False)
        rec = self.record('-p', job.pid, prefix=['unshare', '-T', '--boottime', '100000'])
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.agree(result, job)
        self.assertEqual(result.summary['late'], 0)
