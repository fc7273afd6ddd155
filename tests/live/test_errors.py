# SPDX-License-Identifier: Apache-2.0
"""Errors: said in a line that helps, with the right exit status, and never at the target's cost."""
import json
import os
import shutil
import subprocess

from basic import BasicTest
from harness import ATTACHED, LIMIT, LONG, alone, memtap, sim


class Errors(BasicTest):
    def fails(self, status, *args, env=None, prefix=()):
        done = self.run_memtap('record', *args, env=env, prefix=prefix)
        self.assertEqual(done.returncode, status, f'{args}: {done.stdout}{done.stderr}')
        self.assertNotIn('Assertion', done.stderr)
        return done.stderr

    def gone(self):
        p = subprocess.Popen(['/bin/true'])
        p.wait()
        return p.pid

    def test_usage(self):
        for args in ((), ('-p', 'x'), ('-p', '0'), ('-p', '-5'), ('-p', ''), ('-p', '1,,2x'),
                     ('--nonsense',), ('-p', '1', '-d', '0'), ('-p', '1', '-d', 'nan'), ('-p', '1', '-d', '-1'),
                     ('-p', '1', '--ring-size', '12'), ('-p', '1', '--ring-size', '9Q'),
                     ('-p', '1', '--level', '3'), ('-p', '1', '--events', 'x'), ('-p', '1', '--device', 'npu:99'),
                     ('-p', '1', '--data-format', 'xml'), ('-p', '1', '--order', 'x'),
                     ('-p', '1', '--timeline', 'x'), ('-p', '1', 'stray'), ('-p',)):
            with self.subTest(args=args):
                text = self.fails(2, *args)
                self.assertTrue(text.startswith('memtap: error: '), (args, text))
        self.assertEqual(self.run_memtap('nonsense').returncode, 2)

    def test_wrong_values(self):
        """The message names the option, the whole of what was given, and what it takes."""
        for option, values, takes in (
                ('--pid', ('x', '0', '-5', '', '1,,2x'), ('process ids',)),
                ('--duration', ('0', 'nan', '-1', 'x', '1e9'), ('seconds above 0',)),
                ('--ring-size', ('12', '9Q', '4T', '3G'), ('4K', '2G')),
                ('--level', ('3', '', '0,3', '0;1', 'ops'), ('0, 1', 'both')),
                ('--events', ('bar', '', 'alloc,fre', 'Alloc'), ('alloc', 'free', 'launch', 'access')),
                ('--device', ('npu:99', 'npu:', 'gpu', '', 'cpu,npu:x'), ('npu', 'npu:0', 'npu:31', 'cpu')),
                ('--data-format', ('xml', '', 'CSV'), ('csv', 'db')),
                ('--order', ('foo', ''), ('time', 'block')),
                ('--timeline', ('x', ''), ('real', 'kernel'))):
            for value in values:
                with self.subTest(option=option, value=value):
                    text = self.fails(2, '-n', 'nobody', '-d', '0.1', '-o', self.path('o'), f'{option}={value}')
                    self.assertRegex(text, f"{option}: '{value}' is not valid; it takes ")
                    said = text.split('it takes ', 1)[1].splitlines()[0]
                    for word in takes:
                        self.assertIn(word, said)
        self.assertFalse(os.path.exists(self.path('o')))

    def test_contradictory_targets(self):
        some = {'-p': ('-p', '1'), '-n': ('-n', 'x'), '--cgroup': ('--cgroup', '/'), '--no-follow': ('--no-follow',),
                '-- CMD': ('--', '/bin/true')}
        for name, args in some.items():
            with self.subTest(args=args):
                text = self.fails(2, '-a', '-o', self.path('o'), *args)
                self.assertIn(f'-a and {name} contradict', text)
                self.assertIn('leave one of them out', text)
        text = self.fails(2, '--cgroup', 'a', '--cgroup', 'b')
        self.assertIn("'a' was given before", text)
        self.assertFalse(os.path.exists(self.path('o')))

    def test_nobody_of_that_name(self):
        done = self.run_memtap('record', '-n', 'nobody-at-all', '-d', '0.2', '-o', self.path('o'))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no process is named 'nobody-at-all' yet", done.stderr)
        self.assertIn('  rows: none\n', done.stderr)
        self.assertIn('  wrote nothing: no process was traced\n', done.stderr)

    def test_no_cgroup(self):
        """Any other folder, however large, is refused and not walked through; the root's path is a cgroup's."""
        for path in ('/tmp', '/usr', '/etc/passwd'):
            text = self.fails(1, '--cgroup', path, '-d', '0.1', '-o', self.path('o'))
            self.assertIn(f'cgroup {path}: not a cgroup; give its folder', text)
        text = self.fails(1, '--cgroup', 'nosuch', '-d', '0.1', '-o', self.path('o'))
        self.assertIn('cgroup nosuch: No such file', text)

    def test_targets_add_up(self):
        """A process by its number, others by their name, and a command: all of them."""
        exe = self.path('npu-job-d')
        shutil.copy2(sim('sim-train'), exe)
        one = self.job('--seconds', LONG, '--rate', 500)
        two = self.job('--seconds', LONG, '--rate', 500, exe=exe, env={'SIM_ROOT': sim()})
        other = self.job('--seconds', LONG, '--rate', 500)
        self.pause(0.4)
        truth = self.path('cmd.truth')
        rec = self.record('-p', one.pid, '-n', 'npu-job-d', '-d', 1.5, '--', sim('sim-train'), '--seconds', 1,
                          '--rate', 500, '--truth', truth)
        result = rec.ended()
        for job in (one, two, other):
            self.stop(job)
        self.assertEqual(result.rc, 0, result.stderr)
        mine = {r['pid'] for r in result.rows if r['event'] == 'MALLOC'}
        self.assertEqual(len(mine), 3)
        self.assertTrue({one.pid, two.pid} < mine)
        self.assertNotIn(other.pid, mine)

    @alone
    def test_whom_the_probes_are_for(self):
        one, two = (self.job('--seconds', LONG, '--rate', 100) for _ in range(2))
        for args, what in ((('-p', one.pid), '; 1 process'), (('-p', f'{one.pid},{two.pid}'), '; 2 processes'),
                           (('-a',), '; every process'), (('-n', 'nobody'), '; 0 processes and those to come')):
            with self.subTest(args=args):
                text = self.fails(0, *args, '-d', 0.1, '-o', self.path('o'))
                self.assertEqual(next(l for l in text.splitlines() if ATTACHED in l).partition(' ms')[2], what)
        for job in (one, two):
            self.stop(job)

    def test_help(self):
        for args in (('--help',), ('record', '--help'), ('--version',)):
            done = self.run_memtap(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertTrue(done.stdout)

    def test_no_such_process(self):
        pid = self.gone()
        text = self.fails(1, '-p', pid, '-d', 1, '-o', self.path('o'))
        self.assertIn(str(pid), text)
        self.assertIn('no such process', text)
        self.assertFalse(os.path.exists(self.path('o')), 'a folder without files')
        # One that was there stays.
        os.mkdir(self.path('mine'))
        self.fails(1, '-p', pid, '-d', 1, '-o', self.path('mine'))
        self.assertTrue(os.path.exists(self.path('mine')))

    def test_process_that_has_ended(self):
        """A zombie: not mistaken for a process without libraries."""
        p = subprocess.Popen(['/bin/true'])
        self.cleanups.append(p.wait)
        self.pause(0.2)
        text = self.fails(1, '-p', p.pid, '-d', 1, '-o', self.path('o'))
        self.assertIn('no such process', text)

    def test_not_an_npu_process(self):
        p = subprocess.Popen(['sleep', '30'])
        self.cleanups.append(lambda: (p.kill(), p.wait()))
        text = self.fails(1, '-p', p.pid, '-d', 1, '-o', self.path('o'))
        self.assertIn('not an NPU process', text)
        self.assertIn('libascend_hal.so', text)
        self.assertNotIn('?(', text, 'patterns are for fnmatch, not for people')
        self.assertIsNone(p.poll())

    def test_unwritable_output(self):
        job = self.job('--seconds', LONG, '--rate', 500)
        with open(self.path('file'), 'w') as f:
            f.write('mine')
        for out in ('/proc/nowhere', self.path('file'), self.path('file', 'below')):
            text = self.fails(1, '-p', job.pid, '-d', 1, '-o', out)
            self.assertIn(out, text)
        with open(self.path('file')) as f:
            self.assertEqual(f.read(), 'mine')
        self.stop(job)

    def test_unwritable_summary(self):
        """Said before the capture, not behind it."""
        job = self.job('--seconds', LONG, '--rate', 500)
        with open(self.path('file'), 'w') as f:
            f.write('mine')
        os.symlink(self.path('file'), self.path('link'))
        for path in ('/proc/nowhere/x', self.path('none', 'x'), self.dir, self.path('link'), self.path('file', 'x')):
            with self.subTest(path=path):
                text = self.fails(1, '-p', job.pid, '-d', 20, '-o', self.path('o'), '--summary-json', path)
                self.assertIn(path, text)
                self.assertIn('or - for', text)
                self.assertNotIn(ATTACHED, text)
        with open(self.path('file')) as f:
            self.assertEqual(f.read(), 'mine')
        self.stop(job)

    def test_summary_of_before_stays(self):
        """Until there is something to write: a start that fails leaves it, and makes none."""
        for name, before in (('old', 'mine' * 4000), ('new', None)):
            path = self.path(name)
            if before:
                with open(path, 'w') as f:
                    f.write(before)
            self.fails(1, '-p', self.gone(), '-o', self.path('o'), '--summary-json', path)
            if before:
                with open(path) as f:
                    self.assertEqual(f.read(), before)
            else:
                self.assertFalse(os.path.exists(path))
        job = self.job('--seconds', LONG, '--rate', 500)
        for path in (self.path('old'), self.path('made', 'just', 'now', 'x')):
            self.fails(0, '-p', job.pid, '-d', 0.2, '-o', self.path('made', 'just', 'now'), '--summary-json', path)
            with open(path) as f:
                self.assertTrue(json.load(f)['accounting']['exact'])
        self.stop(job)

    def test_full_stdout(self):
        """What was printed and did not arrive is an error of every command that prints."""
        job = self.job('--seconds', LONG, '--rate', 500)
        lib = sim('cann/lib64/libascend_hal.so')
        for args in (('record', '-q', '-p', job.pid, '-d', 0.2, '-o', self.path('o'), '--summary-json', '-'),
                     ('check', '-J'), ('check',), ('probes', '-J', lib), ('probes', lib),
                     ('probes', '--derive', sim('torch_npu_c/lib/libtorch_npu.so')), ('record', '--help'),
                     ('--version',)):
            with self.subTest(args=args), open('/dev/full', 'w') as full:
                done = subprocess.run([memtap(), *map(str, args)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=LIMIT)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, 'standard output: |--summary-json -: No space left')
        self.stop(job)

    def test_command_is_let_go_last(self):
        """No error of memtap's own comes behind its start, so that none ends it."""
        text = self.fails(1, '-o', self.path('o'), '--', self.path('nonexistent'), env={'MEMTAP_MAPWATCH_PAGES': '3'},
                          prefix=('unshare', '--pid', '--fork', '--mount-proc'))
        self.assertIn('nothing to probe, and new mappings cannot be watched', text)
        self.assertNotIn('No such file', text)

    def test_unprivileged(self):
        os.chmod(self.dir, 0o777)
        exe = self.path('memtap')
        shutil.copy2(memtap(), exe)
        os.chmod(exe, 0o755)
        job = self.job('--seconds', LONG, '--rate', 500)
        done = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', exe, 'record',
                               '-p', str(job.pid), '-d', '1', '-o', self.path('o')],
                              capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r'CAP_[A-Z_]+')
        self.stop(job)

    def test_own_pid_is_refused_or_harmless(self):
        text = self.fails(1, '-p', os.getpid(), '-d', 0.5, '-o', self.path('o'))
        self.assertIn('not an NPU process', text)
