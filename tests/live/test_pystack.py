# SPDX-License-Identifier: Apache-2.0
"""Python stacks read from outside equal those that the program itself sees, on every CPython to be had."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import harness
from harness import LiveTest, Process, built

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 128  # MT_PY_DEPTH
# Releases that Debian has besides the one that this machine runs.
SUITES = {8: None, 9: 'bullseye', 10: None, 11: None, 12: None, 13: 'trixie', 14: 'sid', 15: 'sid'}


def pywalk():
    return built('tests', 'live', 'pywalk')


def installed(minor):
    """Interpreters of this machine: with a shared library, without, whoever installed them."""
    name = f'python3.{minor}'
    roots = [os.environ.get('PYENV_ROOT') or os.path.expanduser('~/.pyenv')]
    found = [p for r in roots for p in sorted(glob.glob(f'{r}/versions/*/bin/{name}'))]
    found += [p for d in ('/usr/bin', '/usr/local/bin', '/opt/*/bin') for p in sorted(glob.glob(f'{d}/{name}'))]
    if sys.version_info[:2] == (3, minor):
        found.append(os.path.realpath(sys.executable))
    return list({os.path.realpath(p): [p] for p in found}.values())


def fetched(minor):
    """Another suite's, run by its own dynamic linker and C library: argv, or why not."""
    if not SUITES[minor]:
        return None, 'no suite of Debian has it'
    done = subprocess.run([os.path.join(HERE, 'fetch_python.sh'), f'3.{minor}', SUITES[minor]],
                          capture_output=True, text=True, timeout=300)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ['it cannot be had'])[-1]
    usr = done.stdout.strip() + '/usr'
    linker = [p for p in glob.glob(usr + '/lib/**/ld-*', recursive=True) + glob.glob(usr + '/lib64/ld-*')
              if re.search(r'/ld-(linux[^/]*\.so\.\d|\d\.\d+\.so)$', p) and os.path.exists(p)]
    libs = ':'.join(sorted({os.path.dirname(p) for p in glob.glob(usr + '/lib/**/libc.so.6', recursive=True) +
                            glob.glob(usr + '/lib/**/libz.so.1', recursive=True) +
                            glob.glob(usr + '/lib/**/libexpat.so.1', recursive=True)}))
    return ['env', f'PYTHONHOME={usr}', linker[0], '--library-path', libs, f'{usr}/bin/python3.{minor}'], None


def parse(text):
    """Stacks that pywalk printed: [tid, reason, frames]."""
    out = []
    for line in text.splitlines():
        word, _, rest = line.partition(' ')
        if word == 'stack':
            tid, n, reason = rest.split(' ', 2)
            out.append([int(tid), reason, []])
        elif word == 'frame':
            number, name, qualname, path = rest.split('\t')
            out[-1][2].append([int(number), name, qualname, path])
    return out


class Target(Process):
    def __init__(self, test, argv, mode, name):
        program = test.path('pystacks.py')
        shutil.copy(os.path.join(HERE, 'pystacks.py'), program)
        super().__init__(test, name, [*argv, program, test.dir, mode], {'PYTHONIOENCODING': 'utf-8'})
        self.until('up')

    def marks(self):
        return [json.loads(line) for line in self.stdout().splitlines() if line.startswith('[')]

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

    def same(self, truth, seen, name_of):
        """The frames of one mark; from 3.11 on code objects have qualified names."""
        expected = truth[2][:DEPTH]
        if [f for f in seen[2]] != expected:
            at = next((i for i in range(min(len(expected), len(seen[2]))) if expected[i] != seen[2][i]),
                      min(len(expected), len(seen[2])))
            self.fail(f'{name_of}, {truth[0]}: frame {at} of {len(expected)}/{len(seen[2])} ({seen[1]}): '
                      f'{seen[2][at:at + 2]} instead of {expected[at:at + 2]}')
        self.assertEqual(seen[1], 'complete' if len(truth[2]) <= DEPTH else 'too deep', truth[0])


class ProbeTest(StackTest):
    """In BPF, at a uprobe on getppid(2)'s function of the C library."""

    def run_probe(self, argv, mode, name):
        t = Target(self, argv, 'probe', self.number('target'))
        w = Process(self, self.number('walk'), [pywalk(), t.pid, mode, t.libc(), 'getppid', 100000])
        w.until('attached')
        t.line()
        synced = 0
        while not re.search('^done', t.stdout(), re.M):
            if t.p.poll() is not None:
                self.fail(f'{name}: {t.stderr()[-2000:]}')
            n = t.stdout().count('sync\n')
            if n > synced:
                # Only now may the code go away: all that was said has been looked at.
                self.wait_stacks(w, len([m for m in t.marks() if m[0] != 'addresses']))
                synced = n
                t.line()
        marks = [m for m in t.marks() if m[0] != 'addresses']
        addresses = next(m for m in t.marks() if m[0] == 'addresses')[1]
        self.wait_stacks(w, len(marks))
        seen = parse(w.stdout())
        self.assertEqual(len(marks), len(seen), name)
        for truth, got in zip(marks, seen):
            self.assertEqual(truth[1], got[0], f'{name}, {truth[0]}')
            self.same(truth, got, name)
        self.assertGreater(len(marks), 100)
        self.assertLess(addresses, 40, 'no address was used twice')
        self.assertNotIn('(unchecked)', w.stdout())
        t.line()
        return w

    def wait_stacks(self, w, n):
        end = time.monotonic() + harness.LIMIT
        while w.stdout().count('\nstack ') < n or not w.stdout().endswith('\n'):
            if w.p.poll() is not None or time.monotonic() > end:
                self.fail(f'{w.stdout().count(chr(10) + "stack ")} stacks of {n}: {w.stderr()[-2000:]}')
            time.sleep(0.01)

    def look(self, argv, name):
        reason = harness.why_not()
        if reason:
            self.skipTest(reason)
        for mode in ('plain', 'sleepable'):
            self.run_probe(argv, mode, f'{name}, {mode}')


class OutsideTest(StackTest):
    """From outside, threads that have released the interpreter's lock."""

    def look(self, argv, name):
        t = Target(self, argv, 'outside', self.number('target'))
        t.line()
        at = 0
        while True:
            t.until_more(at)
            marks = t.marks()
            if len(marks) == at:
                break
            at = len(marks)
            done = subprocess.run([pywalk(), str(t.pid)], capture_output=True, text=True, timeout=harness.LIMIT)
            self.assertEqual(done.returncode, 0, f'{name}: {done.stdout} {done.stderr}')
            truth = marks[-1]
            seen = [s for s in parse(done.stdout) if s[2] and s[2][0] == truth[2][0] and
                    len(s[2]) == min(DEPTH, len(truth[2]))]
            self.assertTrue(seen, f'{name}, {truth[0]}: {truth[2][:3]} not in {done.stdout}')
            self.same(truth, seen[0], name)
            t.line()
        self.assertGreater(at, 20, name)


def add(cls, minor, what):
    """A test a release: test_probe_3_8 …"""
    def test(self):
        self.check(minor)
    setattr(cls, f'test_{what}_3_{minor}', test)


for _minor in SUITES:
    add(ProbeTest, _minor, 'probe')
    add(OutsideTest, _minor, 'outside')


if __name__ == '__main__':
    unittest.main()
