# SPDX-License-Identifier: Apache-2.0
"""Programs whose libraries are led to by RUNPATHs; how the command of a recording has ended."""
import ctypes
import os
import shutil
import signal
import subprocess
import time
import unittest

from basic import BasicTest
from test_callstack import library

PTRACE_SEIZE = 0x4206
MAIN = 'int mid(void); int main(void) { return mid(); }\n'
MID = '''
int halMemAlloc(void **p, unsigned long long size, unsigned long long flag);
int halMemFree(void *p);
int mid(void) { void *p; return halMemAlloc(&p, 4096, 0) || halMemFree(p); }
'''


class Runpath(BasicTest):
    def cc(self, out, text, *args):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        with open(out + '.c', 'w') as f:
            f.write(text)
        done = subprocess.run(['cc', '-O', '-Wl,--enable-new-dtags', '-o', out, out + '.c', *args],
                              capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f'cc: {done.stderr.strip().splitlines()[-1]}')
        return out

    def program(self):
        """main -> mid/libmid.so -> far/libascend_hal.so, each by the RUNPATH of the one before."""
        far = self.path('app', 'far')
        os.makedirs(far)
        os.makedirs(self.path('app', 'truth'))
        shutil.copy2(library('libascend_hal.so'), far)
        shutil.copy2(library('libsim_truth.so'), self.path('app', 'truth'))
        self.cc(self.path('app', 'mid', 'libmid.so'), MID, '-shared', '-fPIC', '-Wl,-soname,libmid.so', '-L', far,
                '-lascend_hal', '-Wl,--allow-shlib-undefined', '-Wl,-rpath,/nowhere:$ORIGIN/../far')
        return self.cc(self.path('app', 'main'), MAIN, '-L', self.path('app', 'mid'), '-lmid',
                       '-Wl,--allow-shlib-undefined', '-Wl,-rpath,$ORIGIN/mid')

    def test_runpath_of_a_runpath(self):
        """Probed before it is mapped."""
        result = self.run_program(self.program())
        self.assertEqual(result.summary['late_libraries'], [], result.stderr)
        self.assertEqual(sum(r['type'] == 'HAL' for r in result.rows), 2, result.stderr)

    def run_program(self, *command):
        result = self.record('--', *command, attached=False,
                             env={'LD_LIBRARY_PATH': self.path('app', 'truth')}).ended()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual(result.summary['command_status'], 0)
        return result

    def test_gone_before_it_is_read(self):
        """Children that end before anybody looks at them: each has its rows, or is said to be late."""
        result = self.run_program('/bin/sh', '-c', f'for i in 1 2 3; do {self.program()}; done')
        rows = {r['pid'] for r in result.rows if r['type'] == 'HAL'}
        late = {l['pid'] for l in result.summary['late_libraries']}
        self.assertEqual(len(rows | late), 3, result.stderr)


class Ended(BasicTest):
    def test_status_of_a_command_that_ends_slowly(self):
        """Nobody can wait for it while a debugger has it: the summary says how it ended all the same."""
        libc = ctypes.CDLL(None, use_errno=True)
        fifo = self.path('fifo')
        os.mkfifo(fifo)
        rec = self.record('--', '/bin/sh', '-c', f'read x < {fifo}; exit 3')
        with open(f'/proc/{rec.pid}/task/{rec.pid}/children') as f:
            pid = int(f.read().split()[0])
        self.assertEqual(libc.ptrace(PTRACE_SEIZE, pid, None, None), 0, os.strerror(ctypes.get_errno()))
        with open(fifo, 'w') as f:
            f.write('\n')
        end, state = time.monotonic() + 30, ''
        while state != 'Z':
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
            with open(f'/proc/{pid}/stat') as f:
                state = f.read().rpartition(')')[2].split()[0]
        time.sleep(1)
        os.waitpid(pid, 0)
        result = rec.ended()
        self.assertNotIn('still runs', result.stderr)
        self.assertIn('the command ended with status 3', result.stderr)
        self.assertEqual(result.summary['command_status'], 3)

    def test_a_command_that_goes_on(self):
        """At the end of the time it is left alone, and not waited for."""
        rec = self.record('-d', 1, '--', '/bin/sleep', 60)
        with open(f'/proc/{rec.pid}/task/{rec.pid}/children') as f:
            pid = int(f.read().split()[0])
        try:
            result = rec.ended()
            self.assertIn(f'the command still runs: pid {pid}', result.stderr)
            self.assertNotIn('command_status', result.summary)
        finally:
            os.kill(pid, signal.SIGKILL)


if __name__ == '__main__':
    unittest.main()
