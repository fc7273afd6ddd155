#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""getwheel.py TORCH TORCH_NPU DIR --build DIR: downloads the two released wheels (or takes them from
the cache), unpacks them without torch's CUDA half, makes the simulated CANN for them with
mkwheel.py, and writes DIR/run, which starts Python on it."""
import argparse
import glob
import os
import shutil
import stat
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = ('torch/lib/libtorch_cuda', 'torch/lib/libtorch_nvshmem', 'torch/lib/libnvshmem',
        'torch/lib/libc10_cuda', 'torch/lib/libnvfuser', 'torch/lib/libcaffe2_nvrtc', 'torch/include/',
        'torch/test/', 'torch/share/', 'torch/bin/protoc', 'torch/bin/test_', 'torch/bin/nvfuser',
        'torch/bin/ptxas', 'caffe2/', 'functorch/include', 'torch_npu/include')
DEPS = ['typing_extensions', 'sympy', 'networkx', 'jinja2', 'filelock', 'fsspec', 'pyyaml', 'packaging']


def cache_dir():
    for d in ('/var/cache/memtap', os.path.expanduser('~/.cache/memtap')):
        try:
            os.makedirs(d + '/wheels', exist_ok=True)
        except OSError:
            continue
        if os.access(d + '/wheels', os.W_OK):
            return d + '/wheels'
    sys.exit('getwheel: no folder for the cache')


def wheel(py, name, version, cache):
    tag = 'cp%d%d' % sys.version_info[:2]
    pattern = '%s/%s-%s-%s-*.whl' % (cache, name, version, tag)
    if not glob.glob(pattern):
        subprocess.run([py, '-m', 'pip', 'download', '-q', '--progress-bar', 'off', '--no-cache-dir',
                        '--no-deps', '-d', cache, '%s==%s' % (name, version)], check=True)
    found = glob.glob(pattern) or glob.glob('%s/%s-%s*.whl' % (cache, name, version))
    return found[0]


def unpack(path, dest):
    with zipfile.ZipFile(path) as z:
        for i in z.infolist():
            if i.filename.startswith(SKIP):
                continue
            p = z.extract(i, dest)
            if '.so' in i.filename or '/bin/' in i.filename:
                os.chmod(p, 0o755)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('torch')
    p.add_argument('torch_npu')
    p.add_argument('dir')
    p.add_argument('--build', default=os.environ.get('SIM_ROOT'), required='SIM_ROOT' not in os.environ)
    a = p.parse_args()
    py, cache = sys.executable, cache_dir()
    d = os.path.abspath(a.dir)
    site = d + '/site'
    if not os.path.exists(d + '/unpacked'):
        shutil.rmtree(site, ignore_errors=True)
        os.makedirs(site)
        for name, v in (('torch', a.torch), ('torch_npu', a.torch_npu)):
            unpack(wheel(py, name, v, cache), site)
        numpy = 'numpy<2' if a.torch.startswith(('2.0.', '2.1.')) else 'numpy'
        subprocess.run([py, '-m', 'pip', 'install', '-q', '--no-cache-dir', '--target', site, numpy] + DEPS,
                       check=True, stderr=subprocess.DEVNULL)
        open(d + '/unpacked', 'w').close()
    subprocess.run([py, HERE + '/mkwheel.py', site, d + '/sim', '--build', os.path.abspath(a.build)],
                   check=True)
    # torch 2.14 asks for a function by this variable
    with open(d + '/orderfn.py', 'w') as f:
        f.write('def order(op_symbol, dispatch_key, graph):\n    return []\n')
    with open(d + '/run', 'w') as f:
        f.write('#!/bin/sh\n'
                'D=$(dirname "$(readlink -f "$0")")\n'
                'export LD_LIBRARY_PATH=$D/sim/cudastub:$D/sim/cann/lib64\n'
                'export ASCEND_HOME_PATH=$D/sim/cann ASCEND_OPP_PATH=$D/sim/cann/opp\n'
                'export PYTHONPATH=$D/site:$D TORCH_DEVICE_BACKEND_AUTOLOAD=0\n'
                'export TORCH_PYTHON_NATIVE_USER_GRAPH_ORDER_FN=orderfn.order\n'
                'exec %s -s "$@"\n' % py)
    os.chmod(d + '/run', os.stat(d + '/run').st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    print('getwheel:', d + '/run')


if __name__ == '__main__':
    main()
