#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the hidden functions of a libtorch_npu.so with objdump only, to see that the hermetic
libraries lead a tracer to the right places. Usage: check_derivation.py LIB [UNSTRIPPED_LIB] (x86-64)."""
import re
import subprocess
import sys


def run(*cmd):
    return subprocess.run(cmd, capture_output=True, text=True, check=True).stdout


class Lib:
    def __init__(self, path):
        self.path = path
        self.fdes = sorted((int(a, 16), int(b, 16)) for a, b in re.findall(
            r'FDE cie=\S+ pc=([0-9a-f]+)\.\.([0-9a-f]+)', run('readelf', '--debug-dump=frames', path)))
        self.insn = []
        for line in run('objdump', '-d', '--no-show-raw-insn', path).splitlines():
            m = re.match(r'\s*([0-9a-f]+):\s+(\S+)\s*(.*)', line)
            if m:
                self.insn.append((int(m[1], 16), m[2], m[3]))
        self.plt = {int(m[1], 16) for m in re.finditer(
            r'^([0-9a-f]+) <\S+@plt>:', run('objdump', '-d', '-j', '.plt', '-j', '.plt.got',
                                            '-j', '.plt.sec', path), re.M)}
        self.rel = run('readelf', '-rW', path)
        self.dyn = {}
        for line in run('readelf', '-W', '--dyn-syms', path).splitlines():
            p = line.split()
            if len(p) >= 8 and p[0][:-1].isdigit() and p[6] != 'UND':
                self.dyn[p[7].split('@')[0]] = int(p[1], 16)

    def fde(self, addr):
        for lo, hi in self.fdes:
            if lo <= addr < hi:
                return lo, hi
        return None

    def body(self, addr):
        lo, hi = self.fde(addr)
        return [i for i in self.insn if lo <= i[0] < hi]

    def calls(self, addr):
        for at, op, arg in self.body(addr):
            m = re.match(r'([0-9a-f]+) <', arg)
            if m and op in ('call', 'jmp'):
                yield at, op, int(m[1], 16)
            elif op == 'ret':
                yield at, 'ret', 0


def derive(path):
    lib = Lib(path)
    out = {}
    m = re.search(r'^([0-9a-f]+)\s.*GLOB_DAT.*_ZTVN9torch_npu7toolkit8profiler10MemoryDataE',
                  lib.rel, re.M)
    addends = {int(x, 16) for x in re.findall(r'RELATIVE\s+([0-9a-f]+)', lib.rel)}
    addends |= {int(x, 16) for x in re.findall(r'R_X86_64_64\s+([0-9a-f]+)', lib.rel)}
    report = None
    if m:
        slot = '# %x' % int(m[1], 16)
        cand = {lib.fde(at)[0] for at, op, arg in lib.insn if op == 'mov' and slot + ' ' in arg + ' '}
        cand -= addends
        sites = {c: sum(1 for _, op, arg in lib.insn if op == 'call' and arg.startswith('%x <' % c))
                 for c in cand}
        good = [c for c in cand if sites[c] >= 3]
        assert len(good) <= 1, sites
        if good:
            report = good[0]
            out['report'], out['call_sites'] = report, sites[report]
    if report:
        loads = [a for _, op, a in lib.body(report)]
        # The argument register is saved: any of the callee-saved ones.
        wide = [(op, a) for _, op, a in lib.body(report)]
        byte4 = any(re.match(r'mov|movzbl|movzx|movsbl', op) and re.match(r'0x4\(%r(?!sp|bp)\w+\)', a)
                    for op, a in wide)
        dword0 = any(op in ('mov',) and re.match(r'\(%r\w+\),%e', a) for op, a in wide)
        word0 = any(op.startswith('movzwl') and re.match(r'\(%r\w+\)', a) for op, a in wide)
        out['layout'] = 'C' if byte4 else 'A' if word0 else 'B' if dword0 else '?'
        out['first'] = ' '.join(lib.body(report)[0][1:])
        out['rets'] = sum(1 for _, op, _ in lib.body(report) if op == 'ret')
        del loads
    mb = lib.dyn['_ZN7c10_npu19NPUCachingAllocator11MallocBlockEmPvi']
    last = None
    for _, op, to in lib.calls(mb):
        if op == 'ret':
            break
        if op == 'call' and to not in lib.plt and to != report:
            last = to
    out['malloc'] = last
    fb = lib.dyn['_ZN7c10_npu19NPUCachingAllocator9FreeBlockEPv']
    lo, hi = lib.fde(fb)
    starts = {f[0] for f in lib.fdes}
    last = jump = None
    for _, op, to in lib.calls(fb):
        if op == 'ret':
            break
        if op == 'jmp' and not lo <= to < hi and to in starts and to not in lib.plt:
            jump = to
        if op == 'call' and to not in lib.plt and to != report:
            last = to
    out['free'] = jump or last
    for key, sym in (('block_ptr', '11GetBlockPtrEPKv'), ('block_size', '12GetBlockSizeEPKv')):
        for _, op, a in lib.body(lib.dyn['_ZN7c10_npu19NPUCachingAllocator' + sym]):
            d = re.match(r'0x([0-9a-f]+)\(%rdi\),%rax', a)
            if op == 'mov' and d:
                out[key] = int(d[1], 16)
                break
    return lib, out


def main():
    lib, out = derive(sys.argv[1])
    for k, v in out.items():
        print(k, hex(v) if isinstance(v, int) and v > 4096 else v)
    for k in ('malloc', 'free'):
        assert lib.fde(out[k])[0] == out[k], k
    text = subprocess.run(['strings', '-a', sys.argv[1]], capture_output=True, text=True).stdout
    assert 'N7c10_npu19NPUCachingAllocator19NpuCachingAllocatorE' in text
    if len(sys.argv) > 2:
        names = {}
        for line in run('nm', sys.argv[2]).splitlines():
            p = line.split()
            if len(p) == 3:
                names.setdefault(p[2], int(p[0], 16))
        want = {'report': '_ZN9torch_npu8profiler29reportMemoryDataToNpuProfilerERKNS0_11MemoryUsageE',
                'malloc': '_ZN7c10_npu19NPUCachingAllocator22DeviceCachingAllocator6mallocEimPvh',
                'free': '_ZN7c10_npu19NPUCachingAllocator22DeviceCachingAllocator4freeEPNS0_5BlockEh'}
        for k, n in want.items():
            ok = names.get(n) == out[k]
            print(k, 'right' if ok else 'WRONG: %x is %s' % (out[k], hex(names.get(n, 0))))
            if not ok:
                sys.exit(1)


if __name__ == '__main__':
    main()
