# SPDX-License-Identifier: Apache-2.0
"""What ELF files import and export, by readelf; and stub libraries for what nobody exports."""
import os
import re
import subprocess


def _run(*cmd):
    return subprocess.run(cmd, capture_output=True, text=True, check=True).stdout


class Elf:
    """Dynamic symbols, relocation kinds and needed libraries of one file."""
    _cache = {}

    def __new__(cls, path):
        path = os.path.realpath(path)
        if path not in cls._cache:
            self = super().__new__(cls)
            self._read(path)
            cls._cache[path] = self
        return cls._cache[path]

    def _read(self, path):
        self.imports, self.exports, self.kinds, self.needed = {}, set(), {}, []
        for line in _run('readelf', '-W', '--dyn-syms', path).splitlines():
            m = re.match(r'\s*\d+:\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s+\S+\s+(\S+)\s+(\S+)', line)
            if not m:
                continue
            _, bind, index, name = m.groups()
            name, _, version = name.partition('@')
            if index == 'UND':
                if name and bind != 'WEAK':
                    self.imports[name] = version.lstrip('@')
            else:
                self.exports.add(name)
        for line in _run('readelf', '-W', '-r', path).splitlines():
            p = line.split()
            if len(p) >= 5 and p[2].startswith('R_'):
                kind = re.sub(r'^R_(X86_64|AARCH64)_', '', p[2])
                self.kinds.setdefault(p[4].partition('@')[0], set()).add(kind)
        self.needed = re.findall(r'\(NEEDED\).*\[(.*)\]', _run('readelf', '-d', path))


def unresolved(consumers, providers):
    """Imports of consumers that no provider exports: {name: version}, and their relocation kinds."""
    have = set()
    for p in providers:
        have |= Elf(p).exports
    need, kinds = {}, {}
    for c in consumers:
        e = Elf(c)
        for name, version in e.imports.items():
            # The interpreter's own symbols come from the executable.
            if name not in have and not name.startswith(('Py', '_Py')):
                need[name] = need.get(name) or version
        for name, k in e.kinds.items():
            kinds.setdefault(name, set()).update(k)
    return need, kinds


def demangle(names):
    names = sorted(names)
    out = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True,
                         check=True).stdout.splitlines()
    return dict(zip(names, out))


def _is_data(name, shown, kinds):
    if name.startswith(('_ZTV', '_ZTI', '_ZTS', '_ZTT', '_ZGV')):
        return True
    k = kinds.get(name, ())
    if any(x.startswith('JUMP_SL') for x in k):
        return False
    return 'COPY' in k or (name.startswith('_Z') and '(' not in shown)


def stub_source(names, kinds):
    """C text: functions that return 0, and objects where a vtable, type or variable is wanted."""
    shown = demangle(names)
    out = ['/* Generated: symbols that a wheel imports and nobody here needs. */\n',
           'static long zero(void) { return 0; }\n',
           'extern char _ZTVN10__cxxabiv117__class_type_infoE[];\n']
    for n in sorted(names):
        if not _is_data(n, shown[n], kinds):
            out.append('long %s(void) { return 0; }\n' % n)
        elif n.startswith('_ZTI'):
            out.append('__attribute__((weak)) struct { void *vptr; const char *name; } %s = '
                       '{ _ZTVN10__cxxabiv117__class_type_infoE + 16, "%s" };\n' % (n, n[4:]))
        elif n.startswith('_ZTV'):
            out.append('void *%s[128] = { 0, 0, %s };\n' % (n, ', '.join(['(void *)zero'] * 126)))
        else:
            out.append('__attribute__((aligned(64))) char %s[256];\n' % n)
    return ''.join(out)


class Builder:
    """Compiles shared libraries into one folder."""

    def __init__(self, out, cc, cxx):
        self.out, self.cc, self.cxx = out, cc, cxx
        self.tmp = os.path.join(out, '.src')
        os.makedirs(self.tmp, exist_ok=True)

    def path(self, soname):
        return os.path.join(self.out, soname)

    def stub_file(self, soname, names, kinds):
        f = os.path.join(self.tmp, soname + '.stubs.c')
        with open(f, 'w') as h:
            h.write(stub_source(names, kinds))
        return f

    def link(self, soname, sources, libs=(), flags=(), versions=None):
        """versions: {name: symbol version}; libs: paths, kept in DT_NEEDED. Sources may be C and C++."""
        objects = []
        for i, s in enumerate(sources):
            o = os.path.join(self.tmp, '%s.%d.o' % (soname, i))
            cxx = s.endswith('.cc')
            cmd = [self.cxx if cxx else self.cc, '-c', '-O2', '-fPIC', '-fomit-frame-pointer', '-w',
                   '-D_GNU_SOURCE', '-fno-builtin', '-o', o, s]
            subprocess.run(cmd + ['-std=gnu++17' if cxx else '-std=gnu11'] + list(flags), check=True)
            objects.append(o)
        cmd = [self.cxx, '-shared', '-Wl,-s', '-Wl,-soname,' + soname, '-o', self.path(soname)]
        cmd += objects + ['-Wl,--no-as-needed'] + list(libs) + ['-Wl,--as-needed', '-lpthread', '-ldl']
        sets = {}
        for name, v in (versions or {}).items():
            if v:
                sets.setdefault(v, []).append(name)
        if sets:
            m = os.path.join(self.tmp, soname + '.map')
            with open(m, 'w') as h:
                for v, names in sorted(sets.items()):
                    h.write('%s { global: %s; };\n' % (v, '; '.join(sorted(names))))
            cmd.append('-Wl,--version-script,' + m)
        subprocess.run(cmd, check=True)

    def system(self, name):
        p = subprocess.run([self.cxx, '-print-file-name=' + name], capture_output=True, text=True,
                           check=True).stdout.strip()
        return p if os.path.isabs(p) and os.path.exists(p) else None


SYSTEM = ['libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', 'librt.so.1', 'libgcc_s.so.1',
          'libstdc++.so.6', 'libz.so.1', 'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1']
