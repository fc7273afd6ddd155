# SPDX-License-Identifier: Apache-2.0
"""What `memtap check` and `memtap probes` said on a test machine, against what is known otherwise:

the kernels' documentation, the machine's own files, the symbol tables of the libraries (by readelf),
and what the kernel did with each probed instruction (emulated.c)."""
import json
import os
import re
import subprocess

# What a mainline release has (tracers.md 3.1), as `memtap check` names it. Debian adds nothing.
YES, NO = 'yes', 'no (this kernel has it not)'
OFF, DENIED = 'switched off (MEMTAP_DISABLE)', 'not permitted: Operation not permitted'
OPTIONAL = ('attach cookies', 'sleepable uprobe programs', 'uprobe_multi links', 'uprobe sessions',
            'stacks walked by loops')
FEATURES = {
    '5.10': dict(zip(OPTIONAL, (NO, NO, NO, NO, NO))),
    '6.1': dict(zip(OPTIONAL, (YES, YES, NO, NO, YES))),
    '6.12': dict(zip(OPTIONAL, (YES, YES, YES, NO, YES))),
}
BASIC = {'kernel type information (BTF)': YES, 'BPF ring buffer': YES, 'perf uprobes': YES}
# More than the common set is emulated from 6.13 (arm64) and 6.18 (x86-64) on.
EMULATED = {'more emulated instructions': 'none'}
RIGHTS = ('CAP_BPF', 'CAP_PERFMON', 'CAP_SYS_ADMIN', 'CAP_SYS_PTRACE', 'CAP_CHECKPOINT_RESTORE',
          'CAP_SYS_RESOURCE')
PLAIN = 'perf uprobes, one program a site'
MECHANISM = {'5.10': PLAIN, '6.1': 'perf uprobes with cookies', '6.12': 'uprobe_multi'}
CAN, CANNOT = 'memtap record can work here.', 'memtap record cannot work here.'
MACHINE = {'amd64': 'x86_64', 'arm64': 'aarch64'}

# libtorch_npu.so of tests/sim by variant: generation, layout of the record, calls of the report function,
# are malloc and free of the allocator to be found?
DERIVED = {
    'a': ('report', 'A', 3, True), 'b': ('report', 'B', 6, True),
    'b_rc2': ('report', 'B', 6, False), 'c': ('report', 'C', 8, True),
    'c_symtab': ('report', 'C', 8, True), 'stripped': ('report', 'C', 8, True),
    'c10': ('c10', None, None, False), 'none': ('none', None, None, True),
    'opaque': ('none', None, None, False), 'opaque_c': ('report', 'C', 8, False),
}
ONLY_NATIVE = {'b_rc2', 'c10', 'opaque', 'opaque_c'}  # what a cross build leaves out (tests/sim/meson.build)
HIDDEN = {'report_off': '_ZN9torch_npu8profiler29reportMemoryDataToNpuProfilerE',
          'malloc_vaddr': '_ZN7c10_npu19NPUCachingAllocator22DeviceCachingAllocator6mallocE',
          'free_vaddr': '_ZN7c10_npu19NPUCachingAllocator22DeviceCachingAllocator4freeE'}

# How returns are seen, of one function a kind.
RETURNS = {'main': {'halMemAlloc': 'uretprobe', 'aclrtSetDevice': 'uretprobe', 'rtKernelLaunch': 'uretprobe',
                    'mstxMarkA': '-', 'reportMemoryDataToNpuProfiler': '-'}}
RETURNS['ranks'] = RETURNS['main']
# Functions for marks of the modules mstx and torch_npu._C of tests/sim.
METHODS = 11
RETURNS['python'] = RETURNS['main']


class Words:
    """Problems are gathered in .bad."""

    def __init__(self, release, arch, out, root):
        self.release, self.arch, self.out, self.root = release, arch, out, root
        self.bad = []
        self.facts = dict(line.split('=', 1) for line in self.text('facts').splitlines())

    def text(self, name):
        with open(os.path.join(self.out, name), errors='replace') as f:
            return f.read()

    def json(self, name):
        return json.loads(self.text(name))

    def equal(self, what, got, want):
        if got != want:
            self.bad.append(f'{what}: {got!r}, expected {want!r}')

    # ---- check ----

    def check(self, name, want, verdict, status):
        """The text and the JSON of one call of check."""
        got = self.json(name + '.json')
        self.equal(f'{name}: exit status', self.text(name + '.status').strip(), status)
        for key, value in want.items():
            self.equal(f'{name}: {key}', got.get(key), value)
        self.equal(f'{name}: ok', got.pop('ok'), verdict == CAN)
        lines = self.text(name + '.txt').splitlines()
        self.equal(f'{name}: last line', lines[-1], verdict)
        told = {}
        for line in lines:
            if line.startswith('  '):
                told[line[2:36].rstrip()] = line[37:].split('  -> ')[0]
        self.equal(f'{name}: text', told, got)

    def checks(self):
        machine = {'kernel': self.facts['release'], 'architecture': MACHINE[self.arch],
                   'page size': '4096', 'processors': self.facts['processors'],
                   'lockdown': self.facts['lockdown'],
                   'kernel.perf_event_paranoid': self.facts['paranoid'],
                   'kernel.unprivileged_bpf_disabled': self.facts['unprivileged'],
                   'known defects of this release': 'none', 'known defects beside others': 'none',
                   'processes with NPU libraries': '0', **EMULATED}
        self.equal('release of the kernel', self.facts['release'].startswith(self.release + '.'), True)
        rights = dict.fromkeys(RIGHTS, YES)
        loads = {'programs': 'load'}
        self.check('check', {**machine, **rights, **BASIC, **FEATURES[self.release], **loads}, CAN, '0')
        self.check('off', {**machine, **rights, **BASIC, **dict.fromkeys(OPTIONAL, OFF), **loads}, CAN, '0')
        self.check('nobody', {**machine, **dict.fromkeys(RIGHTS, 'no'), **BASIC, **dict.fromkeys(OPTIONAL, DENIED),
                              'BPF ring buffer': DENIED, 'perf uprobes': 'not permitted: Permission denied',
                              'more emulated instructions': 'not known: takes a probe of memtap itself'}, CANNOT, '1')
        self.equal('processes with NPU libraries while a job runs',
                   self.json('main.check.json')['processes with NPU libraries'], '1')

    # ---- probes ----

    def readelf(self, *args):
        return subprocess.run(['readelf', '-W', *args], capture_output=True, text=True, check=True).stdout

    def library(self, path):
        """Of a path in the machine: defined functions by name, and offsets of addresses in the file."""
        file = self.root + path
        symbols = {}
        for line in self.readelf('--dyn-syms', file).splitlines():
            f = line.split()
            if len(f) == 8 and f[3] == 'FUNC' and f[6] != 'UND':
                symbols[f[7].split('@')[0]] = int(f[1], 16), int(f[2])
        loads = [[int(x, 16) for x in line.split()[1:5]] for line in self.readelf('-l', file).splitlines()
                 if line.split()[:1] == ['LOAD']]

        def offset(vaddr):
            return next(vaddr - v + o for o, v, _, size in loads if v <= vaddr < v + size)
        return symbols, offset

    def probe(self, p, path, symbols, offset, verdicts):
        name, what = p['symbol'], f'{os.path.basename(path)} {p["symbol"]}'
        if p['found_by'] == 'symbol':
            self.equal(f'{what} is exported', p['state'] != 'missing', name in symbols)
        if p['state'] == 'missing':
            return
        at = int(p['offset'], 16)
        if p['found_by'] == 'symbol' and name in symbols:
            vaddr, size = symbols[name]
            self.equal(f'{what} at {at:#x} lies in the function', 0 <= at - offset(vaddr) < size, True)
        self.equal(f'{what} at {at:#x}, {p["instruction"]!r}: cost', p['cost'], verdicts.get((path, at)))

    def probes(self, run, state, summary):
        verdicts = {}
        for line in self.text(run + '.emulated').splitlines():
            path, at, said = line.split()
            verdicts[path, int(at, 16)] = said
        files, count, returns = self.json(run + '.probes.json'), {}, {}
        for f in files:
            self.equal(f'{run}: mechanism', f['mechanism'], MECHANISM[self.release])
            library = self.library(f['path'])
            for p in f['probes']:
                self.probe(p, f['path'], *library, verdicts)
                if p['state'] != 'missing':
                    count[p['state']] = count.get(p['state'], 0) + 1
                    returns[p['symbol'].split('::')[-1]] = p['return_by']
        self.equal(f'{run}: probes', count, {state: summary['probes']})
        for symbol, by in RETURNS[run].items():
            self.equal(f'{run}: return of {symbol}', returns.get(symbol), by)
        if run == 'python':
            tables = [p for f in files for p in f['probes'] if p['found_by'] == 'method table' and p['state'] == state]
            # At least: a module stands there in more than one copy.
            self.equal('python: all methods of the two modules found', len(tables) >= METHODS, True)
        self.probes_text(run, files)
        return len(verdicts), sum(v == 'emulated' for v in verdicts.values())

    def probes_text(self, run, files):
        """The text says the same as the JSON; states apart, which --try changes."""
        told, path = set(), None
        text = self.text(run + '.probes.txt')
        for line in text.splitlines():
            f = line.split()
            if ' wanted functions found' in line:
                path = line.split(': ')[0]
            elif line.startswith('  found'):
                m = re.fullmatch(r'  found    0x(\w+)  (\S+) +(.{14}) (.{9}) (.{12}) (\S+)', line)
                told.add((path, int(f[1], 16), m[2], m[3].strip(), m[4].strip(), m[5].strip(), m[6]) if m else line)
        want = {(f['path'], int(p['offset'], 16), p['cost'], p['instruction'], p['return_by'], p['found_by'],
                 p['symbol']) for f in files for p in f['probes'] if p['state'] != 'missing'}
        if told != want:
            self.bad.append(f'{run}: text and JSON of probes differ: {sorted(told ^ want, key=str)[:2]}')
        self.equal(f'{run}: last line of probes', text.splitlines()[-1],
                   f'Mechanism here: {MECHANISM[self.release]}')

    # ---- derivation ----

    def derived(self):
        seen = {}
        for line in self.text('derived').splitlines():
            d = json.loads(line)
            seen[d['file'].split('/')[2].removeprefix('torch_npu_')] = d
        wanted = {k: v for k, v in DERIVED.items() if self.arch == 'amd64' or k not in ONLY_NATIVE or k in seen}
        self.equal('libraries derived', set(seen), set(wanted))
        for name, (generation, layout, calls, functions) in wanted.items():
            d = seen.get(name, {})
            got = tuple(d.get(k) for k in ('arch', 'generation', 'layout', 'call_sites'))
            self.equal(f'derivation of {name}', got, (MACHINE[self.arch], generation, layout, calls))
            self.equal(f'derivation of {name}: functions', bool(d.get('malloc_vaddr') and d.get('free_vaddr')),
                       functions)
            self.equal(f'derivation of {name}: by symbols', d.get('from_symtab'),
                       'yes' if name == 'c_symtab' else 'no')
            if functions:
                self.equal(f'derivation of {name}: Block', (d.get('block_ptr'), d.get('block_size')), (72, 48))
        path = '/sim/torch_npu_c_symtab/lib/libtorch_npu.so'
        symtab = self.readelf('-s', self.root + path)
        offset = self.library(path)[1]
        for key, symbol in HIDDEN.items():
            m = re.search(rf'([0-9a-f]{{16}}) +\d+ FUNC .* {symbol}[^.\s]*$', symtab, re.M)
            vaddr = int(m[1], 16)
            want = hex(offset(vaddr) if key == 'report_off' else vaddr)
            for name in ('stripped', 'c_symtab'):
                self.equal(f'derivation of {name}: {key}', seen.get(name, {}).get(key), want)
