# SPDX-License-Identifier: Apache-2.0
"""Python stacks read from outside equal those that the program itself sees, on every CPython to be had."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import frames
import harness
from harness import LiveTest, Process, built
from interpreters import SUITES, fetched, installed, numpy

HERE = os.path.dirname(os.path.abspath(__file__))


def pywalk():
    return built('tests', 'live', 'pywalk')


class Target(Process):
    def __init__(self, test, argv, mode, *scenarios, env=None):
        program = test.path('pystacks.py')
        shutil.copy(os.path.join(HERE, 'pystacks.py'), program)
        super().__init__(test, test.number('target'), [*argv, program, test.dir, mode, *scenarios],
                         {'PYTHONIOENCODING': 'utf-8', **(env or {})})
        self.until('up')

    def marks(self):
        return [m for m in frames.said(self.stdout()) if m[0] != 'addresses']

    def addresses(self):
        return [m[1] for m in frames.said(self.stdout()) if m[0] == 'addresses']

    def until_more(self, n):
        """Until there are more than n marks, or it is done."""
        end = time.monotonic() + harness.LIMIT
        while len(self.marks()) <= n and not re.search('^done', self.stdout(), re.M):
            if self.p.poll() is not None or time.monotonic() > end:
                raise AssertionError(f'{len(self.marks())} marks, not more than {n}: {self.stderr()[-2000:]}')
            time.sleep(0.01)

    def libc(self):
        with open(f'/proc/{self.pid}/maps') as f:
            return next(l.split()[-1] for l in f if re.search(r'/libc(\.so\.6|-2\.\d+\.so)$', l))


class StackTest(LiveTest):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest('not root')
        if not os.access(pywalk(), os.X_OK):
            self.skipTest(f'{pywalk()} is not built')
        super().setUp()

    def pythons(self, minor):
        found = [(' '.join(p), p) for p in installed(minor)]
        argv, why = fetched(minor)
        if argv:
            found.append((f'{SUITES[minor]} 3.{minor}', argv))
        if not found:
            self.skipTest(f'no CPython 3.{minor} here, and {why}')
        return found

    def check(self, minor):
        for name, argv in self.pythons(minor):
            self.look(argv, name)

    def each_mark(self, t, pid, name):
        at = 0
        while True:
            t.until_more(at)
            marks = t.marks()
            if len(marks) == at:
                break
            at = len(marks)
            for _ in range(10):  # it says where it is just before it waits there
                rc, out = self.walk(pid)
                self.assertEqual(rc, 0, f'{name}: {out}')
                differ = [frames.differ(marks[-1], s) for s in frames.seen(out)]
                if None in differ:
                    break
                time.sleep(0.1)
            self.assertIn(None, differ, f'{name}: {differ}')
            t.line()

    def walk(self, pid):
        done = subprocess.run([pywalk(), str(pid)], capture_output=True, text=True, timeout=harness.LIMIT)
        return done.returncode, done.stdout + done.stderr


class AtProbe(StackTest):
    """In BPF, at a uprobe on getppid(2)'s function of the C library."""

    def setUp(self):
        reason = harness.why_not()
        if reason:
            self.skipTest(reason)
        super().setUp()

    def run_probe(self, argv, mode, name, *scenarios, **kw):
        t = Target(self, argv, 'probe', *scenarios, **kw)
        w = Process(self, self.number('walk'), [pywalk(), t.pid, mode, t.libc(), 'getppid', 100000])
        w.until('attached')
        t.line()
        synced = 0
        while not re.search('^done', t.stdout(), re.M):
            if t.p.poll() is not None:
                self.fail(f'{name}: {t.stderr()[-2000:]}')
            if t.stdout().count('sync\n') > synced:
                # Only now may the code go away: all that was said has been looked at.
                self.wait_stacks(w, len(t.marks()))
                synced += 1
                t.line()
            time.sleep(0.002)
        self.wait_stacks(w, len(t.marks()))
        bad = frames.compare(t.marks(), frames.seen(w.stdout()))
        if bad:
            self.fail(f'{name}: {len(bad)} problems:\n' + '\n'.join(bad[:5]))
        self.assertNotIn('(unchecked)', w.stdout())
        t.line()
        return t

    def wait_stacks(self, w, n):
        end = time.monotonic() + harness.LIMIT
        while w.stdout().count('\nend\n') < n:
            if w.p.poll() is not None or time.monotonic() > end:
                self.fail(f'fewer than {n} stacks: {w.stdout()[-1000:]} {w.stderr()[-2000:]}')
            time.sleep(0.01)


class ProbeTest(AtProbe):
    def look(self, argv, name):
        for mode in ('plain', 'sleepable'):
            t = self.run_probe(argv, mode, f'{name}, {mode}')
            self.assertGreater(len(t.marks()), 100)
            self.assertLess(t.addresses()[0], 40, 'no address was used twice')


class GoneTest(AtProbe):
    """Code that has gone, and another is in its place, when names are read: no name, never the other's."""

    def look(self, argv, name):
        t = Target(self, argv, 'probe', 'vanishing')
        w = Process(self, self.number('walk'), [pywalk(), t.pid, 'plain', t.libc(), 'getppid', 100000])
        w.until('attached')
        t.line()
        t.until('sync')
        w.signal(signal.SIGSTOP)
        t.line()
        t.until('done')
        w.signal(signal.SIGCONT)
        self.wait_stacks(w, len(t.marks()))
        bad, unnamed = frames.gone(t.marks(), frames.seen(w.stdout()))
        self.assertEqual(bad, [], name)
        self.assertEqual(len(t.marks()), 60)
        self.assertGreater(unnamed, 10, f'{name}: no address was used twice')
        t.line()


class OutsideTest(StackTest):
    """From outside, threads that have released the interpreter's lock."""

    def look(self, argv, name):
        t = Target(self, argv, 'outside')
        t.line()
        self.each_mark(t, t.pid, name)
        self.assertGreater(len(t.marks()), 20, name)


class OddTest(AtProbe):
    """Interpreters that are not just a program of that name."""

    def any_python(self):
        for minor in reversed(SUITES):
            if installed(minor):
                return installed(minor)[-1][0]
        self.skipTest('no CPython of this machine\'s own')

    def test_venv(self):
        python = self.any_python()
        subprocess.run([python, '-m', 'venv', '--without-pip', self.path('venv')], check=True, timeout=harness.LIMIT)
        t = self.run_probe([self.path('venv', 'bin', 'python')], 'plain', 'venv', 'nested', 'callbacks')
        self.assertGreater(len(t.marks()), 5)

    def test_other_name(self):
        """A copy with a static interpreter that says nothing of its release."""
        python = os.path.realpath('/usr/bin/python3')
        with open(python, 'rb') as f:
            if b'_PyRuntime' not in f.read():
                self.skipTest(f'{python} has no interpreter in it')
        shutil.copy(python, self.path('trainer'))
        t = self.run_probe([self.path('trainer')], 'plain', 'other name', 'nested', 'callbacks',
                           env={'PYTHONHOME': '/usr'})
        self.assertGreater(len(t.marks()), 5)

    def test_forked(self):
        t = Target(self, [self.any_python()], 'outside', 'forked')
        t.line()
        child = int(t.until('child ').split()[1])
        t.line()
        self.each_mark(t, child, 'child')
        self.assertGreater(len(t.marks()), 5)

    def embed(self):
        program = built('tests', 'live', 'embed')
        if not os.access(program, os.X_OK):
            self.skipTest('there was no python3-embed when it was built')
        return program

    def test_embedded(self):
        t = self.run_probe([self.embed()], 'plain', 'embedded', 'nested', 'callbacks', 'in_threads')
        self.assertGreater(len(t.marks()), 8)

    def test_embedded_threads(self):
        t = Target(self, [self.embed()], 'outside', 'nested')
        t.line()
        self.each_mark(t, t.pid, 'embedded')
        rc, out = self.walk(t.pid)
        self.assertEqual(rc, 0, out)
        self.assertIn('thread states in a block of the thread', out)
        # The one that once ran Python: known, without frames. The other is in no list.
        self.assertEqual(sorted(s[1] for s in frames.seen(out)), ['complete', 'thread runs no Python'])

    def test_no_python(self):
        sleeper = Process(self, 'sleeper', ['sleep', '100'])
        rc, out = self.walk(sleeper.pid)
        self.assertEqual(rc, 3, out)
        self.assertIn('runs no Python', out)
        sleeper.kill()
        rc, out = self.walk(sleeper.pid)
        self.assertEqual(rc, 3, out)
        self.assertIn('No such process', out)

    def test_unknown_release(self):
        """Named as such, never walked by a layout of another release."""
        found = installed(7)
        if not found:
            self.skipTest('no CPython 3.7 here')
        old = Process(self, 'old', [*found[0], '-c', 'import time; print("up", flush=True); time.sleep(100)'])
        old.until('up')
        rc, out = self.walk(old.pid)
        self.assertEqual(rc, 3, out)
        self.assertIn('CPython 3.7', out)
        self.assertIn('its layout is not known', out)

    def test_numpy(self):
        """Python called back by C of NumPy; installed into a folder of the cache when it can be had."""
        python = self.any_python()
        minor = int(subprocess.run([python, '-c', 'import sys; print(sys.version_info[1])'],
                                   capture_output=True, text=True, check=True).stdout)
        site, why = numpy(minor)
        if not site:
            self.skipTest(why)
        t = self.run_probe([python], 'plain', 'numpy', 'numpy', env={'PYTHONPATH': site})
        self.assertGreaterEqual(len(t.marks()), 6)


def add(cls, minor, what):
    """A test a release: test_probe_3_8 …"""
    def test(self):
        self.check(minor)
    setattr(cls, f'test_{what}_3_{minor}', test)


for _minor in SUITES:
    add(ProbeTest, _minor, 'probe')
    add(OutsideTest, _minor, 'outside')
    add(GoneTest, _minor, 'gone')


if __name__ == '__main__':
    unittest.main()
