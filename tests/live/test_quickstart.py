# SPDX-License-Identifier: Apache-2.0
"""The README's first command: its files equal the ground truth of its job."""
import json
import os
import re
import subprocess
import sys

import readers
from basic import BasicTest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, '..', '..')


class Quickstart(BasicTest):
    def test_files_equal_the_truth(self):
        out = self.path('out')
        done = subprocess.run([os.path.join(TOP, 'scripts', 'quickstart.sh'), '--seconds', '2', '-o', out],
                              capture_output=True, text=True, timeout=500, cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        held = re.search(r'(\d+) of (\d+) rows are calls .*; 0 differences', done.stdout)
        self.assertTrue(held, done.stdout)
        self.assertGreater(int(held[1]), 1000)
        with open(os.path.join(out, 'summary.json')) as f:
            account = json.load(f)['accounting']
        self.assertEqual((account['lost'], account['exact']), (0, True))
        rows = readers.read_csv(readers.dump_of(out, 'csv'))
        self.assertEqual(len(rows), int(held[2]))
        for name in (readers.dump_of(out, 'csv'), *readers.traces_of(out).values()):
            self.assertIn(os.path.basename(name), done.stdout + done.stderr)

    def test_differences_are_seen(self):
        """hold.py itself: a changed size, a lost row and a doubled one are each found."""
        result, job = self.cut_out('--threads', 1)
        with open(os.path.join(result.dir, 'summary.json'), 'w') as f:
            json.dump(result.summary, f)

        def hold():
            return subprocess.run([sys.executable, os.path.join(HERE, 'hold.py'), result.dir, job.truth_base],
                                  capture_output=True, text=True)
        done = hold()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(result.dump) as f:
            lines = f.readlines()
        at = next(i for i, l in enumerate(lines) if i > len(lines) // 2 and ',MALLOC,PTA,' in l)
        for change in (lines[:at] + [re.sub(r'size:(\d)', r'size:9\1', lines[at])] + lines[at + 1:],
                       lines[:at] + lines[at + 1:], lines[:at + 1] + lines[at:]):
            with open(result.dump, 'w') as f:
                f.writelines(change)
            self.assertEqual(hold().returncode, 1)
