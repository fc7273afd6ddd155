#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkmindspore.py DIR --build BUILD [--version 2.10.0]: the released MindSpore with its Ascend plugin
on the simulated CANN. Takes the wheel from where getwheel.py does or downloads it, unpacks it without
its CUDA half, extends the build's libraries by what the plugin imports or looks up, and prints the path
of a script that starts Python on it. Exit status 77: the wheel cannot be had, the reason on stdout."""
import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, 'wheel')]
from elfimports import SYSTEM, Builder, Elf, unresolved  # noqa: E402
from getwheel import NotHere, inputs, pip, unpack, wheel  # noqa: E402
from mkwheel import CANN, strings  # noqa: E402

DEPS = ['numpy<2', 'protobuf', 'asttokens', 'pillow', 'scipy', 'packaging', 'psutil', 'astunparse',
        'safetensors', 'dill', 'setuptools<80']
TARGETS = ['plugin/ascend/libmindspore_ascend_res_manager.so', 'plugin/libmindspore_ascend.so.2',
           'plugin/libmindspore_ops_ascend.so', 'plugin/ascend/libmindspore_graph_ir.so',
           'plugin/ascend/libhccl_plugin.so', 'plugin/ascend/libdvpp_utils.so',
           'plugin/ascend/ms_kernels_symmetric_memory/**/*.so']
HOMES = [(r'acl(?!nn)[a-z]*[A-Z]', 'libascendcl.so', ['acl_thin.c', 'acl_compat.c'],
          ['libacl_rt_impl.so', 'libacl_rt.so', 'libruntime.so', 'libascend_hal.so', 'libhccl.so']),
         (r'Hccl[A-Z]', 'libhccl.so', ['hccl.c'], ['libacl_rt.so', 'libruntime.so'])]
RUN = '''#!/bin/sh
S=$(dirname "$(readlink -f "$0")")
export ASCEND_HOME_PATH=$S/Ascend/cann/latest
export ASCEND_OPP_PATH=$ASCEND_HOME_PATH/opp LD_LIBRARY_PATH=$ASCEND_HOME_PATH/lib64
export PYTHONPATH=$(dirname "$S")/site
exec %s -s "$@"
'''


def operators(b, lib):
    """libopapi.so with every operator that the plugin names."""
    words = strings(glob.glob(lib + '/plugin/*ascend*.so*') + glob.glob(lib + '/plugin/ascend/*.so'))
    names = {re.sub('GetWorkspaceSize$', '', w) for w in words if re.fullmatch('aclnn[A-Z][A-Za-z0-9]+', w)}
    ops = os.path.join(b.tmp, 'mindspore_ops.inc')
    with open(ops, 'w', encoding='utf-8') as f:
        f.write('/* Generated: operators that the wheel names. */\n')
        f.writelines('OP(%s)\n' % n for n in sorted(names))
    b.link('libopapi.so', [os.path.join(CANN, 'opapi.cc')], [b.path('libnnopbase.so')],
           ['-fvisibility=hidden', '-DOPAPI_LIST="%s"' % ops])
    return len(names)


def build(lib, sim, b):
    for f in glob.glob(os.path.join(sim, 'cann', 'lib64', '*.so')):
        shutil.copy(f, b.out)
    counts = ['%d operators' % operators(b, lib)]
    targets = [p for t in TARGETS for p in glob.glob(os.path.join(lib, t), recursive=True)]
    own = [p for p in glob.glob(lib + '/**/*.so*', recursive=True)
           if os.path.isfile(p) and 'ms_kernels_internal' not in p and '/gpu' not in p]
    python = glob.glob(sysconfig.get_config_var('LIBDIR') + '/libpython3*.so*')
    system = [x for x in map(b.system, SYSTEM + ['libgomp.so.1']) if x]
    need, kinds = unresolved(targets, own + python + system)
    words = {w for w in strings(targets[:1])
             if re.fullmatch(r'(acl[a-z]*[A-Z]|Hccl[A-Z]|hal[A-Z]|rt[A-Z])\w*', w)}

    def exports():
        Elf._cache.clear()
        have = set()
        for f in glob.glob(b.out + '/*.so'):
            have |= Elf(f).exports
        return have

    have = exports()
    # libhccl first: libascendcl names it, so that dlsym() with any handle reaches everything
    for rx, soname, sources, deps in reversed(HOMES):
        names = {n for n in words | set(need) if re.match(rx, n) and n not in have}
        if soname == 'libascendcl.so':
            names |= {n for n in words - have if re.match('hal|rt', n)}
        b.link(soname, [os.path.join(CANN, s) for s in sources] +
               [b.stub_file(soname, names, kinds)], [b.path(x) for x in deps])
        counts.append('%s %d' % (soname, len(names)))
    have = exports()
    left = {n for n in need if n not in have and n != '_ZN2ge13StatusFactory8InstanceEv'}
    b.link('libge_runner.so', [os.path.join(HERE, 'src', 'wheel', 'ge_bodies.cc'),
                               b.stub_file('libge_runner.so', left, kinds)],
           flags=['-D_GLIBCXX_USE_CXX11_ABI=0'])
    counts.append('libge_runner.so %d' % len(left))
    present = {os.path.basename(p) for p in own + system + glob.glob(b.out + '/*.so')}
    extra = {n for t in targets for n in Elf(t).needed} - present - set(SYSTEM)
    # dlopened by name: a lookup with any of these handles must reach libascendcl
    for soname in sorted(extra | {'libacl_mdl.so', 'liberror_manager.so', 'libacl_tdt_channel.so'}):
        if not soname.startswith('lib') or soname.startswith('libpython') or b.system(soname):
            continue
        b.link(soname, [os.path.join(CANN, 'empty.c')], [b.path('libascendcl.so'), b.path('libge_runner.so')])
    print('mkmindspore: stubs:', ', '.join(counts), file=sys.stderr)


def installed(d, version):
    """DIR/site with the wheel and what it imports, made if it is not there for this Python."""
    done, site = d + '/unpacked', d + '/site'
    mark = '%d.%d %s' % (*sys.version_info[:2], sys.executable)
    if os.path.exists(done):
        with open(done, encoding='utf-8') as f:
            if f.read().strip() == mark:
                return site
        os.unlink(done)
    shutil.rmtree(site, ignore_errors=True)
    os.makedirs(site)
    with tempfile.TemporaryDirectory(prefix='download.', dir=d) as folder:
        unpack(wheel('mindspore', version, folder), site)
    pip(['install', '--progress-bar', 'off', '--no-cache-dir', '--target', site] + DEPS, 'numpy and others')
    with open(done, 'w', encoding='utf-8') as f:
        f.write(mark + '\n')
    return site


def simulated(d, site, sim_build, cc, cxx):
    """DIR/sim-<hash> for this build of the simulation: others may be running on another one."""
    with open(__file__, 'rb') as f:
        sim = f'{d}/sim-' + hashlib.sha256(inputs(sim_build).encode() + f.read()).hexdigest()[:12]
    if os.path.exists(sim + '/run'):
        os.utime(sim)
        return sim
    for old in glob.glob(d + '/sim-*'):
        if time.time() - os.stat(old).st_mtime > 86400:
            shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(sim, ignore_errors=True)
    # MindSpore wants a folder named cann or latest above lib64.
    root = sim + '/Ascend/cann/latest'
    for s in ('lib64', 'opp', 'compiler'):
        os.makedirs(os.path.join(root, s), exist_ok=True)
    for f in ('version.info', 'opp/version.info', 'compiler/version.info'):
        with open(os.path.join(root, f), 'w', encoding='utf-8') as h:
            h.write('Version=8.3.RC1\n')
    build(site + '/mindspore/lib', sim_build, Builder(root + '/lib64', cc, cxx))
    with open(sim + '/run.new', 'w', encoding='utf-8') as f:
        f.write(RUN % sys.executable)
    os.chmod(sim + '/run.new', 0o755)
    os.rename(sim + '/run.new', sim + '/run')
    return sim


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('dir')
    p.add_argument('--build', default=os.environ.get('SIM_ROOT'), required='SIM_ROOT' not in os.environ)
    p.add_argument('--version', default='2.10.0')
    p.add_argument('--cc', default='gcc')
    p.add_argument('--cxx', default='g++')
    a = p.parse_args()
    d = os.path.abspath(a.dir)
    os.makedirs(d, exist_ok=True)
    try:
        sim = simulated(d, installed(d, a.version), os.path.abspath(a.build), a.cc, a.cxx)
    except NotHere as e:
        print(e)
        return 77
    if os.path.lexists(d + '/run'):
        os.unlink(d + '/run')
    os.symlink(sim + '/run', d + '/run')
    print(sim + '/run')
    return 0


if __name__ == '__main__':
    sys.exit(main())
