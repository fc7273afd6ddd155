# SPDX-License-Identifier: Apache-2.0
"""The CPythons and the NumPys that this machine has or can get."""
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Suites of Debian that have one.
SUITES = {8: None, 9: 'bullseye', 10: None, 11: None, 12: None, 13: 'trixie', 14: 'sid', 15: 'sid'}

# What wheels are built for; the older kind first, which runs on more C libraries.
PLATFORMS = ('manylinux2014', 'manylinux_2_17', 'manylinux_2_27', 'manylinux_2_28')


def cache():
    return os.path.join(os.environ.get('MEMTAP_CACHE') or os.path.expanduser('~/.cache/memtap'), 'pythons')


def installed(minor):
    """Interpreters of this machine: with a shared library, without, whoever installed them."""
    name = f'python3.{minor}'
    roots = [os.environ.get('PYENV_ROOT') or os.path.expanduser('~/.pyenv')]
    found = [p for r in roots for p in sorted(glob.glob(f'{r}/versions/*/bin/{name}'))]
    found += [p for d in ('/usr/bin', '/usr/local/bin', '/opt/*/bin') for p in sorted(glob.glob(f'{d}/{name}'))]
    if sys.version_info[:2] == (3, minor):
        found.append(os.path.realpath(sys.executable))
    return list({os.path.realpath(p): [p] for p in found}.values())


def fetched(minor):
    """Another suite's, run by its own dynamic linker and C library: argv, or why not."""
    if not SUITES[minor]:
        return None, 'no suite of Debian has it'
    done = subprocess.run([os.path.join(HERE, 'fetch_python.sh'), f'3.{minor}', SUITES[minor]],
                          capture_output=True, text=True, timeout=300)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ['it cannot be had'])[-1]
    usr = done.stdout.strip() + '/usr'
    linker = [p for p in glob.glob(usr + '/lib/**/ld-*', recursive=True) + glob.glob(usr + '/lib64/ld-*')
              if re.search(r'/ld-(linux[^/]*\.so\.\d|\d\.\d+\.so)$', p) and os.path.exists(p)]
    libs = ':'.join(sorted({os.path.dirname(p) for p in glob.glob(usr + '/lib/**/libc.so.6', recursive=True) +
                            glob.glob(usr + '/lib/**/libz.so.1', recursive=True) +
                            glob.glob(usr + '/lib/**/libexpat.so.1', recursive=True)}))
    return ['env', f'PYTHONHOME={usr}', linker[0], '--library-path', libs, f'{usr}/bin/python3.{minor}'], None


def interpreters(minor):
    """A list of argv, or why there is none."""
    found = installed(minor)
    if found:
        return found, None
    argv, why = fetched(minor)
    return ([argv], None) if argv else (None, why)


def numpy(minor):
    """A folder for PYTHONPATH with the NumPy of that CPython, kept in the cache; or None and why not."""
    site = os.path.join(cache(), f'numpy-for-3.{minor}')
    if not os.path.isdir(site):
        machine = os.uname().machine
        done = subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--only-binary', ':all:', '--no-deps',
                               '--python-version', f'3.{minor}', '--implementation', 'cp',
                               *(f'--platform={p}_{machine}' for p in PLATFORMS), '--target', site + '.new', 'numpy'],
                              capture_output=True, text=True, timeout=280)
        if done.returncode:
            shutil.rmtree(site + '.new', ignore_errors=True)
            return None, 'NumPy cannot be had: ' + (done.stderr.strip().splitlines() or ['?'])[-1]
        os.rename(site + '.new', site)
    return site, None
