#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mkmindspore.py DIR --build BUILD [--version 2.10.0]: the released MindSpore with its Ascend plugin
on the simulated CANN. Takes the wheel from the cache of getwheel.py or downloads it, unpacks it,
extends the build's libraries by what the plugin imports or looks up, and writes DIR/run."""
import argparse
import glob
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, 'wheel')]
from elfimports import SYSTEM, Builder, Elf, unresolved  # noqa: E402
from getwheel import cache_dir, unpack, wheel  # noqa: E402
from mkwheel import CANN, strings  # noqa: E402

DEPS = ['numpy<2', 'protobuf', 'asttokens', 'pillow', 'scipy', 'packaging', 'psutil', 'astunparse',
        'safetensors', 'dill', 'setuptools<80']
TARGETS = ['plugin/ascend/libmindspore_ascend_res_manager.so', 'plugin/libmindspore_ascend.so.2',
           'plugin/libmindspore_ops_ascend.so', 'plugin/ascend/libmindspore_graph_ir.so',
           'plugin/ascend/libhccl_plugin.so', 'plugin/ascend/libdvpp_utils.so',
           'plugin/ascend/ms_kernels_symmetric_memory/**/*.so']
HOMES = [(r'acl(?!nn)[a-z]*[A-Z]', 'libascendcl.so', ['acl_thin.c', 'acl_compat.c'],
          ['libacl_rt_impl.so', 'libacl_rt.so', 'libruntime.so', 'libascend_hal.so', 'libhccl.so']),
         (r'Hccl[A-Z]', 'libhccl.so', ['hccl.c', 'hccl_shared.c'], ['libacl_rt.so', 'libruntime.so'])]


def build(lib, a, b):
    for f in glob.glob(os.path.join(a.build, 'cann', 'lib64', '*.so')):
        shutil.copy(f, b.out)
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

    have, counts = exports(), []
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
    print('mkmindspore: stubs:', ', '.join(counts))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('dir')
    p.add_argument('--build', default=os.environ.get('SIM_ROOT'), required='SIM_ROOT' not in os.environ)
    p.add_argument('--version', default='2.10.0')
    p.add_argument('--cc', default='gcc')
    p.add_argument('--cxx', default='g++')
    a = p.parse_args()
    a.build, d = os.path.abspath(a.build), os.path.abspath(a.dir)
    site = d + '/site'
    if not os.path.exists(d + '/unpacked'):
        shutil.rmtree(site, ignore_errors=True)
        os.makedirs(site)
        unpack(wheel(sys.executable, 'mindspore', a.version, cache_dir()), site)
        subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--no-cache-dir', '--target', site]
                       + DEPS, check=True, stderr=subprocess.DEVNULL)
        open(d + '/unpacked', 'w').close()
    # MindSpore wants a folder named cann or latest above lib64.
    root = d + '/Ascend/cann/latest'
    for s in ('lib64', 'opp', 'compiler'):
        os.makedirs(os.path.join(root, s), exist_ok=True)
    for f in ('version.info', 'opp/version.info', 'compiler/version.info'):
        with open(os.path.join(root, f), 'w') as h:
            h.write('Version=8.3.RC1\n')
    build(site + '/mindspore/lib', a, Builder(root + '/lib64', a.cc, a.cxx))
    with open(d + '/run', 'w') as f:
        f.write('#!/bin/sh\n'
                'D=$(dirname "$(readlink -f "$0")")\n'
                'export ASCEND_HOME_PATH=$D/Ascend/cann/latest\n'
                'export ASCEND_OPP_PATH=$ASCEND_HOME_PATH/opp LD_LIBRARY_PATH=$ASCEND_HOME_PATH/lib64\n'
                'export PYTHONPATH=$D/site\n'
                'exec %s -s "$@"\n' % sys.executable)
    os.chmod(d + '/run', os.stat(d + '/run').st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    print('mkmindspore:', d + '/run')


if __name__ == '__main__':
    main()
