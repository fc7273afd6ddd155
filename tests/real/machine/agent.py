# SPDX-License-Identifier: Apache-2.0
"""In the emulated machine: imports the framework once, then starts programs by forking itself.

Requests are lines of JSON on the console, answers too, behind a mark that no kernel message has.
Bulk goes by /dev/exchange as a tar archive: the other side writes the disk, or reads it. The
machine is saved when the agent has said READY: each test starts from there.
"""
import ctypes
import fcntl
import json
import os
import runpy
import signal
import sys
import tarfile
import time
import traceback
import tty
import warnings

MARK = '@@ '
CONSOLE = '/dev/ttyAMA0'
BLKFLSBUF = 0x1261

warnings.filterwarnings('ignore')


class Child:
    """A process with its output in files, its standard input a pipe."""

    def __init__(self, name, folder, argv, env, fork):
        self.status = None
        self.paths = {k: os.path.join(folder, f'{name}.{k}') for k in ('out', 'err')}
        for p in self.paths.values():
            with open(p, 'wb'):
                pass
        r, self.stdin = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(r)
            return
        try:
            os.setsid()
            for fd, source in ((0, r), (1, self.paths['out']), (2, self.paths['err'])):
                os.dup2(source if fd == 0 else os.open(source, os.O_WRONLY | os.O_APPEND), fd)
            os.closerange(3, 256)
            os.environ.update(env)
            if not fork:
                os.execv(argv[0], argv)
        except BaseException:
            traceback.print_exc()
            os._exit(127)
        raise Become(argv)

    def ended(self):
        """The exit status as subprocess gives it, None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status


class Become(BaseException):
    """Raised in a child: leave the agent, be the program."""


def become(argv):
    """A program of tests/real/programs, as if Python had just been started on it."""
    if os.environ.get('SIM_TRUTH'):
        truth = ctypes.CDLL('libsim_truth.so')
        truth.sim_truth_start(os.environ['SIM_TRUTH'].encode())
    sys.stdin, sys.stdout = os.fdopen(0, 'r'), os.fdopen(1, 'w')
    sys.stderr = os.fdopen(2, 'w', buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(argv[0]))
    runpy.run_path(argv[0], run_name='__main__')


class Agent:
    def __init__(self):
        self.fd = os.open(CONSOLE, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self.fd)
        self.rest = b''
        self.children = {}

    def say(self, **answer):
        data = (MARK + json.dumps(answer) + '\n').encode()
        while data:
            data = data[os.write(self.fd, data):]

    def hear(self):
        while b'\n' not in self.rest:
            self.rest += os.read(self.fd, 4096)
        line, self.rest = self.rest.split(b'\n', 1)
        return json.loads(line)

    def serve(self):
        while True:
            r = self.hear()
            try:
                self.say(**(getattr(self, 'do_' + r.pop('do'))(**r) or {}))
            except Exception:
                self.say(error=traceback.format_exc())

    def text(self, name, which):
        with open(self.children[name].paths[which], encoding='utf-8', errors='replace') as f:
            return f.read()

    def do_start(self, name, folder, argv, env, fork):
        c = self.children[name] = Child(name, folder, argv, env, fork)
        return {'pid': c.pid}

    def do_text(self, name, which):
        return {'text': self.text(name, which)}

    def do_until(self, name, which, word, nth, seconds):
        """Waits for the nth line with a word, for the end of the process, or so many seconds."""
        end = time.monotonic() + seconds
        while True:
            status = self.children[name].ended()
            lines = [x for x in self.text(name, which).splitlines(keepends=True) if word in x and x.endswith('\n')]
            if len(lines) >= nth or status is not None or time.monotonic() > end:
                return {'line': lines[nth - 1].rstrip('\n') if len(lines) >= nth else None, 'status': status}
            time.sleep(0.02)

    def do_wait(self, name, seconds):
        end = time.monotonic() + seconds
        while self.children[name].ended() is None and time.monotonic() < end:
            time.sleep(0.02)
        return {'status': self.children[name].status}

    def do_signal(self, name, number, group):
        pid = self.children[name].pid
        (os.killpg if group else os.kill)(pid, number)

    def do_line(self, name):
        os.write(self.children[name].stdin, b'\n')

    def do_take(self, size, folder):
        """Unpacks what the other side has put on the disk."""
        with open('/dev/exchange', 'rb') as disk:
            fcntl.ioctl(disk, BLKFLSBUF)
            with open('/tmp/taken.tar', 'wb') as f:
                while size:
                    data = disk.read(min(size, 1 << 20))
                    size -= len(data)
                    f.write(data)
        os.makedirs(folder, exist_ok=True)
        with tarfile.open('/tmp/taken.tar') as t:
            t.extractall(folder)
        os.unlink('/tmp/taken.tar')

    def do_give(self, folder):
        """Puts a folder on the disk; the size of the archive."""
        with open('/dev/exchange', 'wb') as disk:
            with tarfile.open(fileobj=disk, mode='w|', bufsize=1 << 18) as t:
                t.add(folder, '.')
            disk.flush()
            size = disk.tell()
            os.fsync(disk.fileno())
        return {'size': size}


def main():
    agent = Agent()
    t = time.monotonic()
    try:
        import torch
        import torch.utils.checkpoint
        import torch_npu  # noqa: F401
    except Exception:
        agent.say(error=traceback.format_exc())
        return None
    agent.say(ready=torch.__version__, seconds=round(time.monotonic() - t, 1))
    try:
        agent.serve()
    except Become as e:
        return e.args[0]
    return None


if __name__ == '__main__':
    program = main()
    if program:
        become(program)
