# SPDX-License-Identifier: Apache-2.0
"""Libraries and callers that do what none is expected to: each does harm to its own rows alone."""
import json
import os
import platform
import signal
import struct
import subprocess
import sys
import unittest

import compare as C
from harness import LiveTest, Process

JOB = '''
import ctypes, sys
lib = [ctypes.CDLL(p) for p in sys.argv[2:]]
print('READY', flush=True)
sys.stdin.readline()
exec(sys.argv[1])
print('DONE', flush=True)
sys.stdin.readline()
'''
C10 = 'void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, long n, long a, long r, int d)'
KEPT = ('_ZN9mindspore6device22AbstractDynamicMemPool20DoFreePartTensorMemsERKSt6vectorIPvSaIS3_EES7_'
        'RKS2_ImSaImEE')


class OddTest(LiveTest):
    def library(self, name, source, *flags):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + '.c', 'w') as f:
            f.write('volatile int sink;\n' + source)
        subprocess.run([os.environ.get('CC', 'cc'), '-O1', '-shared', '-fPIC', '-o', path, path + '.c', *flags],
                       check=True)
        return path

    def run_job(self, code, libs, *args, env=None, held=False, rec_env=None):
        """What memtap records of a job that does `code` with `lib`, its libraries."""
        job = Process(self, self.number('job'), [sys.executable, '-c', JOB, code, *libs], env)
        job.until('READY')
        rec = self.record('-p', job.pid, *args, env=rec_env)
        if held:
            rec.signal(signal.SIGSTOP)
        job.line()
        job.until('DONE')
        if held:
            rec.signal(signal.SIGCONT)
        result = rec.stop()
        job.line()
        self.assertEqual(job.wait(), 0, job.stderr())
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertEqual(C.accounting(result.rows, result.summary, lossless=False), [], result.stderr)
        return result

    def lost(self, result):
        """Losses that are counted: a busy machine may add what nobody can count (late library)."""
        return [r for r in result.rows if r['type'] == 'LOST' and r['attr']['count'] != 'N/A']


def names_without_end(path, symbols, length):
    """An ELF file whose symbols all have one name: small, and long to read."""
    dyn, table = 192, 320
    text = table + symbols * 24
    code = (text + length + 17) & ~15
    size = code + symbols + 64
    head = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack(
        '<HHIQQQIHHHHHH', 3, 62 if platform.machine() == 'x86_64' else 183, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    loads = struct.pack('<IIQQQQQQ', 1, 5, 0, 0, 0, size, size, 4096) + struct.pack(
        '<IIQQQQQQ', 2, 6, dyn, dyn, dyn, 80, 80, 8)
    tags = ((4, 304), (6, table), (5, text), (10, length + 1), (0, 0))
    out = bytearray(size)
    out[:len(head + loads)] = head + loads
    out[dyn:dyn + 80] = b''.join(struct.pack('<QQ', *t) for t in tags)
    struct.pack_into('<II', out, 304, 1, symbols)
    for i in range(1, symbols):
        struct.pack_into('<IBBHQQ', out, table + i * 24, 1, 0x12, 0, 1, code + i, 1)
    out[text + 1:text + length] = b'a' * (length - 1)
    with open(path, 'wb') as f:
        f.write(out)


class OddFiles(OddTest):
    def test_file_without_end(self):
        """A small file that takes long to read, in a place of libraries: said, left out, others are seen."""
        names_without_end(self.path('libascend_hal.so'), 60000, 4000)
        done = self.run_memtap('probes', self.path('libascend_hal.so'), limit=20)
        self.assertIn('more work', done.stdout)
        lib = self.library('libms_tools_ext.so', 'void mstxMarkA(const char *text, void *s) { sink++; }')
        code = f"""
import mmap, time
with open({self.path('libascend_hal.so')!r}, 'rb') as f:
    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
for i in range(20):
    lib[0].mstxMarkA(b'mark', None)
    time.sleep(0.1)
"""
        result = self.run_job(code, [lib])
        self.assertEqual(len(result.of('MSTX')), 20, result.stderr)
        self.assertIn('more work', result.stderr)


class Losses(OddTest):
    def test_device_of_reports(self):
        """What torch_npu's reports lose stands on the device as the process counts it."""
        lib = self.library('libc10.so', C10 + ' { sink++; }')
        code = f'f = lib[0].{C10.split()[1].split("(")[0]}\nfor i in range(3000): f(None, 512, 512, 1 << 30, 20)'
        result = self.run_job(code, [lib], '--ring-size', '4K', held=True, env={'ASCEND_RT_VISIBLE_DEVICES': '1,0'})
        rows = self.lost(result)
        self.assertTrue(rows, result.stderr)
        self.assertEqual({r['device'] for r in rows}, {'0'})
        self.assertEqual({(l['device'], l['physical']) for l in result.summary['losses']}, {(0, False)})
        self.assertNotIn('of the driver', result.stderr)

    def test_device_of_the_driver(self):
        """What driver calls lose is told with the driver's number in the summary, and says so."""
        lib = self.library('libascend_hal.so', 'int halMemAlloc(void **p, unsigned long n, unsigned long f)'
                           ' { *p = (void *)0x1000; return 0; }')
        code = ('p = ctypes.c_uint64()\nfor i in range(3000): '
                'lib[0].halMemAlloc(ctypes.byref(p), ctypes.c_uint64(4096), ctypes.c_uint64(1))')
        result = self.run_job(code, [lib], '--ring-size', '4K', held=True, env={'ASCEND_RT_VISIBLE_DEVICES': '1,0'})
        self.assertEqual({r['device'] for r in self.lost(result)}, {'0'}, result.stderr)
        self.assertEqual({(l['device'], l['physical']) for l in result.summary['losses']}, {(1, True)})
        self.assertIn('device npu 1 of the driver', result.stderr)

    def test_devices_that_are_none(self):
        """Device numbers that the target makes up do not fill the table of losses: others keep their rows."""
        hal = self.library('libascend_hal.so', 'int halMemCreate(void **p, unsigned long n, int *d, int f)'
                           ' { return 0; }')
        acl = self.library('libascendcl.so', 'int aclrtStreamGetId(void *s, int *id) { return 0; }')
        code = ('for i in range(3000):\n p = (ctypes.c_uint32 * 8)(1, 2000 + i)\n '
                'lib[0].halMemCreate(ctypes.c_void_p(8), ctypes.c_uint64(4096), p, 0)\n'
                'for i in range(50): lib[1].aclrtStreamGetId(None, ctypes.c_void_p(8))')
        result = self.run_job(code, [hal, acl])
        told = {}
        for row in self.lost(result):
            key = row['attr']['probe'], row['attr']['reason']
            told[key] = told.get(key, 0) + int(row['attr']['count'])
        self.assertEqual(told, {('halMemCreate', 'memory unreadable'): 3000,
                                ('aclrtStreamGetId', 'memory unreadable'): 50}, result.stderr)


class Devices(OddTest):
    def test_refusal_without_a_device(self):
        """An out-of-memory of halMemCreate whose properties cannot be read is of no device."""
        hal = self.library('libascend_hal.so', 'int halMemCreate(void **p, unsigned long n, int *d, int f)'
                           ' { sink++; return 6; }')
        acl = self.library('libascendcl.so', '''
int halMemCreate(void **p, unsigned long n, int *d, int f);
int aclrtMallocPhysical(void **p, unsigned long n, int *d, unsigned long f)
{
        int r = halMemCreate(p, n, d, 0);
        sink++;
        return r ? 207001 : 0;
}''', hal)
        call = 'lib[1].aclrtMallocPhysical(None, ctypes.c_uint64(4096), %s, ctypes.c_uint64(0))'
        code = call % 'ctypes.c_void_p(8)' + '\n' + call % '(ctypes.c_uint32 * 8)(1, 3)'
        result = self.run_job(code, [hal, acl])
        rows = [r for r in result.rows if r['type'] == 'OOM_TRIGGER' or r['event'] == 'OOM']
        self.assertEqual([r['device'] for r in rows], ['N/A', '3'], (result.rows, result.stderr))

    def test_parts_that_are_none(self):
        """A result of MindSpore's pool that is no vector: nothing is kept of it, and that is told."""
        lib = self.library('libmindspore_memory_pool.so', f'''
struct vec {{ void **b, **e, **c; }};
struct vec {KEPT}(void *pool, void *a, void *k, void *s)
{{
        static void *buf[8] = {{ 0, 0, 0, 0, (void *)512, (void *)4096 }}, *list[2] = {{ buf, buf }};
        struct vec v = {{ list + 1, list, list + 2 }};
        sink++;
        return v;
}}''')
        code = (f'class V(ctypes.Structure): _fields_ = [("v", ctypes.c_uint64 * 3)]\nf = lib[0].{KEPT}\n'
                'f.restype = V\nf(ctypes.create_string_buffer(64), None, None, None)')
        result = self.run_job(code, [lib])
        self.assertEqual(result.summary['accounting']['lost'], 1, result.stderr)
        (row,) = self.lost(result)
        self.assertEqual(row['attr']['reason'], 'memory unreadable')
        self.assertEqual([r for r in result.rows if r['event'] in ('MALLOC', 'FREE')], [])


@unittest.skipUnless(platform.machine() == 'x86_64', 'its functions are x86-64 code')
class Code(OddTest):
    """Functions that begin as no compiler lets them begin."""

    def function(self, name, code, size=''):
        return f'__asm__(".globl {name}\\n.type {name},@function\\n{name}:\\n.cfi_startproc\\n{code}\\n' \
               f'.cfi_endproc\\n.size {name},.-{name}\\n");\n'

    def probes(self, *args):
        done = self.run_memtap('probes', '--json', *args)
        return {p['symbol']: p for f in json.loads(done.stdout) for p in f['probes']}

    def test_refused_instruction(self):
        """A function that cannot be probed is told so, with the cause; all others of its program are seen."""
        lib = self.library('libascendcl.so', 'int aclInit(const char *p) { sink++; return 0; }\n'
                           'int aclrtSetDevice(int d) { sink += d; return 0; }\n' +
                           # its first instruction changes what the result would be told with
                           self.function('aclFinalize', '1: lock xaddq %rdi,-8(%rsp)\\ntest %eax,%eax\\njs 1b\\n'
                                         'xor %eax,%eax\\nret') +
                           self.function('aclrtStreamGetId', 'lock addl $0,(%rsp)\\nxor %eax,%eax\\nret'))
        for args in ((lib,), ('--try', lib)):
            seen = self.probes(*args)
            self.assertEqual(seen['aclFinalize']['state'], 'failed', (args, seen))
            self.assertIn('lock xadd', seen['aclFinalize']['why'])
            for name in ('aclInit', 'aclrtSetDevice', 'aclrtStreamGetId'):
                self.assertEqual(seen[name]['state'], 'attached' if len(args) > 1 else 'found', (name, seen))
        result = self.run_job('l = lib[0]\nl.aclInit(None)\nl.aclrtSetDevice(3)\nl.aclFinalize()', [lib])
        self.assertEqual(result.summary['accounting']['seen'], 2, result.stderr)
        self.assertEqual([r['type'] for r in result.rows if r['type'].startswith('ACL')], ['ACL_INIT'])

    def test_large_frame(self):
        """A frame that has no room in the probe's 16 bits: the calls are seen all the same."""
        name = '_ZN9mindspore6device22AbstractDynamicMemPool11AllocMemBufEmbj'
        for size in (0x7000, 0x9000):
            with self.subTest(size=size):
                lib = self.library(f'{size}/libmindspore_memory_pool.so', self.function(
                    name, f'sub ${size},%rsp\\n.cfi_adjust_cfa_offset {size}\\nnop\\nxor %eax,%eax\\n'
                    f'add ${size},%rsp\\n.cfi_adjust_cfa_offset -{size}\\nret'))
                code = (f'f = lib[0].{name}\np = ctypes.create_string_buffer(64)\n'
                        'for i in range(100): f(p, ctypes.c_uint64(512), 0, 0)')
                result = self.run_job(code, [lib])
                self.assertEqual(result.summary['accounting']['seen'], 100, result.stderr)
                self.assertEqual(result.summary['accounting']['begun_before'], 0)
