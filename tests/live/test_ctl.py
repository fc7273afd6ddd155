# SPDX-License-Identifier: Apache-2.0
"""memtap ctl: windows by its requests, marks, snapshots, flush; who may ask, and whom it does not heed."""
import json
import os
import signal
import socket
import stat
import subprocess
import time

import compare as C
import readers
import truth as T
from basic import BasicTest
from harness import LIMIT, LONG, memtap

ALWAYS = ('MSTX', 'SYSTEM')
RUN = '/run/memtap'


class Ctl(BasicTest):
    def ctl(self, pid, *words, rc=0, prefix=(), **kw):
        done = self.run_memtap('ctl', '-J', pid, *words, prefix=prefix, **kw)
        self.assertEqual(done.returncode, rc, (words, done.stdout, done.stderr))
        return json.loads(done.stdout) if done.stdout else done.stderr

    def refused(self, pid, *words, status=1, **kw):
        done = self.run_memtap('ctl', pid, *words, **kw)
        self.assertEqual((done.returncode, done.stdout), (status, ''), (words, done.stderr))
        return done.stderr

    def recorded(self, *options, job=(), **kw):
        """A job that waits, and a recorder on it."""
        j = self.job('--seconds', LONG, '--rate', 1500, *job, start=False)
        return j, self.record('-p', j.pid, *options, **kw)

    def ended(self, job, rec):
        self.stop(job)
        return rec.ended()

    def times(self, result, answers):
        return [int(a['time']) - result.summary['boot_to_real_ns'] for a in answers]

    def test_windows(self):
        """All of the windows and nothing else, with the right sums; asked of memtap and of the process."""
        job, rec = self.recorded('--collect-mode=custom', job=('--threads', 2))
        job.go()
        answers = []
        for pid in (rec.pid, job.pid):
            self.pause(1.5)
            answers.append(self.ctl(pid, 'start'))
            self.pause(0.5)
            answers.append(self.ctl(pid, 'stop'))
        self.pause(0.3)
        result = self.ended(job, rec)
        self.assertEqual(result.rc, 0, result.stderr)
        t = self.times(result, answers)
        records = self.records(job)
        offset = result.summary['boot_to_real_ns']
        outside = [r for r in result.rows if r['event'] not in ALWAYS and
                   not any(a <= r['time'] - offset <= b for a, b in zip(t[::2], t[1::2]))]
        self.assertEqual([C.brief(r) for r in outside[:5]], [])
        for begin, end in zip(t[::2], t[1::2]):
            rows = [r for r in result.rows if r['event'] not in ALWAYS and begin <= r['time'] - offset <= end]
            report = C.compare(rows, records, result.summary, T.Rules(), window=(begin, end),
                               keep=lambda e: e.event not in ALWAYS)
            self.assertEqual(list(report)[:5], [])
            self.assertGreater(report.matched, 300)
            self.assertTrue(report.kinds['KERNEL_LAUNCH KERNEL_LAUNCH'], report.kinds)
        self.assertEqual(C.accounting(result.rows, result.summary), [])
        traces = [r for r in result.rows if r['type'] in ('START_TRACE', 'STOP_TRACE')]
        self.assertEqual([(r['type'][:4], r['time'] - offset) for r in traces[1:5]],
                         [('STAR', t[0]), ('STOP', t[1]), ('STAR', t[2]), ('STOP', t[3])])
        self.assertEqual(traces[0]['type'], 'STOP_TRACE')
        # Launches are not even taken where nothing is collected.
        outside = [e for e in T.expected(records, T.Rules())
                   if not any(a <= e.t1 <= b for a, b in zip(t[::2], t[1::2]))]
        launches = sum(e.event == 'KERNEL_LAUNCH' for e in outside)
        memory = sum(e.event in C.BLOCKS for e in outside)
        self.assertGreater(launches, 1000)
        self.assertLess(result.summary['without_row']['outside of start and stop'], memory + launches // 2)

    def test_stop_and_start_of_all(self):
        """Without custom: it is stopped, and started again; stacks are there from the first row on."""
        job, rec = self.recorded('--call-stack=c')
        job.go()
        self.pause(0.3)
        answers = [self.ctl(rec.pid, 'stop')]
        self.pause(1.5)
        self.assertTrue(self.ctl(rec.pid, 'status')['paused'])
        answers.append(self.ctl(rec.pid, 'start'))
        self.assertEqual(self.ctl(rec.pid, 'stop')['processes'], 1)
        self.assertEqual(self.ctl(rec.pid, 'start')['processes'], 1)
        self.pause(0.4)
        result = self.ended(job, rec)
        t = self.times(result, answers)
        offset = result.summary['boot_to_real_ns']
        memory = [r for r in result.rows if r['event'] in C.BLOCKS]
        self.assertEqual([r for r in memory if t[0] < r['time'] - offset < t[1]], [])
        # A call that began before the start and ends behind it has none.
        bare = [r for r in memory if not r['call_c'] and r['time'] - offset > t[1] + 20 * T.NS_MS]
        self.assertEqual([C.brief(r) for r in bare[:3]], [])
        self.assertTrue([r for r in memory if r['time'] - offset > t[1]])

    def test_requests(self):
        job, rec = self.recorded('--collect-mode=custom')
        job.go()
        self.assertEqual(self.ctl(rec.pid, 'status')['processes'], 1)
        self.ctl(job.pid, 'mark', 'a', 'mark, "quoted"')
        self.ctl(rec.pid, 'start')
        self.ctl(rec.pid, 'step')
        self.ctl(rec.pid, 'step')
        self.pause(0.3)
        self.assertEqual(self.ctl(rec.pid, 'snapshot')['processes'], 1)
        self.ctl(job.pid, 'snapshot', 'my', 'name')
        # All rows from before the request are in the file when the answer comes.
        before = time.time_ns()
        answer = self.ctl(rec.pid, 'flush')
        rows = readers.read_csv(readers.dump_of(rec.dir, 'csv'))
        self.assertGreaterEqual(len(rows), answer['rows'])
        self.assertGreater(max(r['time'] for r in rows), before - 100 * T.NS_MS)
        self.assertEqual(answer['dir'], rec.dir)
        result = self.ended(job, rec)
        self.assertEqual([r['name'] for r in result.rows if r['type'] == 'STEP'], ['1', '2'])
        marks = [r['name'] for r in result.rows if r['type'] == 'Mark' and r['tid'] == r['pid']]
        self.assertIn('a mark, "quoted"', marks)
        shots = [r for r in result.rows if r['event'] == 'SNAPSHOT']
        self.assertEqual([r['name'] for r in shots], ['Memory Snapshot', 'my name'])
        for s in shots:
            last = [r for r in result.rows if r['type'] == 'PTA' and r['time'] <= s['time']][-1]['attr']
            self.assertEqual((s['attr']['allocated'], s['attr']['reserved']), (last['used'], last['total']))
        self.assertEqual(C.accounting(result.rows, result.summary), [])

    def test_flush_in_the_order_of_blocks(self):
        """What waits for the end of its block is told."""
        job, rec = self.recorded('--order', 'block', job=('--leak',))
        job.go()
        self.pause(1)
        self.assertGreater(self.ctl(rec.pid, 'flush')['waiting'], 0)
        text = self.run_memtap('ctl', rec.pid, 'flush').stdout
        self.assertIn('in the journal', text)
        self.ended(job, rec)

    def test_refusals(self):
        job, rec = self.recorded()
        job.go()
        for words, word in ((('begin',), 'no such request'), (('mark',), 'wants a text'), (('mark', ''), 'wants a text'),
                            (('mark', 'x' * 300), 'longer than 254'), (('start', 'now'), 'takes no text'),
                            (('status', 'now'), 'takes no text'), (('mark', '=1+1'), 'begins as a formula')):
            self.assertIn(word, self.refused(rec.pid, *words))
        for words, word in ((('mark', 'a\nb'), 'one line'), (('mark', 'x' * 5000), 'too long')):
            self.assertIn(word, self.refused(rec.pid, *words, status=2))
        self.assertIn('memtap record -p %d' % os.getpid(), self.refused(os.getpid(), 'start'))
        done = self.run_memtap('ctl', '-J', os.getpid(), 'start')
        self.assertEqual((done.returncode, json.loads(done.stdout)['ok']), (1, False))
        self.assertTrue(os.path.isabs(self.ctl(rec.pid, 'status')['dir']))
        for args in (('ctl',), ('ctl', 'x', 'start'), ('ctl', '1'), ('ctl', '--what', '1', 'start')):
            self.assertEqual(self.run_memtap(*args).returncode, 2, args)
        # Two that trace it: neither is guessed.
        other = self.record('-p', job.pid)
        self.assertIn('several', self.refused(job.pid, 'start'))
        other.stop()
        self.ctl(job.pid, 'status')
        # Of one that was killed the socket is left, and nobody listens.
        rec.signal(signal.SIGKILL)
        rec.wait()
        self.assertIn('no memtap that records', self.refused(rec.pid, 'start'))
        left = f'{RUN}/{rec.pid}.sock'
        self.assertTrue(os.path.exists(left))
        # The next one sweeps it away, and leaves what somebody listens to.
        with socket.socket(socket.AF_UNIX) as s:
            used = f'{RUN}/{(1 << 22) - 1}.sock'
            s.bind(used)
            s.listen()
            other = self.record('-p', job.pid)
            self.assertEqual([os.path.exists(p) for p in (left, used)], [False, True])
            os.unlink(used)
        self.ctl(other.pid, 'status')
        self.ended(job, other)

    def test_number_in_use(self):
        """A dead socket of its own number is replaced; one that somebody listens to is not taken away."""
        code = ('import os, socket, sys\n'
                'os.makedirs("/run/memtap", 0o700, exist_ok=True)\n'
                's = socket.socket(socket.AF_UNIX)\n'
                's.bind("/run/memtap/%d.sock" % os.getpid())\n'
                'if sys.argv[1] == "listen":\n'
                '    s.listen(); s.set_inheritable(True)\n'
                'os.execvp(sys.argv[2], sys.argv[2:])\n')
        job = self.job('--seconds', LONG, '--rate', 1500)
        rec = self.record('-p', job.pid, prefix=('python3', '-c', code, 'dead'))
        self.assertEqual(self.ctl(rec.pid, 'status')['processes'], 1)
        self.assertNotIn('no socket', rec.stderr())
        rec.stop()
        self.assertFalse(os.path.exists(f'{RUN}/{rec.pid}.sock'))
        rec = self.record('-p', job.pid, prefix=('python3', '-c', code, 'listen'))
        self.assertIn('another container has our number', rec.stderr())
        rec.stop()
        self.assertTrue(os.path.exists(f'{RUN}/{rec.pid}.sock'))
        os.unlink(f'{RUN}/{rec.pid}.sock')
        self.stop(job)

    def test_permissions(self):
        job, rec = self.recorded()
        job.go()
        path = f'{RUN}/{rec.pid}.sock'
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(RUN).st_mode), 0o700)
        nobody = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')
        text = self.refused(rec.pid, 'start', prefix=nobody)
        self.assertIn('Permission denied', text)
        self.ended(job, rec)
        self.assertFalse(os.path.exists(path))

    def test_peer(self):
        """Where folder and socket have been opened up the server looks who asks."""
        job = self.job('--seconds', LONG, '--rate', 1500)
        rec = self.record('-p', job.pid, prefix=('unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /run && exec "$@"',
                                                 '--'))
        folder = f'/proc/{rec.pid}/root{RUN}'
        os.chmod(f'/proc/{rec.pid}/root/run', 0o755)
        os.chmod(folder, 0o755)
        path = f'{folder}/{rec.pid}.sock'
        os.chmod(path, 0o666)
        code = ('import os, socket, sys\n'
                's = socket.socket(socket.AF_UNIX)\n'
                'os.chdir(sys.argv[1])\n'
                'os.setgroups([]); os.setgid(65534); os.setuid(65534)\n'
                's.settimeout(20); s.connect(sys.argv[2]); s.sendall(b"stop\\n"); print(s.recv(4096).decode())\n')
        done = subprocess.run(['python3', '-c', code, folder, os.path.basename(path)], capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertIn('only root and the user who records', done.stdout, done.stderr)
        # And the client trusts no folder that others may write to.
        os.chmod(folder, 0o777)
        text = self.refused(rec.pid, 'start', prefix=('nsenter', '-m', '-t', str(rec.pid)))
        self.assertIn('Operation not permitted', text)
        self.stop(job)
        self.assertEqual(rec.ended().rc, 0)

    def test_links(self):
        """A folder that is a link is not used; without any the recording goes on, and says so."""
        job = self.job('--seconds', LONG, '--rate', 1500)
        trap = self.path('trap')
        os.mkdir(trap, 0o700)
        # memtap may lie below what is mounted over.
        script = ('exec 9<"$1" && shift && mount -t tmpfs none /run && ln -s "$TRAP" /run/memtap && mount -t tmpfs none /tmp && '
                  'ln -s "$TRAP" /tmp/memtap-0 && exec /proc/self/fd/9 "$@"')
        rec = self.start('rec', ['unshare', '-m', 'sh', '-c', script, '--', memtap(), 'record', '-p', job.pid,
                                 '--collect-mode=custom', '-o', '/tmp/out'], env={'TRAP': trap, 'XDG_RUNTIME_DIR': ''})
        rec.until('no socket for memtap ctl', 'stderr')
        self.assertIn('only by the program itself', rec.stderr())
        self.assertEqual(os.listdir(trap), [])
        rec.signal(signal.SIGINT)
        rec.wait()
        self.stop(job)

    def test_hostile_clients(self):
        """Ones that do not read, send no line, too long ones or too much, and many: nobody waits for them."""
        job, rec = self.recorded(job=('--threads', 2))
        job.go()
        path = f'{RUN}/{rec.pid}.sock'
        clients = []

        def client():
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)  # waits while too many do so
            s.settimeout(5)
            clients.append(s)
            return s

        def send(s, data):
            s.setblocking(False)
            try:
                while data:
                    data = data[s.send(data):]
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            s.setblocking(True)
            s.settimeout(5)
        for _ in range(5):
            send(client(), b'status\n' * 50000)  # and does not read
            send(client(), b'mark ' + b'x' * 100000)  # no end of line
            send(client(), b'\0\0\n\xff\xfe\n' * 1000)
            send(client(), b'mark m\n' * 20000)
            client().close()
        for _ in range(30):
            client()
        answer = self.ctl_until(rec.pid)
        self.assertEqual(answer['processes'], 1)
        for s in clients:
            s.close()
        self.assertEqual(self.ctl_until(rec.pid)['processes'], 1)
        self.pause(0.5)
        result = self.ended(job, rec)
        self.assertEqual(result.rc, 0, result.stderr)
        report = C.compare([r for r in result.rows if r['name'] != 'm'], self.records(job), result.summary, T.Rules())
        self.assertEqual([x for x in report if 'Mark' not in x][:5], [])
        self.assertEqual(C.accounting(result.rows, result.summary), [])

    def test_many_lines_at_once(self):
        """More requests than memtap takes at a time, all in one write; the answers are there, also when
        the client has closed its end for writing."""
        job, rec = self.recorded()
        job.go()
        for lines in (['status'] * 100, ['flush'], ['status'] * 40 + ['snapshot', 'flush']):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(f'{RUN}/{rec.pid}.sock')
                s.settimeout(20)
                s.sendall(''.join(line + '\n' for line in lines).encode())
                s.shutdown(socket.SHUT_WR)
                got = b''
                while True:
                    part = s.recv(1 << 16)
                    got += part
                    if not part:
                        break
            answers = [json.loads(line) for line in got.splitlines()]
            self.assertEqual([a['ok'] for a in answers], [True] * len(lines), answers[-1:])
        self.assertEqual(self.ended(job, rec).rc, 0)

    def test_stopped_recorder(self):
        """One that does not answer holds up nobody who asks for another's process; it is told."""
        job, rec = self.recorded()
        job.go()
        idle = self.job('--seconds', LONG, start=False)
        other = self.record('-p', idle.pid)
        other.signal(signal.SIGSTOP)
        try:
            begin = time.monotonic()
            done = self.run_memtap('ctl', job.pid, 'mark', 'm')
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'memtap {other.pid} does not answer', done.stderr)
            self.assertLess(time.monotonic() - begin, 25)
        finally:
            other.signal(signal.SIGCONT)
        other.stop()
        self.stop(idle)
        self.assertEqual(self.ended(job, rec).rc, 0)

    def test_hostile_recorder(self):
        """What a socket answers that is no memtap's is not handed to the terminal as it is."""
        pid = (1 << 22) - 2
        # Others that run beside it must not ask there.
        folder = self.path('sockets')
        os.mkdir(folder, 0o700)
        own = ('unshare', '-m', 'sh', '-c', 'mkdir -p -m 0700 /run/memtap && mount --bind "$0" /run/memtap && exec "$@"', folder)
        for answer, rc, out in ((b'{"ok":true,"x":"\x1b[2J"}', 0, '{"ok":true,"x":"\\u001b[2J"}\n'),
                                (b'{"ok":true}\x1b[2J', 1, ''), (b'\x1b[2J', 1, '')):
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(f'{folder}/{pid}.sock')
                s.listen()
                p = subprocess.Popen([*own, memtap(), 'ctl', '-J', str(pid), 'status'], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
                s.settimeout(LIMIT)
                c = s.accept()[0]
                c.recv(100)
                c.sendall(answer + b'\n')
                done = p.communicate(timeout=LIMIT)
                c.close()
            os.unlink(f'{folder}/{pid}.sock')
            self.assertEqual((p.returncode, done[0]), (rc, out), done)
            self.assertEqual('cannot be understood' in done[1], bool(rc), done)

    def ctl_until(self, pid):
        """An answer within seconds: places of silent clients become free."""
        end = time.monotonic() + 20
        while True:
            done = self.run_memtap('ctl', '-J', pid, 'status')
            if not done.returncode:
                return json.loads(done.stdout)
            self.assertLess(time.monotonic(), end, done.stdout + done.stderr)
            time.sleep(0.2)

    def test_front_end(self):
        """memtap msleaks is controlled by the PID of its program."""
        from test_asks import PROGRAM, environment
        d = self.path('front.d')
        p = self.start('front', [memtap(), 'msleaks', '--collect-mode=custom', '--output=' + d, '--', *PROGRAM, 'waits'],
                       env=environment())
        p.until('memtap ctl', 'stderr')
        child = self.child_of(p.pid)
        self.ctl(child, 'start')
        p.line('work\n')
        p.until('done')
        self.ctl(p.pid, 'stop')
        p.line('work\n')
        p.p.stdin.close()
        self.assertEqual(p.wait(), 0, p.stderr())
        rows = readers.read_csv(readers.dump_of(d, 'csv'))
        self.assertEqual(sum(r['event'] == 'MALLOC' and r['type'] == 'PTA' for r in rows), 1)

    def child_of(self, pid):
        for _ in range(500):
            with open(f'/proc/{pid}/task/{pid}/children') as f:
                children = f.read().split()
            if children:
                return int(children[0])
            self.pause(0.01)
        self.fail('no child')
        return 0
