# SPDX-License-Identifier: Apache-2.0
"""What a target makes up: records of it that cannot be true are lost, and that is said everywhere."""
import subprocess
import sys

import compare as C
from basic import BasicTest

DRIVER = '''
int halMemAlloc(void **p, unsigned long size, unsigned long flag) { *p = (void *)0x7000000000; return 0; }
int halMemFree(void *p) { return 0; }
'''
PROGRAM = '''
import ctypes, sys
hal = ctypes.CDLL(sys.argv[1])
p = ctypes.c_void_p()
def alloc(size):
    assert hal.halMemAlloc(ctypes.byref(p), ctypes.c_ulong(size), ctypes.c_ulong(0)) == 0
print('READY', flush=True)
sys.stdin.readline()
for _ in range(5):
    alloc(1 << 60)
alloc(4096)
'''


class Nonsense(BasicTest):
    def test_impossible_size(self):
        """A driver that gives 2^60 bytes: no row can be true, and none is missing in silence."""
        with open(self.path('hal.c'), 'w') as f:
            f.write(DRIVER)
        lib = self.path('libascend_hal.so')
        subprocess.run(['cc', '-shared', '-fPIC', '-O1', '-o', lib, f.name], check=True)
        job = self.start('job', [sys.executable, '-c', PROGRAM, lib])
        job.until('READY')
        rec = self.record('-p', job.pid, '--strict')
        job.line()
        self.assertEqual(job.wait(), 0, job.stderr())
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        a = result.summary['accounting']
        self.assertEqual((a['undecodable'], a['rows'], a['lost'], a['exact']), (5, 1, 0, True))
        self.assertIn('events seen 6 = rows 1 + without a row by rule 0 + lost 0 + undecodable 5\n', result.stderr)
        self.assertIn('record makes no sense, probe halMemAlloc', result.stderr)
        rows = [r for r in result.rows if r['type'] == 'LOST' and r['attr']['count'] != '0']
        self.assertEqual({(r['attr']['reason'], r['attr']['probe']) for r in rows},
                         {('record makes no sense', 'halMemAlloc')})
        self.assertEqual(sum(int(r['attr']['count']) for r in rows), 5)
        self.assertEqual(C.accounting(result.rows, result.summary, lossless=False), [])
