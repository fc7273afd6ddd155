# SPDX-License-Identifier: Apache-2.0
"""Probe sites that only some kernels make cheap: what calibration finds, and that they work."""
import json
import os
import platform
import subprocess

import compare as C
from basic import BasicTest
from harness import Process

# A marker function that begins with the instruction in question; its argument is gone behind it.
LIBRARY = r'''
__asm__(".text\n.globl mstxMarkA\n.type mstxMarkA, %function\nmstxMarkA:\n"
        ".cfi_startproc\n" INSN "\n" GONE "\nret\n.cfi_endproc\n.size mstxMarkA, .-mstxMarkA\n");
'''
PROGRAM = r'''
#include <stdio.h>
#include <unistd.h>
int mstxMarkA(const char *text, void *stream);
int main(void)
{
        char text[32];
        printf("READY %d\n", (int)getpid());
        fflush(stdout);
        getchar();
        for (int i = 0; i < 200; i++) {
                snprintf(text, sizeof(text), "mark %d", i);
                mstxMarkA(text, 0);
        }
        puts("DONE");
        fflush(stdout);
        getchar();
        return 0;
}
'''
X86 = platform.machine() == 'x86_64'
GONE = 'xorl %edi, %edi; xorl %eax, %eax' if X86 else 'mov x0, #0'
CASES = {'multi-byte nop': 'nopl 0(%rax)', 'five-byte nop': 'nopl 0(%rax,%rax,1)',
         'endbr64': 'endbr64'} if X86 else {'nop': 'nop', 'stp x29, x30': 'stp x29, x30, [sp, #-16]!; '
                                            'ldp x29, x30, [sp], #16'}


def release():
    return tuple(int(n) for n in platform.release().split('-')[0].split('.')[:2])


class Sites(BasicTest):
    def build(self, insn):
        with open(self.path('lib.c'), 'w') as f:
            f.write(LIBRARY)
        with open(self.path('main.c'), 'w') as f:
            f.write(PROGRAM)
        lib, exe = self.path('libms_tools_ext.so'), self.path('marker')
        cc = os.environ.get('CC', 'cc')
        subprocess.run([cc, '-shared', '-fPIC', f'-DINSN="{insn}"', f'-DGONE="{GONE}"', '-o', lib,
                        self.path('lib.c')], check=True)
        subprocess.run([cc, '-o', exe, self.path('main.c'), lib, f'-Wl,-rpath,{self.dir}'], check=True)
        return exe, lib

    def check(self, env=None):
        done = self.run_memtap('check', '--json', env=env)
        return json.loads(done.stdout)['more emulated instructions']

    def site(self, lib, env=None):
        done = self.run_memtap('probes', '--json', lib, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        probes = [p for f in json.loads(done.stdout) for p in f['probes']]
        return next(p for p in probes if p['symbol'] == 'mstxMarkA')

    def test_check(self):
        """The words of `check` agree with what the releases are known to do."""
        words = self.check()
        if X86:  # 6.18 accepts all forms of nop, before only one byte
            self.assertEqual(words, 'multi-byte nop' if release() >= (6, 18) else 'none')
        else:
            self.assertEqual(words, 'nop' if release() >= (6, 13) else 'none')
        self.assertEqual(self.check({'MEMTAP_DISABLE': 'emulation'}), 'none')

    def test_marks(self):
        """Each row is there whether the entry is emulated or stepped, and `probes` says which."""
        words = self.check().split(', ')
        for name, insn in CASES.items():
            exe, lib = self.build(insn)
            for env in ({}, {'MEMTAP_DISABLE': 'emulation'}, {'MEMTAP_DISABLE': 'multi'}):
                with self.subTest(insn=name, env=env):
                    known = name if name != 'five-byte nop' else 'multi-byte nop'
                    cheap = known in words and 'emulation' not in env.values()
                    self.assertEqual(self.site(lib, env)['cost'], 'emulated' if cheap else 'stepped')
                    job = Process(self, self.number('marker'), [exe])
                    job.until('READY')
                    recorder = self.record('-p', job.pid, env=env)
                    job.line()
                    job.until('DONE')
                    result = recorder.stop()
                    job.line()
                    self.assertEqual(job.wait(), 0)
                    self.assertEqual([r['name'] for r in result.of('MSTX')],
                                     [f'mark {i}' for i in range(200)], result.stderr)
                    self.assertEqual(C.accounting(result.rows, result.summary, True), [])
