#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkwheel.py SITE OUT --build DIR: makes the released torch and torch_npu run on the simulated CANN.

SITE is a site-packages folder with both wheels unpacked, without torch's CUDA libraries (getwheel.py
does that); DIR is tests/sim of the build folder. OUT/cudastub gets stubs for torch's CUDA half,
OUT/cann the device libraries: those of the build, plus, in the libraries a real CANN would have
them in, the symbols that torch_npu imports or looks up by name and that have no body here."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'wheel'))
from elfimports import SYSTEM, Builder, Elf, unresolved  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CANN = os.path.join(HERE, 'src', 'cann')

# By soname prefix, what is not versioned by its library's name.
CUDA_HOMES = [('cupti', 'libcupti'), ('cudnn', 'libcudnn'), ('cusparseLt', 'libcusparseLt'),
              ('cuFile', 'libcufile'), ('nvrtc', 'libnvrtc'), ('nvtx', 'libnvToolsExt'),
              ('cublasLt', 'libcublasLt'), ('cublas', 'libcublas'), ('cu[A-Z]', 'libcuda.')]
CUDA_BODIES = {'_ZN4c10d15get_gil_checkerEv', '_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb'}


def strings(paths):
    out = set()
    for p in paths:
        out |= set(subprocess.run(['strings', '-n', '4', p], capture_output=True, text=True,
                                  check=True).stdout.split('\n'))
    return out


def cuda_stubs(b, torch_libs, system):
    """Stubs of the nvidia sonames and of libtorch_cuda; nothing for a CPU build of torch."""
    have = {os.path.basename(p) for p in torch_libs} | set(SYSTEM)
    missing = sorted({n for p in torch_libs for n in Elf(p).needed} - have)
    if not missing:
        return []
    need, kinds = unresolved(torch_libs, torch_libs + system)
    homes = {m: set() for m in missing}
    homes['libtorch_cuda.so'] = set()

    def find(prefix):
        return next((m for m in missing if m.startswith(prefix)), None)

    for name, version in need.items():
        home = None
        if version.startswith(('GLIBC', 'GCC_', 'CXXABI')):
            print('mkwheel: unresolved system symbol', name, version)
            continue
        if version.startswith('lib'):
            home = find(re.sub(r'\.so.*', '.so', version))
        if not home:
            home = next((find(h) for rx, h in CUDA_HOMES if re.match(rx, name)), None)
        homes[home or 'libtorch_cuda.so'].add(name)
    for soname, names in homes.items():
        versions = {n: need[n] for n in names if need[n].startswith('lib')}
        sources = [b.stub_file(soname, names - CUDA_BODIES, kinds)]
        if soname == 'libtorch_cuda.so':
            sources.append(os.path.join(HERE, 'src', 'wheel', 'cuda_bodies.c'))
        b.link(soname, sources, versions=versions)
    print('mkwheel: %d CUDA stubs, libtorch_cuda with %d symbols'
          % (len(homes), len(homes['libtorch_cuda.so'])))
    return [b.path(s) for s in homes]


def looked_up(words):
    """Names of the C API among a library's strings: what it may ask dlsym() for."""
    acl = {w for w in words if re.fullmatch(r'acl(rt|mdl|mdlRI|op|prof|sys|tdt|sk)?[A-Z][A-Za-z0-9]+', w)
           and not w.startswith('aclnn') and not w.endswith('GetWorkspaceSize')}
    hccl = {w for w in words if re.fullmatch(r'Hccl[A-Z][A-Za-z0-9]+', w)}
    ops = {re.sub('GetWorkspaceSize$', '', w) for w in words
           if re.fullmatch(r'acl(nn|Rfft|Stft)[A-Z0-9][A-Za-z0-9]+', w)}
    return acl, hccl, ops


def is_function_name(name, imports):
    """Strings hold prefixes and prose too; a dlsym name is imported or has a verb."""
    if name in imports:
        return True
    if re.search(r'(RI|SL|H)$', name):
        return False
    return bool(re.match(r'acl(rt|mdl|mdlRI|op|prof|sys|tdt|sk)?(Abort|Activate|Add|Begin|Binary|Bind|Cancel|'
                         r'Capture|Cmo|Compile|Cond|Create|Ctx|Debug|Destroy|Device|Drop|Dump|Enable|End|Event|'
                         r'Exec|Fin|Free|Gen|Get|Host|Init|Ipc|Launch|Load|Malloc|Map|Mark|Mem|Notify|Optimize|'
                         r'Peek|Persistent|Point|Process|Push|Query|Record|Register|Release|Repair|Reserve|Reset|'
                         r'Scope|Set|Start|Stop|Stream|Subscribe|Synchronize|Thread|Un|Update|Use|Value|Wait|'
                         r'Warmup|RI)', name))


def cann_libs(b, a, npu_libs, torch_libs, system, cuda):
    lib = b.path
    for f in glob.glob(os.path.join(a.build, 'cann', 'lib64', '*.so')):
        shutil.copy(f, b.out)
    need, kinds = unresolved(npu_libs, npu_libs + torch_libs + system + cuda)
    acl, hccl, ops = looked_up(strings(p for p in npu_libs if '/lib/' in p))
    acl = {n for n in acl | {n for n in need if re.match(r'acl[a-z]*[A-Z]', n)}
           if is_function_name(n, need)}

    with open(os.path.join(b.tmp, 'wheel_ops.inc'), 'w') as f:
        f.write('/* Generated: operators that the wheel names. */\n')
        f.writelines('OP(%s)\n' % n for n in sorted(ops))
    b.link('libopapi.so', [os.path.join(CANN, 'opapi.cc')], [lib('libnnopbase.so')],
           ['-fvisibility=hidden', '-DOPAPI_LIST="%s"' % os.path.join(b.tmp, 'wheel_ops.inc')])

    have = set()
    for f in glob.glob(b.out + '/*.so'):
        have |= Elf(f).exports
    rest = acl - have
    compiler = {n for n in rest if n.startswith(('aclop', 'aclSetCompileopt', 'aclGetCompileopt',
                                                 'aclGenGraph'))}
    tdt = {n for n in rest if n.startswith('acltdt')}

    def extend(soname, sources, names, libs, flags=()):
        names = {n for n in names if n not in have}
        b.link(soname, [os.path.join(CANN, s) for s in sources] +
               [b.stub_file(soname, names, kinds)], [lib(x) for x in libs], flags)
        return len(names)

    count = [
        extend('libascendcl.so', ['acl_thin.c', 'acl_compat.c'], rest - compiler - tdt,
               ['libacl_rt_impl.so', 'libacl_rt.so']),
        # torch_npu asks dlsym() for acl functions with this library's handle too
        extend('libacl_op_compiler.so', ['acl_op_compiler.c'], compiler,
               ['libascendcl.so', 'libruntime.so']),
        extend('libacl_tdt_channel.so', [], tdt, []),
        extend('libhccl.so', ['hccl.c', 'hccl_shared.c'], hccl | {n for n in need if n.startswith('Hccl')},
               ['libacl_rt.so', 'libruntime.so']),
        extend('libatb.so', ['../atb/atb.cc', '../atb/atb_run.cc'], {n for n in need if re.match(r'_Z(N|NK|TIN|TVN)3atb', n)},
               ['libmki.so', 'libruntime.so', 'libacl_rt.so', 'libsim_truth.so'], ['-DATB_GEN=82']),
    ]
    Elf._cache.clear()
    have = set()
    for f in glob.glob(b.out + '/*.so'):
        have |= Elf(f).exports
    left = {n for n in need if n not in have and not need[n]}
    extend('libge_runner.so', [], left, [])
    extend('libgraph.so', [], set(), [])
    for soname in {n for p in npu_libs for n in Elf(p).needed}:
        if not os.path.exists(lib(soname)) and soname not in SYSTEM and \
                not any(os.path.basename(p) == soname for p in torch_libs + npu_libs + cuda):
            extend(soname, [], set(), [])
            print('mkwheel: empty', soname)
    print('mkwheel: %d operators; stubs: acl %d, op_compiler %d, tdt %d, hccl %d, atb %d, ge %d'
          % tuple([len(ops)] + count + [len(left)]))


def cann_tree(root, machine):
    for d in ('opp/built-in', 'opp/vendors', 'runtime', 'compiler', machine + '-linux'):
        os.makedirs(os.path.join(root, d), exist_ok=True)
    for d in ('opp', 'runtime', 'compiler'):
        with open(os.path.join(root, d, 'version.info'), 'w') as f:
            f.write('Version=8.2.RC1\nversion_dir=8.2.RC1\n')
    with open(os.path.join(root, machine + '-linux', 'ascend_toolkit_install.info'), 'w') as f:
        f.write('package_name=Ascend-cann-toolkit\nversion=8.2.RC1\ninnerversion=V100R001C22\narch=%s\n'
                % machine)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('site')
    p.add_argument('out')
    p.add_argument('--build', default=os.environ.get('SIM_ROOT'), required='SIM_ROOT' not in os.environ)
    p.add_argument('--cc', default='gcc')
    p.add_argument('--cxx', default='g++')
    a = p.parse_args()

    torch_libs = [x for x in glob.glob(a.site + '/torch/lib/lib*.so*') +
                  glob.glob(a.site + '/torch/_C.*.so') + glob.glob(a.site + '/*.libs/*.so*')
                  if not os.path.basename(x).startswith(('libtorch_cuda', 'libc10_cuda', 'libtorch_nvshmem',
                                                         'libnvfuser', 'libcaffe2_nvrtc'))]
    npu_libs = glob.glob(a.site + '/torch_npu/lib/*.so') + glob.glob(a.site + '/torch_npu/_C.*.so')
    if not torch_libs or not npu_libs:
        sys.exit('mkwheel: no torch and torch_npu in ' + a.site)
    os.makedirs(a.out, exist_ok=True)
    cuda_b = Builder(os.path.join(a.out, 'cudastub'), a.cc, a.cxx)
    system = [x for x in map(cuda_b.system, SYSTEM) if x]
    cuda = cuda_stubs(cuda_b, torch_libs, system)
    cann_libs(Builder(os.path.join(a.out, 'cann', 'lib64'), a.cc, a.cxx), a, npu_libs, torch_libs, system,
              cuda)
    machine = subprocess.run([a.cc, '-dumpmachine'], capture_output=True, text=True,
                             check=True).stdout.split('-')[0]
    cann_tree(os.path.join(a.out, 'cann'), machine)


if __name__ == '__main__':
    main()
