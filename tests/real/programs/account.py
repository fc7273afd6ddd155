# SPDX-License-Identifier: Apache-2.0
"""What every real program needs: the handshake with the test, and torch_npu's own account of it.

    import account
    A = account.Account()      # imports torch and torch_npu, empties the caches
    A.ready()                  # prints READY <pid>, waits for a line; the history runs from here
    ...
    A.done()                   # writes the account to $REAL_OUT, prints DONE, waits for a line

What a program prints besides must not differ between two runs of it.
"""
import ctypes
import gc
import json
import os
import sys
import time
import warnings

warnings.filterwarnings('ignore')

STATS = {'allocated': 'allocated_bytes.all.current', 'reserved': 'reserved_bytes.all.current',
         'active': 'active_bytes.all.current', 'mallocs': 'allocation.all.allocated',
         'frees': 'allocation.all.freed', 'segment_mallocs': 'segment.all.allocated',
         'segment_frees': 'segment.all.freed', 'retries': 'num_alloc_retries', 'ooms': 'num_ooms'}


def boot():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def clock_offset():
    """Wall clock minus boot time, ns, from the closest of several readings."""
    best = None
    for _ in range(20):
        a = boot()
        r = time.clock_gettime_ns(time.CLOCK_REALTIME)
        b = boot()
        if best is None or b - a < best[0]:
            best = b - a, r - (a + b) // 2
    return best[1]


def handshake(word, wait=True):
    """Prints a word and the pid; with REAL_WAIT set waits for a line."""
    print(word, os.getpid(), flush=True)
    if wait and os.environ.get('REAL_WAIT'):
        sys.stdin.readline()


def save(data):
    if os.environ.get('REAL_OUT'):
        with open(os.environ['REAL_OUT'], 'w', encoding='utf-8') as f:
            json.dump(data, f)


def flush_truth():
    """Writes what the simulated libraries have noted: some releases abort by themselves at their end."""
    try:
        ctypes.CDLL('libsim_truth.so', mode=os.RTLD_NOLOAD | os.RTLD_NOW).sim_truth_flush()
    except OSError:  # it is not loaded
        pass


class Account:
    def __init__(self, devices=1, history=True, early=False, only=None):
        """
        early: the history runs before the first allocation, not from READY on. only: the device that
        this process uses; generation 5.0 has streams on the one that is set when it starts.
        """
        import torch
        import torch_npu
        self.torch, self.npu = torch, torch_npu.npu
        self.devices = devices
        self.with_history = history and hasattr(self.npu.memory, '_record_memory_history')
        self.with_log = history and not self.with_history
        self.data = {'ops': [], 'marks': [], 'clear': [], 'pid': os.getpid()}
        torch.manual_seed(1)
        if only is not None:
            self.npu.set_device(only)
        self.npu.init()
        self.recording = False
        if early:
            self.record()
        for d in range(devices) if only is None else [only]:
            torch.empty(1, device=f'npu:{d}')
        self.npu.synchronize()
        self.npu.empty_cache()

    def ready(self, wait=True, say=True):
        if not self.recording:
            self.record()
        if say:
            handshake('READY', wait)

    def record(self):
        self.recording = True
        self.base = [self.stats(d) for d in range(self.devices)]
        if self.with_history:
            how = {'context': 'all', 'stacks': 'python'} if os.environ.get('REAL_STACKS') else {'context': None}
            self.npu.memory._record_memory_history(max_entries=1 << 22, **how)
        elif self.with_log:  # generation 5.0 has no history, but its allocator logs what it does
            self.data['snapshots'] = [self.npu.memory_snapshot()]
            os.environ['SIM_LOG'] = '0'

    def stats(self, device=0):
        s = self.npu.memory_stats(device)
        return {k: s[v] for k, v in STATS.items()}

    def op(self, kind, address, size, t0, device=0):
        """One operation of the program, its times, and the counters after it."""
        self.data['ops'].append([kind, address, size, t0, boot(), self.stats(device)])

    def traces(self):
        snapshot = self.npu.memory._snapshot()
        if os.environ.get('REAL_STACKS'):
            self.data['frames'] = [[[[f['filename'], f['line'], f['name']] for f in e.get('frames', ())]
                                    for e in snapshot['device_traces'][d]
                                    if e['action'] in ('alloc', 'free_requested')] for d in range(self.devices)]
        return [[[e['action'], e.get('addr', e.get('device_free', 0)), e['size'], e.get('time_us', 0)]
                 for e in snapshot['device_traces'][d]] for d in range(self.devices)]

    def done(self):
        # What lies in cycles would be freed somewhere between the account and the end.
        gc.collect()
        gc.disable()
        self.npu.synchronize()
        self.data['base'] = self.base
        self.data['stats'] = [self.stats(d) for d in range(self.devices)]
        if self.with_history:
            self.data['history'] = self.traces()
        elif self.with_log:
            os.environ['SIM_LOG'] = '9'
            self.data['snapshots'].append(self.npu.memory_snapshot())
        self.data['offset'] = clock_offset()
        save(self.data)
        flush_truth()
        handshake('DONE')
