# SPDX-License-Identifier: Apache-2.0
"""C stacks by the unwinder equal those that the program itself sees: in BPF, and at each instruction."""
import glob
import os
import subprocess
import tempfile

from harness import LiveTest, built

# That tests/live/cwalk_target.c makes.
KINDS = {'recursion', 'qsort', 'signal', 'signal, own stack', 'fault in a leaf', 'no frame pointer', 'alloca',
         'no frame record', 'record on top', 'code without a file', 'makecontext', 'thread'}


class CStacks(LiveTest):
    def cwalk(self, *args):
        done = subprocess.run([built('tests', 'live', 'cwalk'), *args], capture_output=True, text=True, timeout=120)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().removeprefix('skip '))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def same(self, text, least):
        same = [line.split(' ', 3)[1:] for line in text.splitlines() if line.startswith('same ')]
        self.assertEqual({kind for _, _, kind in same}, KINDS)
        self.assertGreaterEqual(min(int(n) for n, _, _ in same), least)

    def test_plain(self):
        self.same(self.cwalk('plain'), 40)

    def test_sleepable(self):
        self.same(self.cwalk('sleepable'), 40)

    def test_each_instruction(self):
        self.assertRegex(self.cwalk('steps'), r'^steps \d+ wrong 0 ')

    def test_store(self):
        """Stacks as tests/unit/data-stacks has them can be written here."""
        with tempfile.TemporaryDirectory() as where:
            self.same(self.cwalk('store', where), 2)
            files = glob.glob(os.path.join(where, '*.stack'))
            self.assertEqual(len(files), len(KINDS))
            for path in files:
                with open(path) as f:
                    self.assertEqual(f.readline(), 'memtap-stack 1\n')
