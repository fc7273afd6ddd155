# SPDX-License-Identifier: Apache-2.0
"""Objects read from outside equal those that the program has, on every CPython to be had."""
import os
import shutil
import time

import harness
from harness import LiveTest, Process, built
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
    def __init__(self, test, argv, generation=1):
        folder = test.path(test.number('modules'))
        os.mkdir(folder)
        shutil.copy(EXTENSION, folder)
        program = os.path.join(folder, 'objects_py.py')
        shutil.copy(os.path.join(HERE, 'objects_py.py'), program)
        super().__init__(test, test.number('target'), [*argv, program, folder, str(generation)])
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

