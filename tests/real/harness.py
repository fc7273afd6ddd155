# SPDX-License-Identifier: Apache-2.0
"""Runs real programs untraced and traced, and gives what they said and what memtap wrote.

    with Bench(run, build) as b:
        r = b.traced('storm')        # start, attach at READY, stop at DONE, let it end
        r.rows, r.account, r.summary, r.truth, r.stdout
"""
import glob
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "live"))
import readers  # noqa: E402

LIMIT = 120  # seconds that any one step may take
ATTACHED = 'all probes attached'


class Skip(Exception):
    """The test cannot run on this pair of versions; says why."""


class Process:
    """A child whose output goes to files; line() writes to its stdin."""

    def __init__(self, folder, name, argv, env=None):
        self.name, self.offset = name, 0
        self.paths = {k: os.path.join(folder, f'{name}.{k}') for k in ('out', 'err')}
        full = dict(os.environ)
        full.update({k: str(v) for k, v in (env or {}).items()})
        with open(self.paths['out'], 'wb') as out, open(self.paths['err'], 'wb') as err:
            self.p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=out, stderr=err,
                                      env=full, start_new_session=True)
        self.pid = self.p.pid

    def text(self, which='out'):
        with open(self.paths[which], encoding='utf-8', errors='replace') as f:
            return f.read()

    def tail(self):
        return (self.text()[-600:] + self.text('err')[-1500:]).strip()

    def until(self, word, which='out', nth=1):
        """Waits for the nth line with a word in it; that line."""
        end = time.monotonic() + LIMIT
        while True:
            gone = self.p.poll() is not None
            found = [x for x in self.text(which).splitlines(keepends=True) if word in x and x.endswith('\n')]
            if len(found) >= nth:
                return found[nth - 1].rstrip('\n')
            if gone:
                raise AssertionError(f'{self.name} ended ({self.p.returncode}) without {word!r}: {self.tail()}')
            if time.monotonic() > end:
                raise AssertionError(f'{self.name}: no {word!r} within {LIMIT} s: {self.tail()}')
            time.sleep(0.01)

    def alive(self):
        return self.p.poll() is None

    def signal(self, number):
        self.p.send_signal(number)

    def line(self):
        self.p.stdin.write(b'\n')
        self.p.stdin.flush()

    def wait(self):
        try:
            return self.p.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.name} does not end within {LIMIT} s: {self.tail()}') from None

    def kill(self):
        if self.alive():
            os.killpg(self.pid, signal.SIGKILL)
            self.p.wait()
        self.p.stdin.close()


class Result:
    """Files of one capture, and the program's account once it has ended."""

    def __init__(self, directory, summary_path, log):
        self.directory, self.log = directory, log
        with open(summary_path, encoding='utf-8') as f:
            self.summary = json.load(f)
        dump = readers.dump_of(directory)
        self.rows = readers.read_csv(dump) if dump else []
        self.start = self.summary['attached_boot_ns']
        self.stop = self.summary['stopped_boot_ns']
        self.account, self.truth, self.stdout, self.said, self.status = None, [], '', '', None
        self.pid = None

    def of(self, kind, device=None, event=None):
        return [r for r in self.rows if r['type'] == kind and (device is None or r['device'] == str(device))
                and (event is None or r['event'] == event)]


class Recorder:
    def __init__(self, bench, name, args, env=None):
        self.bench = bench
        self.dir = os.path.join(bench.folder, name)
        self.json = self.dir + '.json'
        argv = [bench.memtap, 'record', '-o', self.dir, '--summary-json', self.json, *args]
        self.process = bench.start(name + '.memtap', argv, env)

    def attached(self):
        self.process.until(ATTACHED, 'err')
        return self

    def stop(self, sig=signal.SIGINT):
        if sig and self.process.alive():
            self.process.signal(sig)
        status = self.process.wait()
        if status:
            raise AssertionError(f'memtap exits with {status}: {self.process.tail()}')
        self.bench.bring()
        result = Result(self.bench.here(self.dir), self.bench.here(self.json), self.process.text('err'))
        result.rc2 = self.bench.rc2()
        return result


class Bench:
    """
    A folder for one test, its processes, and the ways to run a program. On another machine
    (guest.py) the paths are those there; bring() and here() give its files.
    """
    programs = os.path.join(HERE, 'programs')
    steps = 250  # of training that fill a window
    few = 8  # of training, each event of which is looked at

    def __init__(self, run, build):
        self.run, self.build = run, build
        self.memtap = os.path.join(build, 'memtap')
        self.folder = tempfile.mkdtemp(prefix='memtap-real.')
        self.processes = []

    def bring(self):
        """Makes here() give the files as they are now."""

    def here(self, path):
        return path

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for p in self.processes:
            p.kill()
        if kind and os.environ.get('REAL_KEEP'):
            print('kept', self.folder, file=sys.stderr)
        else:
            shutil.rmtree(self.folder)

    def start(self, name, argv, env=None):
        p = Process(self.folder, name, argv, env)
        self.processes.append(p)
        return p

    def program(self, name, *args, env=None, tag='', wait=True, prefix=()):
        """A real program; it waits at READY and at DONE unless wait is off."""
        label = name + tag
        own = {'REAL_OUT': os.path.join(self.folder, label + '.account'),
               'SIM_TRUTH': os.path.join(self.folder, label + '.truth'), 'PYTHONHASHSEED': '0'}
        if wait:
            own['REAL_WAIT'] = '1'
        own.update(env or {})
        script = os.path.join(self.programs, name + '.py')
        p = self.start(label, [*prefix, self.run, script, *args], own)
        p.account, p.truth = own['REAL_OUT'], own['SIM_TRUTH']
        return p

    def site(self, *names):
        """A path among the packages of the environment."""
        return os.path.join(os.path.dirname(os.path.realpath(self.run)), '..', 'site', *names)

    def cann(self):
        """The folder of the simulated CANN's libraries."""
        return os.path.join(os.path.dirname(os.path.realpath(self.run)), 'cann', 'lib64')

    def python(self):
        """The version of Python in the environment: 3.11"""
        with open(self.site('..', 'unpacked'), encoding='utf-8') as f:
            return f.read().split()[0]

    def version(self):
        """The release of torch_npu, for reasons."""
        with open(self.site('torch_npu', 'version.py'), encoding='utf-8') as f:
            return 'torch_npu ' + re.search(r"__version__ = '([^'+]+)", f.read())[1]

    def rc2(self):
        """6.0.rc2 reports behind its lock, and a free always together with the return to the pool."""
        if not os.path.exists(self.site('torch_npu', 'version.py')):
            return False  # MindSpore
        return self.version().split()[1] in ('2.1.0.post6', '2.3.1', '2.4.0rc1')

    def has(self, name):
        """Does torch_npu.npu export this name?"""
        with open(self.site('torch_npu', 'npu', '__init__.py'), encoding='utf-8') as f:
            return re.search(rf'\b{name}\b', f.read()) is not None

    def knows(self, word):
        """Does the library of torch_npu contain this text (a variable that it reads, a function that it calls)?"""
        with open(self.site('torch_npu', 'lib', 'libtorch_npu.so'), 'rb') as f, \
                mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return m.find(word.encode()) >= 0

    def interpreter(self):
        """The Python behind the wrapper, and the environment that the wrapper makes for it."""
        text = 'import json, os, sys; print(json.dumps([sys.executable, dict(os.environ)]))'
        python, env = json.loads(subprocess.run([self.run, '-c', text], capture_output=True, check=True).stdout)
        return python, {k: v for k, v in env.items() if os.environ.get(k) != v}

    def record(self, name, *args, env=None):
        return Recorder(self, name, args, env)

    def end(self, program, *results):
        """Lets a program that stands at DONE end; gives its account to the results."""
        if program.alive():
            program.line()
        status = program.wait()
        self.bring()
        account, truth = None, []
        path = self.here(program.account)
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                account = json.load(f)
        for path in glob.glob(glob.escape(self.here(program.truth)) + '.*'):
            with open(path, encoding='utf-8') as f:
                truth += [json.loads(x) for x in f]
        for r in results:
            r.account, r.truth, r.status = account, truth, status
            r.pid = program.pid
            r.stdout, r.said = printed(program), program.text('err')
        return status

    def traced(self, name, *args, env=None, record=(), tag='', held=False):
        """Attach at READY, stop at DONE; with held memtap stands still between them."""
        p = self.program(name, *args, env=env, tag=tag)
        p.until('READY ')
        rec = self.record(name + tag + '.dir', '-p', p.pid, *record).attached()
        if held:
            rec.process.p.send_signal(signal.SIGSTOP)
        p.line()
        p.until('DONE ')
        if held:
            rec.process.p.send_signal(signal.SIGCONT)
        r = rec.stop()
        self.end(p, r)
        # 6.0.rc2 aborts by itself at its end without a cache.
        if r.status and self.untraced(name, *args, env=env)[0] != r.status:
            raise AssertionError(f'{name} exits with {r.status} when traced: {p.tail()}')
        return r

    def untraced(self, name, *args, env=None):
        """The program alone: its status and what it printed."""
        p = self.program(name, *args, env=env, tag='.alone', wait=False)
        status = p.wait()
        return status, printed(p)


def unharmed(bench, result, name, *args, env=None):
    """Alone the program must print and return the same."""
    status, alone = bench.untraced(name, *args, env=env)
    if status != result.status or alone != result.stdout or not alone:
        raise AssertionError(f'untraced: status {status}, {alone}; traced: {result.status}, {result.stdout}')


def printed(program):
    return [x for x in program.text().splitlines() if not x.startswith(('READY ', 'DONE '))]
