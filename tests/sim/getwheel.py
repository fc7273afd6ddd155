#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""getwheel.py TORCH TORCH_NPU DIR --build DIR: downloads the two released wheels (or takes them from
a folder of wheels), unpacks them without torch's CUDA half, makes the simulated CANN for them with
mkwheel.py, and prints the path of a script that starts Python on it; DIR/run is the last one made.
With --machine aarch64 it is all for Debian 12's Python on that machine, by its cross compilers.
Exit status 77: the wheels cannot be had, the reason on stdout."""
import argparse
import glob
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = ('torch/lib/libtorch_cuda', 'torch/lib/libtorch_nvshmem', 'torch/lib/libnvshmem',
        'torch/lib/libc10_cuda', 'torch/lib/libnvfuser', 'torch/lib/libcaffe2_nvrtc', 'torch/include/',
        'torch/test/', 'torch/share/', 'torch/bin/protoc', 'torch/bin/test_', 'torch/bin/nvfuser',
        'torch/bin/ptxas', 'caffe2/', 'functorch/include', 'torch_npu/include',
        'mindspore/lib/plugin/gpu', 'mindspore/lib/plugin/libmindspore_gpu', 'mindspore/lib/plugin/cpu/libakg',
        'mindspore/include/')
RUN = '''#!/bin/sh
S=$(dirname "$(readlink -f "$0")")
D=$(dirname "$S")
export LD_LIBRARY_PATH=$S/cudastub:$S/cann/lib64
export ASCEND_HOME_PATH=$S/cann ASCEND_OPP_PATH=$S/cann/opp
export PYTHONPATH=$D/site:$S TORCH_DEVICE_BACKEND_AUTOLOAD=0
export TORCH_PYTHON_NATIVE_USER_GRAPH_ORDER_FN=orderfn.order
exec %s -s "$@"
'''
# What Debian 12's Python takes, for each machine that wheels are had for here.
PLATFORMS = ['manylinux_2_28_', 'manylinux_2_17_', 'manylinux2014_']
DEPS = ['typing_extensions', 'sympy', 'networkx', 'jinja2', 'filelock', 'fsspec', 'pyyaml', 'packaging']


def say(*words):
    print('getwheel:', *words, file=sys.stderr, flush=True)


class NotHere(Exception):
    """The wheels cannot be had; says why."""


class Target:
    """The Python and the machine that the wheels are for: this one, or Debian 12's on another."""

    def __init__(self, machine=None):
        self.machine = machine or platform.machine()
        self.foreign = machine is not None
        self.version = (3, 11) if self.foreign else sys.version_info[:2]
        self.python = '/usr/bin/python3.11' if self.foreign else sys.executable
        prefix = machine + '-linux-gnu-' if self.foreign else ''
        self.compilers = ['--cc', prefix + 'gcc', '--cxx', prefix + 'g++']

    def pip(self):
        """Options that make pip look for the wheels of another machine."""
        if not self.foreign:
            return []
        tags = [x for p in PLATFORMS for x in ('--platform', p + self.machine)]
        return tags + ['--python-version', '%d.%d' % self.version, '--only-binary=:all:']


def kept_wheels():
    """Folders in which somebody may have put wheels to use."""
    cache = os.environ.get('MEMTAP_CACHE') or os.path.expanduser('~/.cache/memtap')
    return [cache + '/wheels', '/var/cache/memtap/wheels']


def pip(args, what, target=Target()):
    """Runs pip, tells what it downloads; NotHere when no index has it."""
    p = subprocess.run([sys.executable, '-m', 'pip', *args, *target.pip()], capture_output=True, text=True,
                       stdin=subprocess.DEVNULL)
    for line in p.stdout.splitlines():
        m = re.search(r'Downloading (?:\S*/)?(\S+) (\([0-9.]+ [kMG]B\))', line)
        if m:
            say('downloaded', *m.groups())
    if p.returncode == 0:
        return
    tag = 'Python %d.%d' % target.version + (f' on {target.machine}' if target.foreign else '')
    if re.search(r'Retrying|NewConnectionError|Max retries|Name or service|timed out|proxy', p.stderr, re.I):
        raise NotHere('no package index answers: ' + what)
    if 'No matching distribution' in p.stderr:
        raise NotHere(f'the package index has no {what} for {tag}')
    raise NotHere(f'pip cannot get {what} for {tag}: ' + (p.stderr.strip().splitlines() or ['?'])[-1])


def wheel(name, version, folder, target=Target()):
    """Path of a wheel: one that is kept, or a new one in the folder."""
    tag = 'cp%d%d' % target.version
    for d in kept_wheels():
        for pattern in ('%s/%s-%s-%s-*_%s.whl', '%s/%s-%s-*%s*_%s.whl'):
            found = glob.glob(pattern % (d, name, version, tag, target.machine))
            if found:
                say('using', found[0])
                return found[0]
    say(f'downloading {name} {version} (torch, mindspore: 200 to 900 MB, torch_npu: 15 to 50 MB), once')
    pip(['download', '--progress-bar', 'off', '--no-cache-dir', '--no-deps', '-d', folder,
         f'{name}=={version}'], f'{name} {version}', target)
    return glob.glob(f'{folder}/{name}-{version}*.whl')[0]


def installed(d, torch, torch_npu, target):
    """DIR/site with both wheels and what they import, made if it is not there for this Python."""
    done, site = d + '/unpacked', d + '/site'
    mark = '%d.%d %s' % (*target.version, target.python)
    if os.path.exists(done):
        with open(done, encoding='utf-8') as f:
            if f.read().strip() == mark:
                return site
        os.unlink(done)
    shutil.rmtree(site, ignore_errors=True)
    os.makedirs(site)
    with tempfile.TemporaryDirectory(prefix='download.', dir=d) as folder:
        for name, v in (('torch', torch), ('torch_npu', torch_npu)):
            path = wheel(name, v, folder, target)
            unpack(path, site)
            if path.startswith(folder):
                os.unlink(path)
    numpy = 'numpy<2' if torch.startswith(('2.0.', '2.1.')) else 'numpy'
    pip(['install', '--progress-bar', 'off', '--no-cache-dir', '--target', site, numpy] + DEPS, 'numpy and others',
        target)
    with open(done, 'w', encoding='utf-8') as f:
        f.write(mark + '\n')
    return site


def inputs(build):
    """A hash of all that the simulated side is made of."""
    h = hashlib.sha256()
    for path in sorted(glob.glob(build + '/cann/lib64/*.so') + glob.glob(HERE + '/*wheel.py') +
                       glob.glob(HERE + '/wheel/*.py') + glob.glob(HERE + '/src/wheel/*') +
                       glob.glob(HERE + '/src/cann/*')):
        with open(path, 'rb') as f:
            h.update(os.path.basename(path).encode() + f.read())
    return h.hexdigest()[:12]


def simulated(d, site, build, target):
    """DIR/sim-<hash> for this build of the simulation: others may be running on another one."""
    sim = f'{d}/sim-{inputs(build)}'
    if os.path.exists(sim + '/run'):
        os.utime(sim)
        return sim
    for old in glob.glob(d + '/sim-*'):
        if time.time() - os.stat(old).st_mtime > 86400:
            shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(sim, ignore_errors=True)
    subprocess.run([sys.executable, HERE + '/mkwheel.py', site, sim, '--build', build, *target.compilers],
                   check=True, stdout=sys.stderr)
    # torch 2.14 asks for a function by this variable
    with open(sim + '/orderfn.py', 'w', encoding='utf-8') as f:
        f.write('def order(op_symbol, dispatch_key, graph):\n    return []\n')
    with open(sim + '/run.new', 'w', encoding='utf-8') as f:
        f.write(RUN % target.python)
    os.chmod(sim + '/run.new', 0o755)
    os.rename(sim + '/run.new', sim + '/run')
    return sim


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
    p.add_argument('--machine', choices=['aarch64'], help='for Debian 12 on this machine, cross compiled')
    a = p.parse_args()
    target = Target(a.machine)
    d, build = os.path.abspath(a.dir), os.path.abspath(a.build)
    os.makedirs(d, exist_ok=True)
    try:
        sim = simulated(d, installed(d, a.torch, a.torch_npu, target), build, target)
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
