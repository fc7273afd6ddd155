# SPDX-License-Identifier: Apache-2.0
"""A page fault of one traced thread that takes long: nobody else's rows wait for it, and memtap spends nothing."""
import os
import struct
import sys
import time

import readers
from harness import LiveTest, Process, sim

# A range that userfaultfd serves when it is told to: the fault of a thread in it lasts so long.
JOB = '''
import ctypes, fcntl, mmap, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
U64 = ctypes.c_uint64
SYS_USERFAULTFD = {'x86_64': 323, 'aarch64': 282}[__import__('os').uname().machine]
uffd = libc.syscall(SYS_USERFAULTFD, 0o2000000)
if uffd < 0:
    print('SKIP no userfaultfd: errno', ctypes.get_errno(), flush=True)
    sys.exit(0)
fcntl.ioctl(uffd, 0xc018aa3f, bytearray(struct.pack('QQQ', 0xaa, 0, 0)))  # UFFDIO_API
size = mmap.PAGESIZE
page = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
addr = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(uffd, 0xc020aa00, bytearray(struct.pack('QQQQ', addr, size, 1, 0)))  # UFFDIO_REGISTER
lib, what, content = ctypes.CDLL(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[5])
if what.isdigit():  # a file offset: the function has no name for the linker
    for line in open('/proc/self/maps'):
        f = line.split()
        lo, hi = (int(x, 16) for x in f[0].split('-'))
        if line.rstrip().endswith(sys.argv[1]) and 0 <= int(what) - int(f[2], 16) < hi - lo and 'x' in f[1]:
            call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lo + int(what) - int(f[2], 16))
else:
    call = getattr(lib, what)
def other(n):
    marks = ctypes.CDLL(sys.argv[3])
    for i in range(n):
        marks.mstxMarkA(b'after', None)
        if i % 20 == 0:
            time.sleep(0.004)
print('READY', flush=True)
sys.stdin.readline()
blocked = threading.Thread(target=lambda: call(*([ctypes.c_void_p(addr)] * 2)))
blocked.start()
time.sleep(0.3)
other(int(sys.argv[4]))
print('MARKED', flush=True)
sys.stdin.readline()
text = ctypes.create_string_buffer(content, size)
fcntl.ioctl(uffd, 0xc028aa03, bytearray(struct.pack('QQQQQ', addr, ctypes.addressof(text), size, 0, 0)))
blocked.join()
print('SERVED', flush=True)
sys.stdin.readline()
'''
MARKS = 2000  # more than the ring holds


class Faults(LiveTest):
    def blocked(self, library, function, content):
        marks = sim('cann/lib64/libms_tools_ext.so')
        job = Process(self, 'job', [sys.executable, '-c', JOB, library, function, marks, MARKS, content.hex()])
        line = job.until('')
        if line.startswith('SKIP'):
            self.skipTest(line[5:])
        rec = self.record('-p', job.pid, '--ring-size', '256K')
        job.line()
        job.until('MARKED')
        time.sleep(2)  # the window, and then some for memtap to waste
        with open(f'/proc/{rec.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        early = len([1 for l in self.dump_lines(rec) if 'after' in l])
        job.line()
        job.until('SERVED')
        result = rec.stop()
        job.line()
        job.wait()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual(result.summary['accounting']['lost'], 0, result.stderr)
        self.assertEqual(len([r for r in result.rows if r['name'] == 'after']), MARKS)
        self.assertEqual(early, MARKS, 'the rows waited for the fault of another thread')
        spent = (int(fields[11]) + int(fields[12])) / 100
        self.assertLess(spent, 1.5, 'CPU seconds while nothing happened')
        return result

    def dump_lines(self, rec):
        with open(readers.dump_of(rec.dir, 'csv')) as f:
            return f.readlines()

    def test_text(self):
        """The text of a mark is not there yet."""
        result = self.blocked(sim('cann/lib64/libms_tools_ext.so'), 'mstxMarkA', b'late text')
        self.assertEqual(len([r for r in result.rows if r['name'] == 'late text']), 1)

    def test_struct(self):
        """What torch_npu's allocator reports is not there yet."""
        library = os.path.realpath(sim('torch_npu_c_symtab/lib/libtorch_npu.so'))
        told = dict(l.split(None, 1) for l in self.run_memtap('probes', library, '--derive').stdout.splitlines()
                    if ' ' in l)
        # PrivateUse1, device 0, caching, malloc; then address, size, three sums, stream
        usage = struct.pack('<8BQqqqqQ', 20, 0, 0, 0, 0, 0, 0, 0, 0x100000, 512, 512, 1 << 21, 512, 1)
        result = self.blocked(library, str(int(told['report_off'], 0)), usage)
        self.assertEqual([r['attr']['size'] for r in result.rows if r['type'] == 'PTA'], ['512'])
