# SPDX-License-Identifier: Apache-2.0
"""The Bench of harness.py on an emulated machine: the same tests, each from the saved state.

Programs and memtap run there, their files are brought here, and everything is judged here.
"""
import os
import shutil
import sys

import equal
import harness

sys.path.append(os.path.join(harness.HERE, 'machine'))
import machine  # noqa: E402

# An emulated processor stands still for as long as the other machine needs it.
SLACK = 200000000
HOME = '/tmp/job'  # of a test, on the machine
PYTHON = '/opt/real/sim/run'
LIMIT = 480  # seconds that any one step may take: a processor here is twenty times slower
# Programs that see to the import themselves; the others find the framework imported already.
FRESH = ('latecomer',)


class Process:
    """A child of the machine's agent, as harness.Process is one here."""

    def __init__(self, vm, name, argv, env, fork):
        self.vm, self.name, self.status = vm, name, None
        own = {k: str(v) for k, v in (env or {}).items()}
        self.pid = vm.call('start', name=name, folder=HOME, argv=[str(a) for a in argv], env=own, fork=fork)['pid']

    def text(self, which='out'):
        return self.vm.call('text', name=self.name, which=which)['text']

    def tail(self):
        return (self.text()[-600:] + self.text('err')[-1500:]).strip()

    def until(self, word, which='out', nth=1):
        r = self.vm.call('until', limit=LIMIT, name=self.name, which=which, word=word, nth=nth, seconds=LIMIT - 10)
        if r['line'] is None:
            how = f'within {LIMIT} s' if r['status'] is None else f'before it ended ({r["status"]})'
            raise AssertionError(f'{self.name}: no {word!r} {how}: {self.tail()}')
        return r['line']

    def ended(self, seconds):
        if self.status is None:
            self.status = self.vm.call('wait', limit=LIMIT, name=self.name, seconds=seconds)['status']
        return self.status

    def alive(self):
        return self.ended(0) is None

    def signal(self, number):
        self.vm.call('signal', name=self.name, number=int(number), group=False)

    def line(self):
        self.vm.call('line', name=self.name)

    def wait(self):
        status = self.ended(LIMIT - 10)
        if status is None:
            raise AssertionError(f'{self.name} does not end within {LIMIT} s: {self.tail()}')
        return status

    def kill(self):
        """The machine is thrown away with all that runs on it."""


class Bench(harness.Bench):
    programs = HOME + '/programs'
    steps = 25
    few = 2

    def __init__(self, folder, build):
        super().__init__(PYTHON, build)
        self.home = os.path.dirname(os.path.realpath(folder))
        equal.SLACK = SLACK
        self.files, self.folder = self.folder, HOME
        self.memtap = HOME + '/memtap'
        try:
            self.vm = machine.Machine(folder, saved=True)
        except BaseException:
            self.leave()
            raise

    def leave(self):
        self.folder = self.files
        super().__exit__(*sys.exc_info())

    def __enter__(self):
        try:
            self.vm.put({'memtap': os.path.join(self.build, 'memtap'),
                         'programs': os.path.join(harness.HERE, 'programs')}, HOME)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind and os.environ.get('REAL_KEEP') and not issubclass(kind, machine.Error):
            self.bring()
        self.vm.close()
        self.leave()

    def site(self, *names):
        return os.path.join(self.home, 'site', *names)

    def bring(self):
        self.vm.get(HOME, self.files)

    def here(self, path):
        return os.path.join(self.files, os.path.relpath(path, HOME))

    def start(self, name, argv, env=None):
        argv = [str(a) for a in argv]
        fork = argv[0] == PYTHON and os.path.basename(argv[1])[:-3] not in FRESH
        p = Process(self.vm, name, argv[1:] if fork else argv, env, fork)
        self.processes.append(p)
        return p


def why_not():
    """Why no machine can be started here, or None."""
    return None if shutil.which(machine.EMULATOR) else f'no {machine.EMULATOR} here'
