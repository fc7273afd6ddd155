# SPDX-License-Identifier: Apache-2.0
"""What every MindSpore program needs: the handshake with the test, and MindSpore's own account.

    A = ms_account.Account()   # imports MindSpore, makes the pool
    A.ready()                  # prints READY <pid>, waits for a line
    ...                        # A.op() after each operation
    A.done()                   # writes the account to $REAL_OUT, prints DONE, waits for a line

With memory_tracker:true in MS_ALLOC_CONF the account has the list of blocks that MindSpore's own
tracker kept. What a program prints besides must not differ between two runs of it.
"""
import atexit
import csv
import ctypes
import glob
import json
import os
import shutil
import tempfile
import time

from account import boot, clock_offset, handshake

POOL = 'libmindspore_memory_pool.so'
TRACKER = '_ZN9mindspore6device7tracker20MemoryTrackerEnabled'
NEVER = (1 << 63) - 1
MARK = 77 * 512  # size of the last block before READY


class Account:
    def __init__(self, device=0):
        os.environ.setdefault('GLOG_v', '4')
        os.environ.setdefault('MS_LOG_LEVEL', '4')
        # it writes files where it is
        self.here = tempfile.mkdtemp(prefix='mindspore.', dir=os.path.dirname(os.environ.get('REAL_OUT', '')) or None)
        atexit.register(shutil.rmtree, self.here, True)
        os.chdir(self.here)
        import mindspore
        self.ms, self.runtime, self.mint = mindspore, mindspore.runtime, mindspore.mint
        mindspore.set_device('Ascend', device)
        self.tracking = 'memory_tracker:true' in os.environ.get('MS_ALLOC_CONF', '').lower()
        self.data = {'ops': [], 'device': device}
        self.keep = [self.empty(1 << 20) for _ in range(3)]  # blocks from before the attach
        del self.keep[0]
        self.runtime.synchronize()

    def empty(self, n, device='Ascend'):
        """n bytes that nothing is written to; really allocated when this returns."""
        t = self.mint.empty((n,), dtype=self.ms.uint8, device=device)
        t.data_ptr()
        return t

    def stats(self):
        s = self.runtime.memory_stats()
        return {'allocated': s['total_allocated_memory'], 'reserved': s['total_reserved_memory'],
                'max_allocated': s['max_allocated_memory'], 'max_reserved': s['max_reserved_memory']}

    def ready(self, wait=True):
        self.keep.append(self.empty(MARK))  # the tracker can be asked only once, at the end
        self.data['base'] = self.stats()
        handshake('READY', wait)

    def op(self, kind, address, size, t0):
        """One operation of the program, its times, and the statistics after it."""
        s = self.stats()
        self.data['ops'].append([kind, address, size, t0, boot(), s])

    def rest(self, kind, t0):
        """The same for what other threads do: when nothing moves any more."""
        self.runtime.synchronize()
        s = None
        while s != self.stats():
            s = self.stats()
            time.sleep(0.005)
        self.op(kind, 0, 0, t0)

    def tracked(self):
        """Blocks of the device as MindSpore's tracker has them: address, size, use after it, when it came and went."""
        pool = [x.split()[-1] for x in open('/proc/self/maps', encoding='utf-8') if POOL in x][0]
        lib = ctypes.CDLL(pool)
        tracker = ctypes.c_char.in_dll(lib, '_ZZN' + TRACKER[3:] + '11getInstanceEvE8instance')
        lib[TRACKER + '4DumpEm'](ctypes.byref(tracker), ctypes.c_ulong(0))
        out = []
        for path in glob.glob(self.here + '/**/memory_block.csv', recursive=True):
            with open(path, encoding='utf-8', newline='') as f:
                for r in csv.DictReader(f):
                    if 'Ascend' not in r['pool_type'] or 'Pin' in r['pool_type']:
                        continue
                    end = int(r['end_time_stamp'])
                    out.append([int(r['device_addr'], 16), int(r['size']), int(r['actual_used_memory']),
                                int(r['start_time_stamp']), None if end == NEVER else end])
        return out

    def done(self):
        self.runtime.synchronize()
        self.data['stats'] = self.stats()
        if self.tracking:
            blocks = self.data['blocks'] = self.tracked()
            self.data['stamp'] = [b[3] for b in blocks if b[1] == MARK + 512][0]
        self.data['offset'] = clock_offset()
        if os.environ.get('REAL_OUT'):
            with open(os.environ['REAL_OUT'], 'w', encoding='utf-8') as f:
                json.dump(self.data, f)
        handshake('DONE')
