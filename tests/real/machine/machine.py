# SPDX-License-Identifier: Apache-2.0
"""An emulated aarch64 machine: boots it, saves it, starts it from the saved state, talks to its agent.

    machine.py save FOLDER     boot FOLDER's kernel, wait until the framework is imported, save FOLDER/state

FOLDER holds vmlinuz, initrd.gz, root.img (scripts/real-machine.sh makes them). A saved state needs
the same QEMU and the same options, sizes of disks and image.
"""
import io
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

EMULATOR = 'qemu-system-aarch64'
OPTIONS = ['-M', 'virt', '-cpu', 'neoverse-n1', '-smp', '2', '-m', '1536', '-accel', 'tcg,thread=multi',
           '-display', 'none', '-no-reboot', '-nic', 'none', '-serial', 'stdio']
EXCHANGE = 96 << 20  # bytes of the disk that files go by
MARK = '@@ '
BOOT, CALL, MOVE = 540, 120, 300  # seconds: until READY; for an answer; to save or load


class Error(Exception):
    """The machine does not do what it should; says what it said last."""


class Monitor:
    """QEMU's own control socket (QMP)."""

    def __init__(self, path, alive):
        end = time.monotonic() + CALL
        self.s = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.s.connect(path)
                break
            except OSError as e:
                if not alive() or time.monotonic() > end:
                    raise Error(f'no connection to the monitor of QEMU: {e}') from None
                time.sleep(0.05)
        self.s.settimeout(CALL)
        self.file = self.s.makefile('r', encoding='utf-8')
        self.file.readline()  # the greeting
        self.call('qmp_capabilities')

    def call(self, command, **arguments):
        self.s.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while True:
            line = self.file.readline()
            if not line:
                raise Error(f'QEMU closes its monitor at {command}')
            answer = json.loads(line)
            if 'return' in answer:
                return answer['return']
            if 'error' in answer:
                raise Error(f'QEMU refuses {command}: {answer["error"]["desc"]}')

    def until(self, command, done, limit=MOVE):
        """Asks again and again until the answer will do."""
        end = time.monotonic() + limit
        while True:
            answer = self.call(command)
            if done(answer):
                return answer
            if time.monotonic() > end:
                raise Error(f'{command} still says {answer} after {limit} s')
            time.sleep(0.05)


class Machine:
    """
    with Machine(FOLDER, saved=True) as m:
        m.put({'job/memtap': PATH}, '/tmp'); m.call('start', name=..., ...); m.get('/tmp/job', HERE)
    """

    def __init__(self, folder, saved):
        self.folder = folder
        self.work = tempfile.mkdtemp(prefix='memtap-machine.')
        self.disk, self.socket = self.work + '/exchange', self.work + '/qmp'
        with open(self.disk, 'wb') as f:
            f.truncate(EXCHANGE)
        # It ends with this process, however that ends.
        argv = ['setpriv', '--pdeathsig', 'KILL', EMULATOR, *OPTIONS, '-kernel', folder + '/vmlinuz', '-initrd', folder + '/initrd.gz',
                '-append', 'console=ttyAMA0 quiet loglevel=1 panic=-1', '-qmp', f'unix:{self.socket},server=on,wait=off']
        for name, path, more in (('root', folder + '/root.img', ',readonly=on'), ('exchange', self.disk, '')):
            argv += ['-drive', f'if=none,id={name},format=raw,cache=unsafe,file={path}{more}',
                     '-device', f'virtio-blk-device,drive={name},serial={name}']
        if saved:
            argv += ['-incoming', 'exec:exec cat ' + shlex.quote(folder + '/state')]
        self.said, self.rest = [], b''
        with open(self.work + '/err', 'wb') as err:
            self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                      start_new_session=True)
        try:
            self.monitor = Monitor(self.socket, lambda: self.p.poll() is None)
            if saved:
                self.monitor.until('query-status', lambda s: s['status'] != 'inmigrate')
                self.monitor.call('cont')
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.p.poll() is None:
            os.killpg(self.p.pid, signal.SIGKILL)
        self.p.wait()
        self.p.stdin.close()
        self.p.stdout.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def trouble(self, what):
        with open(self.work + '/err', encoding='utf-8', errors='replace') as f:
            return Error(f'{what}; console: {self.said[-8:]} QEMU: {f.read()[-500:]!r}')

    def answer(self, limit):
        """The agent's next answer; what else the console says is kept for messages."""
        end = time.monotonic() + limit
        while True:
            while b'\n' in self.rest:
                line, self.rest = self.rest.split(b'\n', 1)
                text = line.decode('utf-8', 'replace').rstrip('\r')
                if MARK in text:
                    answer = json.loads(text.split(MARK, 1)[1])
                    if 'error' in answer:
                        raise Error('the agent: ' + answer['error'])
                    return answer
                self.said.append(text)
                if text.startswith('INIT '):
                    raise self.trouble('the machine ends')
            left = end - time.monotonic()
            if left <= 0:
                raise self.trouble(f'no answer within {limit} s')
            if select.select([self.p.stdout], [], [], left)[0]:
                data = os.read(self.p.stdout.fileno(), 65536)
                if not data:
                    raise self.trouble('QEMU ended')
                self.rest += data

    def call(self, do, limit=CALL, **arguments):
        self.p.stdin.write(json.dumps({'do': do, **arguments}).encode() + b'\n')
        self.p.stdin.flush()
        return self.answer(limit)

    def put(self, files, folder):
        """Files here, by the name that they get below a folder there."""
        with open(self.disk, 'r+b') as disk:
            with tarfile.open(fileobj=disk, mode='w') as t:
                for name, path in files.items():
                    t.add(path, name)
            disk.flush()
            size = disk.tell()
        self.call('take', size=size, folder=folder)

    def get(self, folder, into):
        """A folder there, below a folder here."""
        size = self.call('give', folder=folder, limit=2 * CALL)['size']
        with open(self.disk, 'rb') as disk:
            data = disk.read(size)
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            t.extractall(into)

    def save(self):
        """Writes the state, whole or not at all; the machine stands still then."""
        new = self.folder + '/state.new'
        self.monitor.call('stop')
        self.monitor.call('migrate-set-parameters', **{'max-bandwidth': 100 << 30})
        self.monitor.call('migrate', uri='exec:exec cat >' + shlex.quote(new))
        end = self.monitor.until('query-migrate', lambda s: s.get('status') in ('completed', 'failed'))
        if end['status'] != 'completed':
            raise Error(f'QEMU cannot save the machine: {end}')
        os.rename(new, self.folder + '/state')


def save(folder):
    for last in (False, True):
        try:
            t = time.monotonic()
            with Machine(folder, saved=False) as m:
                ready = m.answer(BOOT)
                m.save()
            print(f'machine: torch {ready["ready"]} imported in {ready["seconds"]} s, saved after '
                  f'{time.monotonic() - t:.0f} s, {os.stat(folder + "/state").st_size >> 20} MiB', file=sys.stderr)
            return
        except Error as e:
            # Emulated kernels now and then stop before init, or lose a timer.
            print('machine:', e, file=sys.stderr)
            if last:
                sys.exit(1)


if __name__ == '__main__':
    if len(sys.argv) != 3 or sys.argv[1] != 'save':
        sys.exit(__doc__)
    save(os.path.abspath(sys.argv[2]))
