# SPDX-License-Identifier: Apache-2.0
"""What every live test needs: its own folder, jobs and recorders that are always cleaned up.

    class T(LiveTest):
        def test_x(self):
            job = self.job('--seconds', 2, start=False)
            rec = self.record('-p', job.pid)
            job.go()
            result = rec.stop()          # or rec.wait()
            job.wait()
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import readers

BUILD = os.environ.get('MEMTAP_BUILD', '')
LIMIT = 90  # seconds that any one step of a test may take, on a machine that others use, too
LONG = 300  # seconds of a job that the test itself ends, however slow the machine
ATTACHED = 'all probes attached'


def built(*parts):
    return os.path.join(BUILD, *parts)


def memtap():
    return built('memtap')


def sim(*parts):
    """The simulated stack; of another build folder when memtap's own has none (sanitizers)."""
    return os.path.join(os.environ.get('MEMTAP_SIM') or BUILD, 'tests', 'sim', *parts)


def clock_offset():
    """Wall clock minus boot time, ns, from the closest of several readings."""
    best = None
    for _ in range(20):
        a = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        r = time.clock_gettime_ns(time.CLOCK_REALTIME)
        b = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if best is None or b - a < best[0]:
            best = b - a, r - (a + b) // 2
    return best[1]


def why_not():
    """Why live tests cannot run here, or None."""
    if os.geteuid() != 0:
        return 'not root'
    for path in (memtap(), sim('sim-train')):
        if not os.access(path, os.X_OK):
            return f'{path} is not built'
    # The output is opened before BPF is tried.
    with tempfile.TemporaryDirectory(prefix='memtap-live-') as d:
        done = subprocess.run([memtap(), 'record', '-d', '0.2', '-q', '-o', os.path.join(d, 'out'), '--', '/bin/true'],
                              capture_output=True, text=True, timeout=LIMIT)
    for word in ('CAP_', 'Operation not permitted'):
        if word in done.stderr:
            return 'BPF does not work here: ' + done.stderr.strip().splitlines()[-1]
    return None


class Process:
    """A child in a process group of its own, stdout and stderr in files."""

    def __init__(self, test, name, argv, env=None, **kw):
        self.test, self.name = test, name
        self.out_path, self.err_path = test.path(name + '.out'), test.path(name + '.err')
        full = dict(os.environ)
        full.pop('LD_LIBRARY_PATH', None)
        full.update({k: str(v) for k, v in (env or {}).items()})
        self.offset = 0
        with open(self.out_path, 'wb') as out, open(self.err_path, 'wb') as err:
            self.p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=out,
                                      stderr=err, env=full, start_new_session=True, **kw)
        self.pid = self.p.pid
        test.processes.append(self)

    def stdout(self):
        with open(self.out_path, errors='replace') as f:
            return f.read()

    def stderr(self):
        with open(self.err_path, errors='replace') as f:
            return f.read()

    def until(self, text, where='stdout', limit=LIMIT):
        """Waits for a line with this text; the line."""
        end = time.monotonic() + limit
        while True:
            ended = self.p.poll() is not None
            for line in getattr(self, where)().splitlines():
                if text in line:
                    return line
            if ended:
                raise AssertionError(f'{self.name} ended ({self.p.returncode}) without {text!r}:\n'
                                     + self.stdout()[-1000:] + self.stderr()[-2000:])
            if time.monotonic() > end:
                raise AssertionError(f'{self.name}: no {text!r} within {limit} s')
            time.sleep(0.01)

    def line(self, text='\n'):
        self.p.stdin.write(text.encode())
        self.p.stdin.flush()

    def wait(self, limit=LIMIT):
        try:
            return self.p.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.name} does not end within {limit} s') from None

    def signal(self, sig):
        self.p.send_signal(sig)

    def kill(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.p.wait()
        if self.p.stdin:
            try:
                self.p.stdin.close()
            except BrokenPipeError:
                pass


class Job(Process):
    """sim-train with ground truth."""

    def __init__(self, test, name, args, env=None, start=True, prefix=(), wait_end=False, exe=None,
                 truth=True):
        self.truth_base = test.path(name + '.truth')
        self.held = not start or wait_end
        argv = [*prefix, exe or sim('sim-train'), *(['--truth', self.truth_base] if truth else []), *args]
        if self.held:
            argv.append('--wait')
        super().__init__(test, name, argv, env)
        line = self.until('READY ')
        self.pid_of_job = int(line.split()[1])
        self.released = False
        if start and self.held:
            self.go()

    def go(self):
        self.line()

    def finish(self, limit=LIMIT):
        """Lets a held job end, and waits; its exit status."""
        if self.held:
            self.until('DONE', limit=limit)
            self.line()
        return self.wait(limit)

    def ranks(self):
        return [int(l.split()[2]) for l in self.stdout().splitlines() if l.startswith('RANK ')]


class Result:
    """What a recorder left behind."""

    def __init__(self, rec):
        self.rc, self.stderr, self.dir = rec.p.returncode, rec.stderr(), rec.dir
        self.stdout = rec.stdout()
        self.db = rec.db
        try:
            with open(rec.json) as f:
                self.summary = json.load(f)
        except FileNotFoundError:
            self.summary = None
        self._rows = None

    @property
    def dump(self):
        return readers.dump_of(self.dir, 'db' if self.db else 'csv')

    @property
    def rows(self):
        if self._rows is None:
            if self.dump is None:
                self._rows = []
            elif self.db:
                self._rows = readers.read_db(self.dump) + readers.read_preattach(self.dump)
            else:
                self._rows = readers.read_csv(self.dump)
        return self._rows

    def traces(self):
        return {k: readers.read_trace(p) for k, p in readers.traces_of(self.dir).items()}

    def of(self, *events):
        return [r for r in self.rows if r['event'] in events]


class Recorder(Process):
    def __init__(self, test, name, args, env=None, db=False, prefix=(), attached=True, out=None, exe=None):
        self.dir = out or test.path(name + '.d')
        self.json = test.path(name + '.json')
        self.db = db
        argv = [*prefix, exe or memtap(), 'record', '-o', self.dir, '--summary-json', self.json]
        if db:
            argv += ['--data-format', 'db']
        super().__init__(test, name, [*argv, *args], env)
        if attached:
            self.until(ATTACHED, 'stderr')

    def result(self):
        return Result(self)

    def stop(self, sig=signal.SIGINT, limit=LIMIT):
        self.signal(sig)
        self.wait(limit)
        return Result(self)

    def ended(self, limit=LIMIT):
        self.wait(limit)
        return Result(self)


def alone(test):
    """Of a test that looks at the whole machine: no other may run beside it (run.py --jobs)."""
    test.alone = True
    return test


class LiveTest(unittest.TestCase):
    """Base of the tests: a folder and a list of processes, both gone afterwards."""

    maxDiff = 4000

    def setUp(self):
        self.processes = []
        self.cleanups = []
        self.dir = tempfile.mkdtemp(prefix='memtap-live-')
        os.chmod(self.dir, 0o755)
        self.count = 0

    def tearDown(self):
        for p in reversed(self.processes):
            p.kill()
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for f in reversed(self.cleanups):
            f()
        if os.environ.get('MEMTAP_KEEP'):
            print('kept', self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def strays(self):
        """Processes of ours that left their group: found by the test's folder in their arguments."""
        found = []
        for d in os.listdir('/proc'):
            if not d.isdigit() or int(d) == os.getpid():
                continue
            try:
                with open(f'/proc/{d}/cmdline', 'rb') as f:
                    if self.dir.encode() + b'/' in f.read():
                        found.append(int(d))
            except OSError:
                pass
        return found

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def number(self, what):
        self.count += 1
        return f'{what}{self.count}'

    def job(self, *args, **kw):
        return Job(self, self.number('job'), args, **kw)

    def start(self, name, argv, **kw):
        return Process(self, self.number(name), argv, **kw)

    def record(self, *args, **kw):
        return Recorder(self, self.number('rec'), args, **kw)

    def run_memtap(self, *args, env=None, limit=LIMIT, prefix=()):
        full = dict(os.environ)
        full.update(env or {})
        return subprocess.run([*prefix, memtap(), *map(str, args)], capture_output=True, text=True,
                              timeout=limit, env=full, stdin=subprocess.DEVNULL)
