# SPDX-License-Identifier: Apache-2.0
"""Objects read from outside equal those that the program has, on every CPython to be had."""
import csv
import glob
import os
import shutil
import time

import harness
from harness import LiveTest, Process, built, sim
from interpreters import SUITES, fetched, installed

HERE = os.path.dirname(os.path.abspath(__file__))
EXTENSION = built('tests', 'live', 'tensor.abi3.so')
READER = built('tests', 'live', 'objects')


def wait_for(condition, what):
    end = time.monotonic() + harness.LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f'{what}: not within {harness.LIMIT} s')
        time.sleep(0.005)


class Target(Process):
    def __init__(self, test, argv, generation=1, *more):
        folder = test.path(test.number('modules'))
        os.mkdir(folder)
        shutil.copy(EXTENSION, folder)
        program = os.path.join(folder, 'objects_py.py')
        shutil.copy(os.path.join(HERE, 'objects_py.py'), program)
        super().__init__(test, test.number('target'), [*argv, program, folder, str(generation), *more])
        self.told = 0
        self.known = self.next()

    def next(self):
        """What it tells until it is ready once more."""
        self.told += 1
        wait_for(lambda: self.stdout().count('ready\n') >= self.told or self.p.poll() is not None,
                         'the target tells its tensors')
        parts = self.stdout().split('ready\n')
        if len(parts) <= self.told:
            raise AssertionError(f'the target ended: {self.stderr()[-1500:]}')
        return sorted(parts[self.told - 1].split('\n')[:-1])

    def say(self, text=''):
        self.line(text + '\n')
        self.known = self.next()


class Reader(Process):
    def __init__(self, test, pid):
        super().__init__(test, test.number('reader'), [READER, str(pid)])
        self.told = 0

    def ask(self, what):
        """The tensors, sorted, and the counts; or None and the error."""
        self.line(what + '\n')
        self.told += 1

        def lines():
            return [x for x in self.stdout().split('\n')[:-1] if x.startswith(('done', 'error'))]
        wait_for(lambda: len(lines()) >= self.told or self.p.poll() is not None, 'the reader answers')
        got, n = [], 0
        for x in self.stdout().split('\n')[:-1]:
            if x.startswith(('done', 'error')):
                n += 1
                if n == self.told:
                    words = x.split()
                    return (None, x) if words[0] == 'error' else (sorted(got), dict(zip(words[1::2], map(int, words[2::2]))))
                got = []
            else:
                got.append(x)
        raise AssertionError(f'the reader ended: {self.stdout()[-300:]} {self.stderr()[-1000:]}')


class ObjectBase(LiveTest):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest('not root')
        for path in (EXTENSION, READER):
            if not os.path.exists(path):
                self.skipTest(f'{path} is not built')
        super().setUp()

    def check(self, minor):
        found = [(' '.join(p), p) for p in installed(minor)]
        argv, why = fetched(minor)
        if argv:
            found.append((f'{SUITES[minor]} 3.{minor}', argv))
        if not found:
            self.skipTest(f'no CPython 3.{minor} here, and {why}')
        for name, argv in found:
            for generation in (0, 1, 2):
                with self.subTest(name=name, generation=generation):
                    self.look(argv, generation)

    def look(self, argv, generation):
        t = Target(self, argv, generation)
        r = Reader(self, t.pid)
        got, counts = r.ask('find')
        self.assertEqual(got, t.known, counts)
        self.assertEqual((counts['optimizers'], counts['modules'], counts['cut'], counts['torn']), (3, 1, 0, 0))
        self.assertGreater(len(got), 1400)
        # Later: others, which only a search finds, and one less.
        t.say()
        got, _ = r.ask('read')
        self.assertNotEqual(got, t.known)
        got, counts = r.ask('find')
        self.assertEqual(got, t.known, counts)
        self.assertEqual(counts['optimizers'], 4)
        t.kill()
        self.assertIsNone(r.ask('read')[0] or None)
        r.kill()


class ObjectTest(ObjectBase):
    pass


def of_minor(minor):
    def test(self):
        self.check(minor)
    test.__name__ = f'test_3_{minor}'
    return test


for m in SUITES:
    setattr(ObjectTest, f'test_3_{m}', of_minor(m))


class MovingTest(ObjectBase):
    """While objects come and go and are collected, what stands still is read right; what is not sure is not told."""

    def test_storm(self):
        argv = installed(11) or installed(12) or installed(10)
        if not argv:
            self.skipTest('no CPython 3.10 to 3.12 here')
        t = Target(self, argv[0])
        r = Reader(self, t.pid)
        t.say('storm')
        whole, torn = 0, 0
        for _ in range(40):
            got, counts = r.ask('find')
            self.assertIsNotNone(got, counts)
            self.assertEqual([x for x in got if x not in t.known], [])
            self.assertLess(counts['walk_us'], 5000000)
            whole += got == t.known
            torn += counts['torn']
        self.assertGreater(whole, 30, f'{torn} torn')
        t.say()
        got, counts = r.ask('find')
        self.assertEqual((got, counts['torn']), (t.known, 0))



class OwnersTest(ObjectBase):
    """--owners of memtap record; the labels are held against a real torch in tests/real."""

    def setUp(self):
        if harness.why_not():
            self.skipTest(harness.why_not())
        super().setUp()

    def target(self):
        argv = installed(11) or installed(12) or installed(10)
        if not argv:
            self.skipTest('no CPython 3.10 to 3.12 here')
        return Target(self, argv[0], 1, sim('cann/lib64/libms_tools_ext.so'))

    def test_readings(self):
        """Tensors without a block that was seen are told when they were met twice."""
        t = self.target()
        rec = self.record('-p', t.pid, '--owners=objects')
        time.sleep(1.5)
        r = rec.stop()
        o = r.summary['owners']
        self.assertEqual((o['processes'], o['optimizers'], o['modules']), (1, 3, 1), o)
        self.assertEqual((o['failed'], o['cut'], o['stuck']), (0, False, False), o)
        self.assertGreater(o['readings'], 3)
        path = glob.glob(os.path.join(r.dir, 'dump', 'owners_*.csv'))[0]
        with open(path) as f:
            got = sorted(f"{x['Owner'].split('@')[2]} {int(x['Ptr']):x} {x['Size(byte)']} {x['Device Id']}" for x in csv.DictReader(f))
        self.assertEqual(got, t.known)
        self.assertEqual(o['preattach'], len(t.known))
        self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)

    def test_forked(self):
        """A child has the objects of its parent, not their memory: nothing is told of it."""
        t = self.target()
        t.say('fork')
        rec = self.record('-p', t.pid, '--owners=objects')
        t.say('fork')
        time.sleep(2)
        r = rec.stop()
        o = r.summary['owners']
        self.assertEqual((o['processes'], o['preattach']), (1, len(t.known)), o)
        self.assertEqual(len([x for x in r.rows if x['type'] == 'START_TRACE']), 3)
        with open(glob.glob(os.path.join(r.dir, 'dump', 'owners_*.csv'))[0]) as f:
            self.assertEqual({x['Process Id'] for x in csv.DictReader(f)}, {str(t.pid)})

    def test_ends_of_steps(self):
        """A reading at the end of each step, beside the first and the last."""
        t = self.target()
        rec = self.record('-p', t.pid, '--owners=objects', env={'MEMTAP_READ_PAUSE_MS': 600000})
        time.sleep(1)
        for _ in range(5):
            t.say('step')
            time.sleep(0.3)
        r = rec.stop()
        self.assertEqual(r.summary['owners']['readings'], 7, r.summary['owners'])

    def test_memory_that_does_not_answer(self):
        """The thread that reads waits; the recording does not, and ends."""
        t = self.target()
        t.say('block')
        job = self.job('--seconds', '60')
        rec = self.record('-p', f'{t.pid},{job.pid_of_job}', '--owners=objects')
        time.sleep(1.5)
        began = time.monotonic()
        r = rec.stop()
        self.assertLess(time.monotonic() - began, 15)
        self.assertIn(f'the memory of pid {t.pid} does not answer', r.stderr)
        self.assertGreater(len(r.rows), 100)
        self.assertIsNone(t.p.poll())
        t.say()

    def test_targets_without_python(self):
        job = self.job('--seconds', '60')
        rec = self.record('-p', job.pid_of_job, '--owners=objects')
        time.sleep(0.7)
        r = rec.stop()
        self.assertIn('0 optimizers and 0 modules in 0 processes', r.stderr)
        self.assertNotIn('warning', r.stderr)
        self.assertEqual(glob.glob(os.path.join(r.dir, 'dump', 'owners_*')), [])

    def test_option(self):
        self.assertIn('--owners WHERE', self.run_memtap('record', '--help').stdout)
        done = self.run_memtap('record', '--owners=stacks', '-p', '1')
        self.assertEqual(done.returncode, 2)
        self.assertIn("--owners: 'stacks' is not valid; it takes objects or none", done.stderr)
        top = os.path.join(HERE, '..', '..')
        with open(os.path.join(top, 'scripts', 'completion', 'memtap.bash')) as f:
            completion = f.read()
        self.assertIn(' --owners ', completion)
        self.assertIn("--owners) mapfile -t COMPREPLY < <(compgen -W 'objects none'", completion)
        with open(os.path.join(top, 'man', 'memtap-record.8')) as f:
            self.assertIn('.SH OWNERS', f.read())
