# SPDX-License-Identifier: Apache-2.0
"""The runners of the tests themselves: what they skip, and what they must not let pass."""
import os
import subprocess
import sys

from harness import BUILD, LIMIT, LiveTest

HERE = os.path.dirname(os.path.abspath(__file__))
LIVE = os.path.join(HERE, 'run.py')
REAL = os.path.join(HERE, '..', 'real', 'run.py')


class Runner(LiveTest):
    def run_it(self, *args, prefix=()):
        return subprocess.run([*prefix, sys.executable, *args], capture_output=True, text=True, timeout=3 * LIMIT)

    def test_names_that_no_test_has(self):
        for args in ((LIVE, '--build', BUILD), (REAL, '--run', '/none', '--build', BUILD)):
            done = self.run_it(*args, 'no.such_test')
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn('FAIL no.such_test (no test is named so)', done.stdout)
            self.assertIn('0 passed, 1 failed, 0 skipped', done.stdout)

    def test_names_of_the_other_framework(self):
        for args, name in (((), 'ms_pool.'), (('--mindspore',), 'ranks.')):
            done = self.run_it(REAL, '--run', '/none', '--build', BUILD, *args, name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn('0 passed, 0 failed, 0 skipped', done.stdout)

    def test_without_rights(self):
        """Where BPF does not work each test is skipped, and why is said."""
        none = ('setpriv', '--bounding-set=-all', '--inh-caps=-all')
        for args in ((LIVE, '--build', BUILD, 'errors.usage'), (REAL, '--run', '/none', '--build', BUILD, 'ranks.')):
            done = self.run_it(*args, prefix=none)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn('BPF does not work here', done.stdout)
            self.assertIn('0 passed, 0 failed', done.stdout)
