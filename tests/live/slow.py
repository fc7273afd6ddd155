# SPDX-License-Identifier: Apache-2.0
"""Recordings whose attaching takes long enough for something to happen meanwhile."""
import os
import shutil
import sys
import time

from basic import BasicTest
from harness import ATTACHED, Process, sim

MANY = 120  # libraries to attach to: a second and more
MAPPER = '''
import mmap, sys
keep = []
for path in sys.argv[1:]:
    with open(path, "rb") as f:
        keep.append(mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))
print("READY", flush=True)
sys.stdin.readline()
'''


class SlowAttach(BasicTest):
    def many(self):
        """A process with many driver libraries."""
        paths = []
        for n in range(MANY):
            os.makedirs(self.path('many', str(n)))
            paths.append(self.path('many', str(n), 'libascend_hal.so'))
            shutil.copy2(os.path.realpath(sim('cann/lib64/libascend_hal.so')), paths[-1])
        p = Process(self, 'mapper', [sys.executable, '-c', MAPPER, *paths])
        p.until('READY')
        return p

    def links(self, rec):
        """Links of BPF programs that memtap has by now."""
        n = 0
        for fd in os.listdir(f'/proc/{rec.pid}/fd'):
            try:
                n += os.readlink(f'/proc/{rec.pid}/fd/{fd}') in ('anon_inode:bpf_link', 'anon_inode:bpf-link')
            except OSError:
                pass
        return n

    def begun(self, *args, **kw):
        """A recording that has attached to some of the libraries."""
        rec = self.record(*args, attached=False, **kw)
        end = time.monotonic() + 20
        while self.links(rec) < 30:
            self.assertIsNone(rec.p.poll(), rec.stderr())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.002)
        self.assertNotIn(ATTACHED, rec.stderr())
        return rec
